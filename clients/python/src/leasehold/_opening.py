"""Asking for a lock, until it is granted or known to be busy."""

from typing import Final

from leasehold import _events as events
from leasehold._calls import Calls, HoldCall
from leasehold._convert import seconds
from leasehold._enums import LossReason
from leasehold._errors import BusyError, LostError, ProtocolError, RefusedError
from leasehold._records import Busy, Grant, LockRecord, Loss
from leasehold._session import Session, tell
from leasehold._spec import Wanted
from leasehold._state import HoldState
from leasehold.v1 import hold_pb2
from leasehold.v1.lease_service_pb2 import HoldLeaseRequest, HoldLeaseResponse

_LATE: Final = Loss(LossReason.EXPIRED, "the grant came too late")


async def open_session(
    calls: Calls,
    wanted: Wanted,
    handler: events.EventHandler | None,
) -> tuple[Session, Grant]:
    """Take the lock and begin to keep it.

    Cancelled before the grant, it leaves the queue, and a grant on its way is given back.
    """
    while True:
        sent = calls.clock.now()
        call = calls.hold(HoldLeaseRequest(spec=wanted.spec))
        try:
            answer = await _answer(calls, call, handler)
            if isinstance(answer, hold_pb2.Busy):
                if wanted.forever:
                    continue
                raise BusyError(wanted.name, Busy._from_wire(answer))
            return await _begin(calls, call, answer, sent, handler)
        except RefusedError as refused:
            call.cancel()
            wanted = wanted.shortened(refused)
        except BaseException:
            call.cancel()
            raise


async def _answer(
    calls: Calls,
    call: HoldCall,
    handler: events.EventHandler | None,
) -> hold_pb2.Grant | hold_pb2.Busy:
    while True:
        with calls.typed_errors():
            message = await call.read()
        if not isinstance(message, HoldLeaseResponse):
            raise ProtocolError("the stream ended before the lock was granted")
        match message.WhichOneof("event"):
            case "granted":
                return message.granted
            case "busy":
                return message.busy
            case "lost":
                raise LostError("asked for", Loss._from_wire(message.lost))
            case "waiting":
                waiting = message.waiting
                record = LockRecord._from_wire(waiting.record) if waiting.HasField("record") else None
                tell(handler, events.Waiting(waiting.position, record))
            case _:
                # Not said before a grant, or an event that this version does not know.
                pass


async def _begin(
    calls: Calls,
    call: HoldCall,
    granted: hold_pb2.Grant,
    sent: int,
    handler: events.EventHandler | None,
) -> tuple[Session, Grant]:
    state = HoldState(calls.clock, granted.validity, sent)
    due = state.next_question()
    asked = state.now()
    if due is not None and due <= asked:
        # S21: elsewhere than on the sidecar's kernel the grant's span counts from before the request, and a wait may
        # have used it up. Then the validity is asked for anew.
        validity = await calls.validity(granted.lease_id, granted.generation, validity_only=True)
        state = HoldState(calls.clock, validity, asked)
    if not state.is_valid():
        raise LostError(granted.lock_path, state.loss or _LATE)
    grant = Grant._from_wire(granted)
    session = Session(calls, granted, state, call, handler)
    until = seconds(state.valid_until)
    tell(handler, events.Granted(granted.lock_path, granted.fencing_token, until))
    return session, grant
