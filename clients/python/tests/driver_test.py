"""The driver of the scenarios speaks as they expect; the scenarios themselves need a sidecar."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
from fake import PATIENCE, Bench, Refusal, bench, grant, validity

from leasehold.v1 import hold_pb2, lock_pb2
from leasehold.v1 import lease_service_pb2 as wire

PACKAGE = Path(__file__).parents[1]
TOLD = validity("", 0, 58)


class Driven:
    """The driver's process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    def do(self, what: str, **more: object) -> None:
        self._stdin.write(json.dumps({"id": "x", "do": what, **more}).encode() + b"\n")

    async def event(self) -> dict[str, Any]:
        told = json.loads(await asyncio.wait_for(self._stdout.readline(), PATIENCE))
        assert told.pop("id") == "x"
        return dict(told)


@asynccontextmanager
async def driven() -> AsyncIterator[tuple[Bench, Driven]]:
    async with bench() as (made, _client):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "driver",
            env={
                **os.environ,
                "LEASEHOLD_ENDPOINT": made.endpoint,
                "PYTHONPATH": f"{PACKAGE / 'samples'}:{PACKAGE / 'scenarios'}",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            yield made, Driven(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            await asyncio.wait_for(process.wait(), PATIENCE)


async def a_hold_is_told_with_its_checkpoint_its_permit_and_its_notice() -> None:
    async with driven() as (made, driver):
        driver.do("hold", function="f", permits=3, wait_forever=True)
        call = await made.sidecar.hold()
        assert (call.request.spec.permits, call.request.spec.wait_without_end) == (3, True)
        answer = grant(TOLD)
        answer.granted.permit = 1
        answer.granted.checkpoint.value = b"six"
        call.tell(answer)
        told = await driver.event()
        assert (told["event"], told["permit"], told["checkpoint"]) == ("granted", 1, "six")
        made.sidecar.answer = wire.SaveCheckpointResponse(version=7, validity=TOLD)
        driver.do("save", value="seven")
        assert await driver.event() == {"event": "saved", "version": 7}
        driver.do("save", value="x" * 2_049)
        assert await driver.event() == {"event": "save_failed", "reason": "INVALID_FIELD"}
        made.sidecar.answer = Refusal(grpc.StatusCode.UNAVAILABLE, "CHECKPOINT_UNKNOWN")
        driver.do("save", value="seven")
        assert await driver.event() == {"event": "save_failed", "reason": "CHECKPOINT_UNKNOWN"}
        made.sidecar.report = TOLD
        made.sidecar.info.fencing_token = 65_536
        driver.do("info")
        assert await driver.event() == {"event": "info", "state": "HELD", "token": 65_536}
        note = lock_pb2.BreakNote(reason="new build", for_priority=9)
        call.tell(wire.HoldLeaseResponse(revoked=hold_pb2.Revoked(validity=TOLD, break_note=note)))
        assert await driver.event() == {"event": "revoked", "reason": "new build", "for_priority": 9}
        made.sidecar.release = hold_pb2.ReleaseResult(
            outcome=hold_pb2.RELEASE_OUTCOME_RELEASED, checkpoint_outcome=hold_pb2.CHECKPOINT_OUTCOME_SAVED
        )
        driver.do("release", checkpoint="eight")
        assert await driver.event() == {"event": "released", "checkpoint": "saved"}
        assert made.sidecar.asked[-1].endswith("with b'eight'")


async def a_busy_lock_is_told_with_why_a_priority_waits() -> None:
    async with driven() as (made, driver):
        driver.do("acquire", function="f", priority=7, yields=True, share="listeners", rebalance=True)
        busy = hold_pb2.Busy(priority_status=hold_pb2.PRIORITY_STATUS_NOT_GREATER)
        busy.record.holder, busy.record.sidecar, busy.record.priority = "a", "pod-a/17", 7
        made.sidecar.answer = wire.AcquireLeaseResponse(busy=busy)
        told = await driver.event()
        assert (told["event"], told["holder"], told["priority_status"]) == ("busy", "a", "NOT_GREATER")
        assert (told["sidecar"], told["share"], told["priority"]) == ("pod-a/17", "", 7)
        assert made.sidecar.requests[0].spec.priority == 7
        made.sidecar.answer = wire.AcquireLeaseResponse(busy=hold_pb2.Busy())
        driver.do("acquire", function="f")
        assert (await driver.event())["priority_status"] is None


async def a_save_of_a_hold_that_is_lost_fails() -> None:
    async with driven() as (made, driver):
        driver.do("hold", function="f")
        (await made.sidecar.hold()).tell(grant(TOLD))
        told = await driver.event()
        assert (told["permit"], told["checkpoint"]) == (0, None)
        made.sidecar.answer = Refusal(grpc.StatusCode.FAILED_PRECONDITION, "HOLD_LOST", loss_reason="TAKEN")
        driver.do("save", value="seven")
        events = [await driver.event() for _ in range(3)]
        assert {"event": "save_failed", "reason": "HOLD_LOST"} in events
        assert {"event": "cancelled"} in events


async def a_leader_is_told_term_by_term() -> None:
    async with driven() as (made, driver):
        driver.do("lead", function="f")
        call = await made.sidecar.hold()
        call.tell(wire.HoldLeaseResponse(waiting=hold_pb2.Waiting(position=1)))
        call.tell(grant(TOLD, 1))
        assert await driver.event() == {"event": "leading", "token": 1}
        call.tell(wire.HoldLeaseResponse(lost=hold_pb2.Lost(reason=hold_pb2.LOSS_REASON_TAKEN)))
        assert await driver.event() == {"event": "term_ended"}
        (await made.sidecar.hold()).tell(grant(TOLD, 2))
        assert await driver.event() == {"event": "leading", "token": 2}
        driver.do("stop_leading")
        assert await driver.event() == {"event": "stopped_leading"}
        assert made.sidecar.asked == ["release lease-1 of generation 1"] * 2, "the lost term says that it knows (S13)"


async def all_locks_and_the_sidecar_are_told() -> None:
    async with driven() as (made, driver):
        record = lock_pb2.LockRecord(lock_path="l", state=lock_pb2.LOCK_STATE_HELD, sidecar="pod-a/17")
        record.share, record.priority, record.yields = "listeners", 7, True
        made.sidecar.watch_stays_open = True
        made.sidecar.changes = [
            [
                wire.WatchLocksResponse(changed=record),
                wire.WatchLocksResponse(listed=wire.Listed(locks=1)),
                wire.WatchLocksResponse(gone="l"),
            ]
        ]
        driver.do("watch_locks", prefix="locks/p", share="listeners")
        place = {"sidecar": "pod-a/17", "share": "listeners", "priority": 7, "yields": True}
        assert await driver.event() == {"event": "lock_changed", "path": "l", "state": "HELD", **place}
        assert await driver.event() == {"event": "listed", "locks": 1}
        assert await driver.event() == {"event": "lock_gone", "path": "l"}
        assert (made.sidecar.requests[0].prefix, made.sidecar.requests[0].share) == ("locks/p", "listeners")
        made.sidecar.pages = [wire.ListLocksResponse(records=[record])]
        driver.do("list", share="listeners")
        assert await driver.event() == {"event": "listed", "paths": ["l"]}
        assert made.sidecar.requests[1].share == "listeners"
        made.sidecar.answer = wire.GetServerInfoResponse(version="0.2.0", features=["permits", "notice"])
        driver.do("server_info")
        assert await driver.event() == {"event": "server_info", "version": "0.2.0", "features": ["notice", "permits"]}
