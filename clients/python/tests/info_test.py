"""What a sidecar, its holds and its locks are asked for: GetServerInfo, GetHold, WatchLocks."""

import asyncio
from contextlib import aclosing
from typing import Any

import grpc
import pytest
from fake import OURS, Refusal, bench, deadline, granted, validity
from sync_test import during, sync

import leasehold
from leasehold.v1 import lease_service_pb2 as wire
from leasehold.v1 import lock_pb2

GONE = Refusal(grpc.StatusCode.UNAVAILABLE)


def revealing() -> wire.GetHoldResponse:
    told = wire.GetHoldResponse(state=wire.HOLD_STATE_REVOKED, lock_path="l", fencing_token=7, generation=2, permit=1)
    told.max_hold_ends.CopyFrom(deadline(OURS, 1_300, 300))
    told.progress_due.CopyFrom(deadline(OURS, 1_030, 30))
    told.break_note.reason = "stuck"
    return told


async def a_hold_tells_its_state_and_limits() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        made.sidecar.report = validity(OURS, 1_060, 60)
        made.sidecar.info = revealing()
        info = await holder.hold.info()
        assert (info.state, info.lock_path, info.fencing_token) == (leasehold.HoldState.REVOKED, "l", 7)
        assert (info.generation, info.permit) == (2, 1)
        assert info.validity == leasehold.Validity(OURS, 1_060, 60)
        assert info.max_hold_ends == leasehold.Deadline(OURS, 1_300, 300)
        assert info.progress_due == leasehold.Deadline(OURS, 1_030, 30)
        assert info.break_note is not None
        assert info.break_note.reason == "stuck"
        assert made.sidecar.asked == ["ask of generation 1"]
        assert holder.hold.remaining() == 60, "its validity counts"
        assert holder.hold.max_hold_ends == 1_300


async def a_hold_that_was_lost_says_so_when_it_is_asked() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        made.sidecar.report = Refusal(grpc.StatusCode.FAILED_PRECONDITION, "HOLD_LOST", loss_reason="BROKEN")
        with pytest.raises(leasehold.RefusedError) as caught:
            await holder.hold.info()
        assert caught.value.loss_reason is leasehold.LossReason.BROKEN
        assert not holder.hold.is_valid()


async def a_hold_without_a_stream_is_asked_for_by_its_id() -> None:
    async with bench() as (made, client):
        info = await client.get_hold("lease-9")
        assert (info.state, info.max_hold_ends, info.break_note) == (leasehold.HoldState.HELD, None, None)

        def work() -> leasehold.HoldInfo:
            with sync(made) as blocking:
                return blocking.get_hold("lease-9")

        assert await asyncio.to_thread(work) == info


async def a_thread_asks_for_its_hold() -> None:
    async with bench() as (made, _client):

        def work(client: leasehold.Client) -> leasehold.HoldState:
            with client.hold("f") as hold:
                return hold.info().state

        _call, task = await during(made, work)
        assert await task is leasehold.HoldState.HELD


async def a_sidecar_tells_what_it_is() -> None:
    async with bench() as (made, client):
        told = wire.GetServerInfoResponse(version="0.2.0", boot_id=OURS, features=["permits", "notice", "new"])
        told.host_id, told.host_type, told.layout, told.store = "h", "t", "readable", "memory"
        limits = told.limits
        limits.wait.seconds, limits.max_hold.seconds, limits.default_max_hold.seconds = 86_400, 3_600, 600
        limits.default_lease_duration.seconds = 60
        limits.holds, limits.waiters, limits.streams_per_connection = 1, 2, 3
        limits.permits, limits.checkpoint_bytes = 32, 2_048
        made.sidecar.answer = told
        info = await client.get_server_info()
        assert info.features == {"permits", "notice", "new"}
        assert (info.version, info.boot_id) == ("0.2.0", OURS)
        assert (info.host_id, info.host_type, info.layout, info.store) == ("h", "t", "readable", "memory")
        assert info.limits == leasehold.ServerLimits(86_400, 3_600, 600, 60, 1, 2, 3, 32, 2_048)

        def work() -> leasehold.ServerInfo:
            with sync(made) as blocking:
                return blocking.get_server_info()

        assert await asyncio.to_thread(work) == info


def changed(path: str, state: lock_pb2.LockState.ValueType = lock_pb2.LOCK_STATE_HELD) -> wire.WatchLocksResponse:
    return wire.WatchLocksResponse(changed=lock_pb2.LockRecord(lock_path=path, state=state))


def gone(path: str) -> wire.WatchLocksResponse:
    return wire.WatchLocksResponse(gone=path)


def listed(locks: int) -> wire.WatchLocksResponse:
    return wire.WatchLocksResponse(listed=wire.Listed(locks=locks))


def short(event: leasehold.LocksEvent) -> str:
    match event:
        case leasehold.LockChanged(record):
            return f"{record.lock_path} {record.state.name}"
        case leasehold.LockGone(path):
            return f"{path} gone"
        case leasehold.LocksListed(locks):
            return f"listed {locks}"


async def all_locks_are_followed_in_one_stream() -> None:
    async with bench() as (made, client):
        made.sidecar.changes = [[changed("a"), listed(1), changed("b"), wire.WatchLocksResponse(), gone("a")]]
        events = [short(event) async for event in client.watch_locks(prefix="locks/p", labels={"team": "x"})]
        assert events == ["a HELD", "listed 1", "b HELD", "a gone"]
        request = made.sidecar.requests[0]
        assert (request.prefix, dict(request.labels)) == ("locks/p", {"team": "x"})


async def a_stream_that_breaks_goes_on_with_the_differences() -> None:
    async with bench() as (made, client):
        made.sidecar.changes = [
            [changed("a"), changed("b"), changed("c"), listed(3)],
            [changed("a"), changed("c", lock_pb2.LOCK_STATE_AVAILABLE), changed("d"), listed(3)],
            [changed("a")],
            [changed("a"), listed(1)],
        ]
        made.sidecar.answer = GONE
        seen: list[str] = []
        async with aclosing(client.watch_locks(host_id="h")) as events:
            async for event in events:
                seen.append(short(event))
                if seen[-1] == "listed 1":
                    break
        assert seen == [
            *("a HELD", "b HELD", "c HELD", "listed 3"),
            *("c AVAILABLE", "d HELD", "b gone", "listed 3"),
            *("c gone", "d gone", "listed 1"),
        ]
        assert made.sidecar.requests[1].host_id == "h"


async def a_stream_that_was_never_opened_is_refused() -> None:
    async with bench() as (made, client):
        made.sidecar.answer = GONE
        with pytest.raises(leasehold.RefusedError):
            await anext(client.watch_locks())
        with pytest.raises(leasehold.ArgumentError, match="not both"):
            await anext(client.watch_locks(host_id="h", prefix="p"))


async def a_thread_follows_all_locks() -> None:
    async with bench() as (made, _client):
        made.sidecar.changes = [[changed("a"), listed(1)]]
        made.sidecar.watch_stays_open = True

        def work() -> list[Any]:
            with sync(made) as client:
                events = client.watch_locks()
                return [short(next(events)) for _ in range(2)]

        assert await asyncio.to_thread(work) == ["a HELD", "listed 1"]
