"""The job without its lock, for a negative control: `python job_without_lock.py REPLICA`."""

import sys
import time

from job import ACCOUNT_SECONDS, say


def main() -> None:
    """Close accounts until the process is ended."""
    replica = sys.argv[1]
    while True:
        say("begins", replica=replica)
        time.sleep(5 * ACCOUNT_SECONDS)
        say("ends", replica=replica)


if __name__ == "__main__":
    main()
