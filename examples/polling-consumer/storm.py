"""Kills consumers, runners and sidecars of two hosts, and checks what the consumers did.

- No two consumers ever act at once.
- Every message is handled, and consumers end by themselves.
- Where nothing was killed, the next consumer begins soon after the last one has ended.

The negative control, the same crontab without the lock, must show two consumers at once.
"""

import argparse
import sys
import time

from chaos import Chaos, Folder, overlaps, percentile, until

from stage import Host, Stage, asked_to_end, consumers, handled, quiet_gaps

# Between two consumers, for 95 of 100, in seconds.
GAP = 4.0


def storm(variant: str, seed: int, options: argparse.Namespace) -> None:
    """The real thing, started by cron or by `leasehold every`."""
    rounds, period = options.rounds, options.period
    with Folder("polling-consumer") as folder:
        stage = Stage(folder, f"work-{variant}", work_ms=15)
        producer = stage.produce(options.messages, rounds * period * 800 // options.messages)
        chaos = Chaos(seed, (0.2, rounds * period * 1.4 / (options.kills + options.sidecars)))
        chaos.add("consumer", options.kills // 2, lambda: stage.kill_consumer(chaos))
        if variant == "cron":
            chaos.add("runner", options.kills - options.kills // 2, lambda: stage.kill_runner(chaos))
        chaos.add("sidecar", options.sidecars, lambda: stage.kill_sidecar(chaos))
        time.sleep(1)
        chaos.start()
        if variant == "cron":
            by_cron(stage, period, rounds)
        else:
            for host in stage.hosts:
                host.by_every(period)
        everything = {f"message-{number}" for number in range(options.messages)}
        # Crons go on until everything is done: a killed consumer's messages are hidden for a while.
        while variant == "cron" and not (chaos.is_done and handled(stage.events) == everything):
            assert rounds < options.rounds * 3, "everything is done in time"
            by_cron(stage, period, 1)
            rounds += 1
        chaos.end()
        assert producer.wait(120) == 0, "all messages were sent"
        until("every message is handled", 90, lambda: handled(stage.events) == everything)
        lost = everything - handled(stage.events)
        spans, gaps = consumers(stage.events), quiet_gaps(stage.events)
        p95 = percentile(gaps, 0.95) if gaps else 0.0
        killed = ", ".join(f"{number} {what}s" for what, number in chaos.done.items())
        print(f"{variant}, seed {seed}: killed with -9: {killed}")
        print(
            f"    {len(spans)} consumers, {len(overlaps(spans))} at once; {len(everything) - len(lost)} of "
            f"{len(everything)} messages handled; pause between two, {len(gaps)} without a kill: p95 {p95:.1f} s"
        )
        assert not overlaps(spans), "no two consumers at once"
        assert asked_to_end(stage.events) == 0, "every consumer that nobody disturbs ends by itself"
        assert not lost, f"every message is handled: {sorted(lost)[:5]}"
        assert gaps, "some rounds were quiet"
        assert p95 <= GAP, f"the next consumer begins within {GAP} s"


def by_cron(stage: Stage, period: int, rounds: int) -> None:
    """Some rounds of the crontabs."""

    def start(host: Host, at: int) -> None:
        host.by_cron(at, period)

    stage.rounds(rounds, period, start)


def control(period: int) -> None:
    """Negative control: the usual crontab on two hosts."""
    with Folder("polling-consumer-control") as folder:
        stage = Stage(folder, "work-control", work_ms=15)
        stage.produce(100, 50)

        def start(host: Host, at: int) -> None:
            host.without_lock(at, period)

        time.sleep(1)
        stage.rounds(2, period, start)
        time.sleep(1)
        spans = consumers(stage.events)
        print(f"control, no lock: {len(overlaps(spans))} of {len(spans)} consumers acted beside another")
        assert overlaps(spans), "the control has to show two consumers at once"


def main() -> None:
    """Run everything, and fail if anything is otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="60 rounds instead of 5, and as many by `leasehold every`")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = parser.parse_args()
    sizes = {"rounds": 60, "period": 10, "messages": 2_000, "kills": 40, "sidecars": 10}
    if not options.long:
        sizes = {"rounds": 5, "period": 4, "messages": 150, "kills": 4, "sidecars": 1}
    vars(options).update(sizes)
    try:
        storm("cron", options.seed, options)
        if options.long:
            storm("every", options.seed, options)
        control(4)
    except AssertionError as failure:
        print(f"FAILED with seed {options.seed}: {failure}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
