import asyncio

import leasehold

client = leasehold.AsyncClient()


@client.every("30 2 * * *", function="nightly", time_zone="Europe/Copenhagen")
async def nightly(run: leasehold.AsyncRun) -> None:
    print(f"writing the report of {run.local_time}")


asyncio.run(nightly())
