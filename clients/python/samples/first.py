import asyncio

import leasehold


async def main() -> None:
    async with leasehold.AsyncClient() as client, client.hold("nightly-report", wait=30) as hold:
        print(f"writing the report with token {hold.fencing_token}")


asyncio.run(main())
