"""Count on from where the last holder stopped, until another one is to go on: `python checkpoint.py FUNCTION`."""

import asyncio
import sys
from contextlib import suppress

import leasehold


async def count(client: leasehold.AsyncClient, function: str) -> None:
    """Add one each second, and save; told that the lock was broken, save the last number and release."""
    async with client.hold(function, wait=leasehold.FOREVER) as hold:
        number: int = hold.checkpoint.json() if hold.checkpoint else 0
        print(f"starting from {number} with token {hold.fencing_token}", flush=True)
        while hold.notice is None:
            number += 1
            await hold.save_json(number)
            print(f"saved {number}", flush=True)
            with suppress(TimeoutError):
                await asyncio.wait_for(hold.wait_revoked(), timeout=1)
        print(f"told to stop: {hold.notice.reason}", flush=True)
        result = await hold.release(checkpoint=str(number).encode())
        print(f"released, checkpoint {result.checkpoint}", flush=True)


async def main() -> None:
    """Count."""
    _, function = sys.argv
    async with leasehold.AsyncClient() as client:
        await count(client, function)


if __name__ == "__main__":
    asyncio.run(main())
