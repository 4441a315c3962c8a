"""The calls of the client, and how it finds its sidecar."""

import asyncio
import os
import socket
from datetime import UTC, datetime, timedelta

import pytest
from fake import OURS, Holder, bench, grant, validity

import leasehold
from leasehold._connect.options import Connector
from leasehold.v1 import hold_pb2, lock_pb2
from leasehold.v1 import lease_service_pb2 as wire


def record(path: str, state: lock_pb2.LockState.ValueType = lock_pb2.LOCK_STATE_HELD) -> lock_pb2.LockRecord:
    return lock_pb2.LockRecord(lock_path=path, state=state)


async def a_spec_goes_over_the_wire_whole() -> None:
    async with bench() as (made, client):
        made.sidecar.answer = wire.AcquireLeaseResponse(granted=hold_pb2.Grant(lease_id="l", fencing_token=7))
        got = await client.acquire(
            "f",
            "s",
            mode=leasehold.LockMode.LISTENER,
            host_id="h",
            host_type="t",
            wait=1.5,
            lease_duration=timedelta(seconds=15),
            max_hold=60,
            min_hold=2,
            progress_timeout=3,
            auto_renew=False,
            request_id="r",
            holder="me",
            labels={"a": "b"},
        )
        assert got.fencing_token == 7
        spec = made.sidecar.requests[0].spec
        key = lock_pb2.LockKey(function="f", scope="s", mode=lock_pb2.LOCK_MODE_LISTENER, host_id="h", host_type="t")
        assert spec.key == key
        assert spec.wait.ToMilliseconds() == 1_500
        assert spec.lease_duration.seconds == 15
        assert (spec.max_hold.seconds, spec.min_hold.seconds, spec.progress_timeout.seconds) == (60, 2, 3)
        assert spec.HasField("auto_renew")
        assert not spec.auto_renew
        assert (spec.request_id, spec.holder, dict(spec.labels)) == ("r", "me", {"a": "b"})


async def what_is_not_given_is_not_sent() -> None:
    async with bench() as (made, client):
        made.sidecar.answer = wire.AcquireLeaseResponse(granted=hold_pb2.Grant())
        await client.acquire("f")
        spec = made.sidecar.requests[0].spec
        assert {field.name for field, _value in spec.ListFields()} == {"key", "wait", "holder"}
        assert not spec.key.HasField("host_id")


async def a_key_has_its_parts_in_itself() -> None:
    async with bench() as (_made, client):
        with pytest.raises(leasehold.ArgumentError, match="parts of the LockKey"):
            client.hold(leasehold.LockKey("f"), "s")


async def a_busy_acquire_is_an_exception() -> None:
    async with bench() as (made, client):
        made.sidecar.answer = wire.AcquireLeaseResponse(busy=hold_pb2.Busy(reason=hold_pb2.BUSY_REASON_RESTING))
        with pytest.raises(leasehold.BusyError, match="it rests"):
            await client.acquire("f")


async def an_outcome_that_is_not_known_is_no_grant() -> None:
    async with bench() as (made, client):
        made.sidecar.answer = wire.AcquireLeaseResponse()
        with pytest.raises(leasehold.ProtocolError):
            await client.acquire("f")


async def all_pages_are_listed() -> None:
    async with bench() as (made, client):
        made.sidecar.pages = [
            wire.ListLocksResponse(records=[record("a"), record("b")], next_page_token="1"),
            wire.ListLocksResponse(next_page_token="2"),
            wire.ListLocksResponse(records=[record("c")]),
        ]
        assert [got.lock_path async for got in client.list_locks()] == ["a", "b", "c"]
        assert made.sidecar.asked == ["list ''", "list '1'", "list '2'"]


async def a_list_is_filtered_by_state_and_labels() -> None:
    async with bench() as (made, client):
        made.sidecar.pages = [wire.ListLocksResponse()]
        states = [leasehold.LockState.HELD, leasehold.LockState.BREAKING]
        assert [got async for got in client.list_locks(states=states, labels={"team": "a"})] == []
        request = made.sidecar.requests[0]
        assert list(request.states) == [lock_pb2.LOCK_STATE_HELD, lock_pb2.LOCK_STATE_BREAKING]
        assert dict(request.labels) == {"team": "a"}


async def a_break_note_says_how_the_lease_was_broken() -> None:
    async with bench() as (made, client):
        note = lock_pb2.BreakNote(reason="stuck", mode=lock_pb2.BREAK_MODE_NOW)
        made.sidecar.answer = wire.GetLockResponse(record=lock_pb2.LockRecord(break_note=note))
        got = (await client.get_lock("a")).break_note
        assert got is not None
        assert got.mode is leasehold.BreakMode.NOW
        note.mode = lock_pb2.BREAK_MODE_UNSPECIFIED
        made.sidecar.answer = wire.GetLockResponse(record=lock_pb2.LockRecord(break_note=note))
        got = (await client.get_lock("a")).break_note
        assert got is not None
        assert got.mode is None, "not said"


async def a_record_tells_when_its_lock_is_free_at_the_latest() -> None:
    async with bench() as (made, client):
        told = record("a")
        told.lease_duration.seconds = 30
        told.renewed_at.FromSeconds(1_700_000_000)
        made.sidecar.answer = wire.GetLockResponse(record=told)
        got = await client.get_lock("a")
        assert got.lease_duration == 30
        assert got.renewed_at == datetime.fromtimestamp(1_700_000_000, UTC)
        made.sidecar.answer = wire.GetLockResponse(record=record("a"))
        assert (await client.get_lock("a")).lease_duration is None


async def a_watch_gives_each_record() -> None:
    async with bench() as (made, client):
        made.sidecar.pages = [wire.ListLocksResponse(records=[record("a"), record("a", lock_pb2.LOCK_STATE_AVAILABLE)])]
        states = [got.state async for got in client.watch_lock("a")]
        assert states == [leasehold.LockState.HELD, leasehold.LockState.AVAILABLE]


async def a_broken_lock_tells_when_it_is_free() -> None:
    async with bench() as (made, client):
        answer = wire.BreakLockResponse(outcome=wire.BREAK_OUTCOME_BREAKING, record=record("a"))
        answer.free_in.seconds = 12
        made.sidecar.answer = answer
        broken = await client.break_lock("a", "because", mode=leasehold.BreakMode.NOW, broken_by="me")
        assert (broken.outcome, broken.free_in) == (leasehold.BreakOutcome.BREAKING, 12)
        request = made.sidecar.requests[0]
        assert (request.lock.lock_path, request.mode, request.broken_by) == ("a", lock_pb2.BREAK_MODE_NOW, "me")


async def tokens_are_checked_and_paths_resolved() -> None:
    async with bench() as (made, client):
        made.sidecar.answer = wire.CheckTokenResponse(status=wire.TOKEN_STATUS_STALE, newest_fencing_token=9)
        check = await client.check_token(leasehold.LockKey("f"), 8)
        assert check == leasehold.TokenCheck(leasehold.TokenStatus.STALE, 9)
        made.sidecar.answer = wire.ResolvePathResponse(lock_path="p", host_id="h", layout="readable")
        assert (await client.resolve_path(leasehold.LockKey("f"))).lock_path == "p"
        made.sidecar.answer = wire.GetLockResponse(record=record("a"))
        assert (await client.get_lock("a")).acquired_at is None


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
        made.sidecar.answer = wire.GetLockResponse(record=record("a"))
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
        made.sidecar.answer = wire.GetLockResponse(record=record("a"))
        async with made.another(bearer_token="secret") as client:
            await client.get_lock("a")
        assert ("authorization", "Bearer secret") in made.sidecar.metadata
        assert ("leasehold-boot-id", OURS) in made.sidecar.metadata, "S14"


async def more_holds_than_one_connection_carries_leave_room_for_releases() -> None:
    async with bench() as (made, client):

        async def hold(number: int) -> None:
            async with client.hold(f"f{number}"):
                await leave.wait()

        leave = asyncio.Event()
        made.tasks = [asyncio.create_task(hold(number)) for number in range(300)]
        for _ in made.tasks:
            (await made.sidecar.hold()).tell(grant(validity(OURS, 1_058, 58)))
        assert client._made is not None
        # Each has room for a call, too.
        assert [connection.streams for connection in client._made._lasting] == [200, 200, 200]
        leave.set()
        await asyncio.gather(*made.tasks)
        assert len(made.sidecar.asked) == 300
        assert len(client._made._lasting) == 1, "what is not needed any more is closed"


async def a_client_belongs_to_one_loop_and_ends_with_its_closing() -> None:
    async with bench() as (made, client):
        made.sidecar.answer = wire.GetLockResponse(record=record("a"))
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
        (await made.sidecar.hold()).tell(grant(validity(OURS, 1_058, 58)))
        hold = await task
        with monkeypatch.context() as child:
            pid = os.getpid() + 1
            child.setattr(os, "getpid", lambda: pid)
            assert not hold.is_valid()
            with pytest.raises(leasehold.ClosedError, match="forked"):
                await client.get_lock("a")
        assert hold.is_valid()
