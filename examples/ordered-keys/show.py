"""Shows the pattern: six workers on two hosts; a worker is killed, and then a sidecar."""

import sys
from collections import Counter

from chaos import Folder, until

from judge import judge
from stage import Stage

MOVEMENTS = 1_200
KILL_WORKER_AFTER = 300
KILL_SIDECAR_AFTER = 600
ACCOUNTS_SHOWN = 3


def say(text: str) -> None:
    """Prints a line at once."""
    print(text, flush=True)


def applied(stage: Stage, number: int) -> None:
    """Waits until so many movements are applied."""
    until(f"{number} movements are applied", 60, lambda: len(stage.events.of("applied")) >= number)


def main() -> int:
    """Goes through the steps; 0 if everything was in order."""
    with Folder("ordered-keys-show") as folder:
        stage = Stage(folder, "show", "worker.js", 6)
        say("1. Two hosts, each with a sidecar and three workers; one Redis.")
        stage.start()

        say(f"2. {MOVEMENTS:,} movements of 200 accounts are added, most of them to few accounts (Zipf).")
        publisher = stage.publisher(MOVEMENTS, 150, 1)
        applied(stage, KILL_WORKER_AFTER)
        shares = Counter(event["pid"] for event in stage.events.of("applied"))
        say(f"   The first {shares.total()} were applied by {len(shares)} workers: {sorted(shares.values())}.")

        worker = stage.workers[0]
        say(f"3. kill -9 {worker.name}. Its connection ends, so its lock is free at once; a new one starts.")
        worker.kill()
        worker.start()
        applied(stage, KILL_SIDECAR_AFTER)

        sidecar = stage.sidecars[1]
        say(f"4. kill -9 the sidecar of {sidecar.name}, which starts again. A lock that its holder cannot resume is")
        say("   free when the lease is over, after 15 s at most; the schedule finds the accounts that nobody is at.")
        sidecar.kill()
        sidecar.start()
        stage.drained(publisher, 60)
        stage.end()

        ledgers = stage.ledgers()
        verdict = judge(list(stage.events), ledgers)
        say(f"5. Applied {verdict.applied} of {verdict.added}: {verdict.lost} lost, {verdict.twice} twice,")
        say(f"   {verdict.out_of_order} out of order, {verdict.overlapping} with two workers at one account.")
        for account, ledger in sorted(ledgers.items(), key=lambda item: -len(item[1]))[:ACCOUNTS_SHOWN]:
            holds, balance = len({entry["token"] for entry in ledger}), ledger[-1]["balance"]
            say(f"   {account}: 1 to {len(ledger)} in order, under {holds} holds; balance {balance}")
        return 1 if verdict.faults or verdict.applied != verdict.added else 0


if __name__ == "__main__":
    sys.exit(main())
