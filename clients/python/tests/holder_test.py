"""What a holder is called that gives itself no name."""

import asyncio
import os
import socket

from fake import bench
from fake_schedules import scheduled

from leasehold._hold.holder import named
from leasehold.v1 import hold_pb2
from leasehold.v1 import lease_service_pb2 as wire

THIS = f"{socket.gethostname()}/{os.getpid()}"


def a_caller_without_a_name_is_its_pod_or_host_and_process() -> None:
    assert named("importer-7f9c", 17) == "importer-7f9c/17"
    assert named("", 17) == "17"
    assert named("bj\u00f6rn", 17) == named("a\nb", 17) == "17"
    assert named("h" * 300, 17) == "h" * 253 + "/17"


async def each_request_that_names_no_holder_names_this_process() -> None:
    async with bench() as (made, client):
        made.sidecar.answer = wire.AcquireLeaseResponse(granted=hold_pb2.Grant())
        await client.acquire("f")
        assert made.sidecar.requests[0].spec.holder == THIS

        async def hold() -> None:
            async with client.hold("f", permits=2):
                pass

        holding = asyncio.create_task(hold())
        assert (await made.sidecar.hold()).request.spec.holder == THIS
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)


async def a_subscriber_that_names_no_holder_names_this_process() -> None:
    async with scheduled() as (_made, schedules, client):
        runs = client.runs("@daily", function="f")
        first = asyncio.ensure_future(anext(runs))
        assert (await schedules.running()).request.holder == THIS
        await first
        await runs.aclose()


def a_fork_names_itself() -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        from leasehold._hold.spec import wanted  # noqa: PLC0415 - in the child

        os.write(write, wanted("f", "", {}).spec.holder.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        assert told.read() == f"{socket.gethostname()}/{child}"
    os.waitpid(child, 0)
