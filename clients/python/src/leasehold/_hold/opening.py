"""Asking for a lock, until it is granted or known to be busy."""

import asyncio
from typing import Final

import grpc

from leasehold._connect.calls import Calls, HoldCall
from leasehold._connect.listening import ENDED, SilentError
from leasehold._constants import FIRST_PAUSE, LONGEST_PAUSE
from leasehold._convert import moment, proto_duration, seconds
from leasehold._enums import LossReason
from leasehold._errors.answers import BusyError, LostError, OccurrenceOverError
from leasehold._errors.errors import RefusedError, comes_back, is_below_needs
from leasehold._hold import events
from leasehold._hold.grants import Busy, Grant, Loss
from leasehold._hold.keeper import Keeper
from leasehold._hold.line import HoldLine, Line
from leasehold._hold.spec import Wanted
from leasehold._hold.state import LocalState
from leasehold._records import LockRecord
from leasehold._runs.schedules import EndedRun
from leasehold.v1 import hold_pb2
from leasehold.v1.lease_service_pb2 import GetHoldResponse, HoldLeaseRequest, HoldLeaseResponse

_LATE: Final = Loss(LossReason.EXPIRED, "the grant came too late")


async def open_keeper(
    calls: Calls,
    wanted: Wanted,
    handler: events.EventHandler | None,
) -> tuple[Keeper, Grant]:
    """Take the lock and begin to keep it.

    Cancelled before the grant, it leaves the queue, and a grant on its way is released.
    """
    waiting = _Waiting(calls, wanted, handler)
    while True:
        sent = calls.clock.now()
        call = calls.hold(HoldLeaseRequest(spec=waiting.spec()))
        try:
            # The connection stays until the hold has its place, also where the stream ends with the grant.
            with calls.about(call.connection):
                answer = await waiting.answer(call)
                if isinstance(answer, hold_pb2.Grant):
                    return await begin(calls, HoldLine(calls, call), answer, sent, handler)
            if not wanted.forever:
                raise BusyError(wanted.name, Busy._from_wire(answer))
            waiting = waiting.again()
            await waiting.pause()
        except RefusedError as refused:
            call.cancel()
            if not waiting.goes_on(refused):
                raise
            await waiting.pause()
        except BaseException:
            call.cancel()
            raise


class _Waiting:
    """A wait for a lock, over one stream after the other where connections break."""

    def __init__(self, calls: Calls, wanted: Wanted, handler: events.EventHandler | None) -> None:
        self._calls: Final = calls
        self._wanted: Final = wanted
        self._handler: Final = handler
        self._loop: Final = asyncio.get_running_loop()
        self._until: Final = self._loop.time() + wanted.wait
        self._tries = 0
        self._next_pause = FIRST_PAUSE
        # What the sidecar said last of the wait, and whether it has answered at all.
        self._told: hold_pb2.Waiting | None = None
        self._is_heard = False

    def again(self) -> "_Waiting":
        """Give the next wait of one without end."""
        waiting = _Waiting(self._calls, self._wanted, self._handler)
        waiting._told, waiting._is_heard = self._told, True
        return waiting

    def spec(self) -> hold_pb2.LeaseSpec:
        """Give what to ask for, with what is left of the wait."""
        self._tries += 1
        if self._tries == 1 or self._wanted.forever:
            return self._wanted.spec
        spec = hold_pb2.LeaseSpec()
        spec.CopyFrom(self._wanted.spec)
        spec.wait.CopyFrom(proto_duration("wait", max(self._until - self._loop.time(), 0)))
        return spec

    def goes_on(self, error: RefusedError) -> bool:
        """Say whether to ask again: no sidecar answers, it is too old (S37), or the connection broke in the wait."""
        is_ours = not self._wanted.paced or self._is_heard or isinstance(error, SilentError)
        has_time = self._wanted.forever or self._loop.time() < self._until
        return has_time and (is_below_needs(error) or (is_ours and comes_back(error)))

    async def pause(self) -> None:
        """Let the sidecar come back."""
        left = max(self._until - self._loop.time(), 0)
        await asyncio.sleep(self._next_pause if self._wanted.forever else min(self._next_pause, left))
        self._next_pause = min(2 * self._next_pause, LONGEST_PAUSE)

    async def answer(self, call: HoldCall) -> hold_pb2.Grant | hold_pb2.Busy:
        """Wait on one stream."""
        while True:
            with self._calls.typed_errors():
                message = await call.read()
            if not isinstance(message, HoldLeaseResponse):
                raise RefusedError(grpc.StatusCode.UNAVAILABLE, ENDED)
            match message.WhichOneof("event"):
                case "granted":
                    return message.granted
                case "busy":
                    return message.busy
                case "already_done":
                    run = EndedRun._from_wire(message.already_done.run)
                    raise OccurrenceOverError(run, None)
                case "skipped":
                    raise OccurrenceOverError(None, moment(message.skipped.watermark))
                case "lost":
                    raise LostError("asked for", Loss._from_wire(message.lost))
                case "waiting":
                    self._tell(message.waiting)
                case _:
                    # Not said before a grant, or an event that this version does not know.
                    pass

    def _tell(self, waiting: hold_pb2.Waiting) -> None:
        self._is_heard, self._next_pause = True, FIRST_PAUSE
        # The sidecar repeats what it said, so that a dead connection is noticed.
        if waiting == self._told:
            return
        self._told = waiting
        record = LockRecord._from_wire(waiting.record) if waiting.HasField("record") else None
        events.tell(self._handler, events.Waiting(waiting.position, record))


async def begin(
    calls: Calls,
    line: Line,
    granted: hold_pb2.Grant,
    sent: int,
    handler: events.EventHandler | None,
) -> tuple[Keeper, Grant]:
    """Begin to keep what was granted in answer to a request sent at `sent`. Raises LostError if it is over by now."""
    state = LocalState(calls.clock, granted.validity, sent)
    due = state.next_question()
    asked = state.now()
    told: hold_pb2.Grant | GetHoldResponse = granted
    if due is not None and due <= asked:
        # S21: elsewhere than on the sidecar's kernel the grant's durations count from before the request, and a wait
        # may have used them up. Then they are asked for anew.
        told, sent = await calls.get_hold(granted.lease_id, granted.generation, line.connection), asked
        state = LocalState(calls.clock, told.validity, asked)
    if told.HasField("max_hold_ends"):
        state.bound(told.max_hold_ends, sent)
    if not state.is_valid():
        raise LostError(granted.lock_path, state.loss or _LATE)
    grant = Grant._from_wire(granted)
    keeper = Keeper(calls, granted, state, line, handler)
    until = seconds(state.valid_until)
    events.tell(handler, events.Granted(granted.lock_path, granted.fencing_token, until))
    return keeper, grant
