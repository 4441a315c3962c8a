"""A job of a deployment: closes accounts, in one replica at a time. `python job.py REPLICA`, for as long as it is let.

EVENTS names a file that gets a line of JSON for each thing that happens; without it they are only printed.
"""

import json
import os
import signal
import sys
import time
from types import FrameType

import leasehold

FUNCTION = "Keeper.CloseAccounts"
ACCOUNT_SECONDS = float(os.environ.get("ACCOUNT_SECONDS", "0.2"))


def say(what: str, **values: object) -> None:
    """Print an event, and write it to the file for events."""
    line = json.dumps({"at": time.monotonic_ns(), "what": what, **values})
    print(line, flush=True)
    if path := os.environ.get("EVENTS"):
        with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123
            file.write(line + "\n")


def close_accounts(client: leasehold.Client, replica: str) -> None:
    """Close five accounts under the lock, and leave the next ones to whoever waits."""
    with client.hold(FUNCTION, wait=leasehold.FOREVER, lease_duration=15, holder=replica) as hold:
        say("begins", replica=replica, token=hold.fencing_token, pid=os.getpid())
        try:
            for _ in range(5):
                hold.check()
                time.sleep(ACCOUNT_SECONDS)
        finally:
            say("ends", replica=replica, token=hold.fencing_token)


def main() -> None:
    """Close accounts until SIGTERM."""

    def end(_number: int, _frame: FrameType | None) -> None:
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    replica = sys.argv[1]
    with leasehold.Client() as client:
        while True:
            try:
                close_accounts(client, replica)
            except leasehold.LostError as lost:
                say("lost", replica=replica, why=str(lost))


if __name__ == "__main__":
    main()
