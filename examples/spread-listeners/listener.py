"""Listens to queues, each in one replica of all: `python listener.py QUEUES`, until SIGTERM.

EVENTS names a file that gets a line of JSON for each thing that happens; without it they are only printed.
"""

import asyncio
import json
import os
import signal
import sys
import time

import leasehold

SHARE = "listeners"
LEASE = 15
# Where the next listener goes on is saved after so many messages, and at the end.
SAVE_EVERY = 10


def say(what: str, **values: object) -> None:
    """Print an event, and write it to the file for events."""
    line = json.dumps({"at": time.monotonic_ns(), "what": what, "replica": os.environ.get("REPLICA"), **values})
    print(line, flush=True)
    if path := os.environ.get("EVENTS"):
        with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123
            file.write(line + "\n")


async def listen(client: leasehold.AsyncClient, queue: int) -> None:
    """Listen to a queue whenever this replica has it."""
    terms = client.lead(
        "listener",
        scope=f"queue-{queue}",
        lease_duration=LEASE,
        share=SHARE,
        yields=True,
        rebalance=True,
    )
    async for term in terms:
        async with term:
            await handle_messages(term, queue)


async def handle_messages(term: leasehold.AsyncHold, queue: int) -> None:
    """Handle the queue's messages until it is left to another replica, which goes on where this one stops."""
    done: int = term.checkpoint.json() if term.checkpoint else 0
    say("begins", queue=queue, done=done, token=term.fencing_token)
    try:
        while term.notice is None:
            await asyncio.sleep(0.2)  # a message
            done += 1
            if done % SAVE_EVERY == 0:
                await term.save_json(done)
    finally:
        # Also when the process is told to end.
        say("ends", queue=queue, done=done, token=term.fencing_token)
        await term.release(checkpoint=str(done).encode())


async def main() -> None:
    """Listen to all queues until SIGTERM."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with leasehold.AsyncClient() as client, asyncio.TaskGroup() as group:
        listeners = [group.create_task(listen(client, queue)) for queue in range(int(sys.argv[1]))]
        say("ready")
        await stopping.wait()
        for listener in listeners:
            listener.cancel()


if __name__ == "__main__":
    asyncio.run(main())
