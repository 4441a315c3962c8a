"""Crawl until Ctrl-C, as one of at most three: `python permits.py FUNCTION`."""

import asyncio
import sys

import leasehold


async def main() -> None:
    """Crawl."""
    _, function = sys.argv
    async with leasehold.AsyncClient() as client, client.hold(function, permits=3, wait=leasehold.FOREVER) as hold:
        print(f"crawling with permit {hold.permit}, token {hold.fencing_token}", flush=True)
        await asyncio.Event().wait()  # the work, which is cancelled when the permit is lost


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("released")
