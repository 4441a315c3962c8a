"""Shows a queue drained from two hosts by one consumer at a time; `run` starts it beside Azurite."""

import time

from chaos import Event, Folder, until

from stage import Host, Stage, consumers, handled

MESSAGES = 60
PERIOD = 10


def step(text: str) -> None:
    """Print a heading."""
    print(f"\n\033[1m{text}\033[0m", flush=True)


def summary(events: list[Event], kills: set[int]) -> None:
    """Print what each consumer did."""
    for pid in dict.fromkeys(event["pid"] for event in events if event["what"] == "begins"):
        own = [event for event in events if event.get("pid") == pid]
        number = sum(event["what"] == "handled" for event in own)
        end = "ended by itself before the next occurrence" if own[-1]["what"] == "ends" else "works"
        print(f"    consumer {pid}: {number} messages, {'killed' if pid in kills else end}")


def main() -> None:
    """Show it."""
    with Folder("polling-consumer-show") as folder:
        stage = Stage(folder, "work", work_ms=50)
        kills: set[int] = set()

        step("1. Two hosts, one crontab, one queue: at each occurrence both start `leasehold run … consumer.js`.")
        stage.produce(MESSAGES, 150)

        def by_cron(host: Host, at: int) -> None:
            host.by_cron(at, PERIOD // 2)

        stage.rounds(2, PERIOD // 2, by_cron)
        until("a second consumer works", 20, lambda: len(consumers(stage.events)) > 1)
        time.sleep(1)
        summary(list(stage.events), kills)
        print("    One at a time: the other host's run ends when it sees that the occurrence is done.")

        step(
            "2. kill -9 of the consumer: the hold is released, and the other host's run of this occurrence takes over."
        )
        victim = stage.consumer()
        before = len(consumers(stage.events))
        if victim is not None and stage.kill(victim):
            kills.add(victim)
        stage.rounds(1, PERIOD // 2, by_cron)
        until("another consumer works", 30, lambda: len(consumers(stage.events)) > before)

        step(f"3. The same without cron: `leasehold every '*/{PERIOD} * * * * *'` on both hosts.")
        begun = len(consumers(stage.events))
        for host in stage.hosts:
            host.by_every(PERIOD)
        until("a consumer works at an occurrence", 40, lambda: len(consumers(stage.events)) > begun)
        until("every message is handled", 60, lambda: len(handled(stage.events)) == MESSAGES)
        summary(list(stage.events), kills)
        print(f"    All {MESSAGES} messages are handled.")
    print("\nEverything is ended, and nothing is left.")


if __name__ == "__main__":
    main()
