"""The control: as listener.py, and no lock names a share."""

import asyncio

import leasehold

import listener


async def listen(client: leasehold.AsyncClient, queue: int) -> None:
    """Listen to a queue whenever this replica has it."""
    async for term in client.lead("listener", scope=f"queue-{queue}", lease_duration=listener.LEASE):
        async with term:
            await listener.handle_messages(term, queue)


if __name__ == "__main__":
    listener.listen = listen
    asyncio.run(listener.main())
