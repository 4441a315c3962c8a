"""How fast locks are held and released: through the client, and through the generated stub alone."""

import os
import time
from urllib.parse import urlsplit

import grpc.aio

import leasehold
from leasehold.v1.hold_pb2 import LeaseSpec
from leasehold.v1.lease_service_pb2 import HoldLeaseRequest, HoldLeaseResponse, ReleaseLeaseRequest
from leasehold.v1.lease_service_pb2_grpc import LeaseServiceStub
from leasehold.v1.lock_pb2 import LockKey

TURN = 50


async def quick(client: leasehold.AsyncClient, function: str, times: int) -> list[int]:
    """Hold and release a lock `times` times; give the tokens."""
    tokens = []
    for _ in range(times):
        async with client.hold(function) as hold:
            tokens.append(hold.fencing_token)
    return tokens


async def measure(client: leasehold.AsyncClient, function: str, times: int) -> tuple[float, float]:
    """Give the holds a second through the client and through the stub, which take turns in one run."""
    spent = [0.0, 0.0]
    # As in the client: gRPC would send a Unix socket's path as the authority, which is none.
    options = [("grpc.default_authority", "localhost")]
    async with grpc.aio.insecure_channel(target(), options=options) as channel:
        await quick(client, function, 1)
        await through_stub(channel, function, 1)
        done = 0
        while done < times:
            turn = min(TURN, times - done)
            begin = time.perf_counter()
            await quick(client, function, turn)
            between = time.perf_counter()
            await through_stub(channel, function, turn)
            spent[0] += between - begin
            spent[1] += time.perf_counter() - between
            done += turn
    return times / spent[0], times / spent[1]


async def through_stub(channel: grpc.aio.Channel, function: str, times: int) -> None:
    """Hold and release a lock by the generated code alone."""
    stub = LeaseServiceStub(channel)
    request = HoldLeaseRequest(spec=LeaseSpec(key=LockKey(function=function)))
    for _ in range(times):
        call = stub.HoldLease(request)
        while isinstance(event := await call.read(), HoldLeaseResponse):
            if event.HasField("granted"):
                await stub.ReleaseLease(ReleaseLeaseRequest(lease_id=event.granted.lease_id))
            elif event.HasField("busy"):
                raise SystemExit("the lock is busy")


def target() -> str:
    """Give gRPC's name of the endpoint."""
    parts = urlsplit(os.environ.get(leasehold.ENDPOINT_VARIABLE) or leasehold.DEFAULT_ENDPOINT)
    return f"unix:{parts.path}" if parts.scheme == "unix" else parts.netloc
