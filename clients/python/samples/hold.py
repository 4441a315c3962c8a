"""Hold a lock until Ctrl-C, and say what happens to it: `python hold.py FUNCTION [SCOPE]`."""

import asyncio
import sys

import leasehold


async def main() -> None:
    """Hold the lock."""
    function, scope = [*sys.argv[1:], ""][:2]
    async with leasehold.AsyncClient() as client:
        try:
            async with client.hold(function, scope, wait=60, on_event=print) as hold:
                print(f"holding {hold.lock_path}, token {hold.fencing_token}")
                await asyncio.Event().wait()
        except leasehold.BusyError as error:
            print(error)
        except leasehold.LostError as error:
            print(error)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("released")
