"""Kills and stops workers and sidecars by a seed, and checks that every account was applied whole and in order."""

import argparse
import dataclasses
import random
import sys
import threading
import time

from chaos import Chaos, Folder, Program, until

from judge import Verdict, judge
from stage import Stage

LEASE = 15.0
STUCK = LEASE + 10.0
PATIENCE = 600.0
COLUMNS = ["added", "applied", "lost", "twice", "out of order", "overlapping", "work repeated", "holds"]
COLUMNS += ["waited p50", "waited p95", "nobody at it, longest", "a second"]
KILLED = "eight workers, killed"
RECIPE = "control: the usual recipe"


@dataclasses.dataclass(frozen=True)
class Size:
    movements: int
    a_second: int
    worker_kills: int
    sidecar_kills: int
    stops: int
    between: tuple[float, float]
    plain: int


SHORT = Size(movements=600, a_second=90, worker_kills=8, sidecar_kills=2, stops=0, between=(0.3, 1.2), plain=400)
LONG = Size(movements=20_000, a_second=80, worker_kills=90, sidecar_kills=10, stops=0, between=(0.3, 1.9), plain=2_000)

# Longer than a lease: what a frozen worker does when it goes on is to be refused. Who is left has twice the work.
FROZEN = Size(movements=4_000, a_second=50, worker_kills=0, sidecar_kills=0, stops=3, between=(1.0, 3.0), plain=0)


def verdict_of(stage: Stage) -> Verdict:
    return judge(list(stage.events), stage.ledgers())


def plain(stage: Stage, movements: int, seed: int) -> Verdict:
    """A run that nothing disturbs, in which all movements are there from the beginning."""
    publisher = stage.publisher(movements, 100_000, seed)
    until("everything is added", PATIENCE, lambda: not publisher.is_running)
    stage.start()
    stage.drained(publisher, PATIENCE)
    statuses = stage.end()
    assert all(status == 0 for status in statuses), f"workers ended with {statuses}"
    verdict = verdict_of(stage)
    begins = [int(event["at"]) for event in stage.events.of("begin")]
    verdict.seconds = (max(begins) - min(begins)) / 1e9
    return verdict


def disturbed(folder: Folder, name: str, size: Size, seed: int) -> tuple[Verdict, dict[str, int], float]:
    """A run with kills and stops, while movements are added."""
    stage = Stage(folder, name, "worker.js", 8)
    stage.start()
    chaos = Chaos(seed, size.between)
    chosen = random.Random(seed)
    settled = Disturbance(stage, chosen)
    chaos.add("worker killed", size.worker_kills, settled.kill_worker)
    chaos.add("sidecar killed", size.sidecar_kills, settled.kill_sidecar)
    chaos.add("host frozen for 20 s", size.stops, settled.stop_host)
    publisher = stage.publisher(size.movements, size.a_second, seed)
    chaos.start()
    try:
        chaos.end()
        stage.drained(publisher, PATIENCE)
    except BaseException:
        chaos.cancel()
        raise
    after = (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - chaos.last_at) / 1e9
    stage.end()
    return verdict_of(stage), chaos.done, after


class Disturbance:
    """What is done to the workers and the sidecars."""

    def __init__(self, stage: Stage, chosen: random.Random) -> None:
        self._stage = stage
        self._random = chosen

    def kill_worker(self) -> bool:
        worker = self._random.choice(self._stage.workers)
        acted = worker.kill()
        worker.start()
        return acted

    def kill_sidecar(self) -> bool:
        sidecar = self._random.choice(self._stage.sidecars)
        acted = sidecar.kill()
        sidecar.start()
        return acted

    def stop_host(self) -> bool:
        """A sidecar and its workers, longer than a lease: a machine that was frozen."""
        sidecar = self._random.choice(self._stage.sidecars)
        frozen: list[Program] = [
            sidecar,
            *(each for each in self._stage.workers if self._stage.hosts[each.name] is sidecar),
        ]
        acted: list[bool] = []
        threads = [threading.Thread(target=lambda one=one: acted.append(one.stop_for(LEASE + 5))) for one in frozen]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return all(acted)


def row(name: str, verdict: Verdict) -> str:
    # In the other runs all movements are there at once, and accounts wait for a worker.
    nobody = f"{verdict.stuck:.1f} s" if name == KILLED else ""
    faults = [verdict.lost, verdict.twice, verdict.out_of_order, verdict.overlapping]
    figures = [verdict.added, verdict.applied, *faults, verdict.repeated, verdict.holds]
    times = f"{verdict.waited_p50:.2f} s | {verdict.waited_p95:.2f} s | {nobody}"
    return f"| {name} | {' | '.join(map(str, figures))} | {times} | {verdict.a_second:.0f} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="20,000 movements and 100 kills")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    size: Size = LONG if arguments.long else SHORT
    seed: int = arguments.seed
    print(f"seed {seed}", flush=True)

    problems: list[str] = []
    with Folder("ordered-keys") as folder:
        print(f"| run | {' | '.join(COLUMNS)} |")
        print(f"| --- |{' ---: |' * len(COLUMNS)}", flush=True)

        def tell(name: str, verdict: Verdict) -> Verdict:
            print(row(name, verdict), flush=True)
            if name != RECIPE and (verdict.faults or verdict.applied != verdict.added):
                problems.append(f"{name}: {verdict}")
            return verdict

        one = tell("one worker", plain(Stage(folder, "one", "worker.js", 1), size.plain // 4, seed))
        eight = tell("eight workers", plain(Stage(folder, "eight", "worker.js", 8), size.plain, seed))
        if arguments.long:
            partitions = Stage(folder, "partitions", "partitions.js", 8)
            tell("eight workers, 32 partitions", plain(partitions, size.plain, seed))
        verdict, done, after = disturbed(folder, "killed", size, seed)
        tell(KILLED, verdict)
        if arguments.long:
            frozen, stops, _ = disturbed(folder, "frozen", FROZEN, seed)
            tell("eight workers, hosts frozen", frozen)
            done["host frozen for 20 s"] = stops["host frozen for 20 s"]
        # The busiest account takes longer than the time-out.
        recipe = Stage(folder, "recipe", "usual-recipe.js", 8, work_ms=60)
        control = tell(RECIPE, plain(recipe, size.plain, seed))

        faster = eight.a_second / one.a_second
        print(f"eight workers are {faster:.1f} times as fast as one")
        print(f"done: {done}; all applied {after:.1f} s after the last of them")
        if arguments.long and faster < 4:
            problems.append(f"eight workers are only {faster:.1f} times as fast as one")
        if verdict.stuck > STUCK:
            problems.append(f"nobody was at an account for {verdict.stuck:.1f} s")
        if control.out_of_order == 0:
            problems.append("the usual recipe kept the order, so this test shows nothing")
        if problems:
            raise SystemExit("\n".join(problems))
    print("in order, whole, and once; and the usual recipe was not")
    return 0


if __name__ == "__main__":
    sys.exit(main())
