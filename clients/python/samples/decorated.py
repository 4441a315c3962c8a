import asyncio

import leasehold

client = leasehold.AsyncClient()


@client.hold("nightly-report", wait=30)
async def write_report(title: str) -> None:
    print(f"writing {title} with token {leasehold.current_hold().fencing_token}")


asyncio.run(write_report("the report"))
