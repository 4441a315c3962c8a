"""The calls of the client, and how it finds its sidecar."""

import asyncio
import os
import socket
from datetime import UTC, datetime

import pytest
from fake import OURS, Holder, bench

import leasehold
from leasehold._connect.options import Connector
from leasehold.v1 import hold_pb2, lock_pb2, schedule_pb2
from leasehold.v1 import lease_service_pb2 as wire


async def all_pages_are_listed() -> None:
    async with bench() as (made, client):
        made.sidecar.pages = [
            wire.ListLocksResponse(records=[lock_pb2.LockRecord(lock_path="a")], next_page_token="1"),
            wire.ListLocksResponse(next_page_token="2"),
            wire.ListLocksResponse(records=[lock_pb2.LockRecord(lock_path="b")]),
        ]
        assert [got.lock_path async for got in client.list_locks()] == ["a", "b"]
        assert made.sidecar.asked == ["list ''", "list '1'", "list '2'"]
        with leasehold.Client(made.endpoint) as blocking:
            listing = asyncio.to_thread(lambda: [got.lock_path for got in blocking.list_locks()])
            assert await listing == ["a", "b"]


async def t2_a_unary_acquire_tells_its_attempt_and_that_its_occurrence_is_over() -> None:
    async with bench() as (made, client):
        run = schedule_pb2.EndedRun(outcome=schedule_pb2.RUN_OUTCOME_FAILED_FINAL)
        made.sidecar.answers = [
            wire.AcquireLeaseResponse(already_done=hold_pb2.AlreadyDone(run=run)),
            wire.AcquireLeaseResponse(skipped=hold_pb2.Skipped()),
            wire.AcquireLeaseResponse(granted=hold_pb2.Grant(attempt=2)),
        ]
        at = datetime(2026, 11, 23, tzinfo=UTC)
        for match in ("FAILED_FINAL", "a newer one"):
            with pytest.raises(leasehold.OccurrenceOverError, match=match):
                await client.acquire("f", occurrence_at=at)
        assert (await client.acquire("f", occurrence_at=at)).attempt == 2


async def an_outcome_that_is_not_known_is_no_grant() -> None:
    async with bench() as (made, client):
        made.sidecar.answer = wire.AcquireLeaseResponse()
        with pytest.raises(leasehold.ProtocolError):
            await client.acquire("f")


@pytest.mark.parametrize(
    "endpoint",
    [
        "127.0.0.1:50951",
        "ftp://host:1",
        "unix://",
        "unix://host/path",
        "http://",
        "http://a b:1",
        "http://h:x",
        "http://h:1/x",
    ],
)
def invalid_endpoints_are_refused_with_what_would_be_valid(endpoint: str) -> None:
    with pytest.raises(leasehold.EndpointError, match="http://host:port"):
        leasehold.AsyncClient(endpoint)


def the_environment_says_where_the_sidecar_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_ENDPOINT", "unix:///run/leasehold.sock")
    assert repr(leasehold.AsyncClient()) == "<AsyncClient unix:///run/leasehold.sock>"
    monkeypatch.setenv("LEASEHOLD_ENDPOINT", "")
    assert repr(leasehold.Client()) == "<Client http://127.0.0.1:50951>"


async def nobody_there_is_said_with_what_to_do() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for endpoint in (f"http://127.0.0.1:{port}", "unix:///nowhere/leasehold.sock"):
        async with leasehold.AsyncClient(endpoint) as client:
            with pytest.raises(leasehold.UnreachableError, match=f"{endpoint}; start one with `leasehold serve`"):
                await client.get_lock("a")
            with pytest.raises(leasehold.UnreachableError):
                async with client.hold("f"):
                    pytest.fail("nobody can have granted it")


async def a_sidecar_that_has_just_come_back_is_asked() -> None:
    async with bench() as (made, client):
        made.sidecar.answer = wire.GetLockResponse(record=lock_pb2.LockRecord(lock_path="a"))
        await made.kill()
        for _ in range(5):
            with pytest.raises(leasehold.UnreachableError):
                await client.get_lock("a")
        await made.start()
        assert (await client.get_lock("a")).lock_path == "a"


def a_unix_sockets_path_is_not_sent_as_the_authority() -> None:
    # HTTP/2 servers refuse the form that gRPC would give it.
    connector = Connector("unix:///run/leasehold.sock", {})
    assert ("grpc.default_authority", "localhost") in connector._options


def tls_options_must_fit_the_endpoint() -> None:
    tls = leasehold.Tls(ca_certificate=b"pem", client_key=b"secret")
    with pytest.raises(leasehold.EndpointError, match="only https"):
        leasehold.Client("http://127.0.0.1:1", tls=tls)
    with pytest.raises(leasehold.EndpointError, match="certificate authority"):
        leasehold.Client("https://127.0.0.1:1")
    with pytest.raises(leasehold.EndpointError, match="go together"):
        leasehold.Client("https://127.0.0.1:1", tls=tls)
    assert "secret" not in repr(tls), "S20"


def s20_the_token_is_never_shown() -> None:
    with pytest.raises(leasehold.EndpointError) as caught:
        leasehold.Client("http://127.0.0.1:1", bearer_token="se\ncret")
    assert "cret" not in str(caught.value)
    assert "cret" not in repr(leasehold.Client("http://127.0.0.1:1", bearer_token="secret"))


async def the_token_goes_with_each_call() -> None:
    async with bench() as (made, _client):
        made.sidecar.answer = wire.GetLockResponse(record=lock_pb2.LockRecord(lock_path="a"))
        async with made.another(bearer_token="secret") as client:
            await client.get_lock("a")
        assert ("authorization", "Bearer secret") in made.sidecar.metadata
        assert ("leasehold-boot-id", OURS) in made.sidecar.metadata, "S14"


async def a_client_belongs_to_one_loop_and_ends_with_its_closing() -> None:
    async with bench() as (made, client):
        made.sidecar.answer = wire.GetLockResponse(record=lock_pb2.LockRecord(lock_path="a"))
        await client.get_lock("a")
        with pytest.raises(leasehold.ClosedError, match="another event loop"):
            await asyncio.to_thread(lambda: asyncio.run(client.get_lock("a")))
        await client.close()
        with pytest.raises(leasehold.ClosedError, match="was closed"):
            await client.get_lock("a")


async def a_client_that_is_closed_ends_its_calls_by_an_error_and_cancels_nobody() -> None:
    async with bench() as (made, client):
        holder = Holder(made, client)
        call = await made.sidecar.hold()
        await client.close()
        with pytest.raises(leasehold.ClosedError, match="closed during the call"):
            await holder.task
        await call.ended()


async def s13_a_forked_child_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench() as (made, client):
        task = asyncio.create_task(client.hold("f").__aenter__())
        await made.sidecar.granted()
        hold = await task
        with monkeypatch.context() as child:
            pid = os.getpid() + 1
            child.setattr(os, "getpid", lambda: pid)
            assert not hold.is_valid()
            with pytest.raises(leasehold.ClosedError, match="forked"):
                await client.get_lock("a")
        assert hold.is_valid()
