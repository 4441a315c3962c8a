"""Do the leader's work for as long as this process leads, until Ctrl-C: `python leader.py FUNCTION`."""

import asyncio
import sys

import leasehold


async def main() -> None:
    """Lead."""
    _, function = sys.argv
    async with leasehold.AsyncClient() as client:
        async for term in client.lead(function):
            async with term:
                print(f"leading with token {term.fencing_token}", flush=True)
                await asyncio.Event().wait()  # the work, which is cancelled when the term is lost
            print("not leading any more", flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("released")
