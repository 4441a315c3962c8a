"""What happens to a hold, for who wants to know: the argument `on_event` of `hold`."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from leasehold._enums import Reason
from leasehold._hold.grants import Loss, Notice
from leasehold._records import LockRecord

_log: Final = logging.getLogger("leasehold")


@dataclass(frozen=True, slots=True)
class Waiting:
    """The lock is busy, and the caller waits for it."""

    position: int
    """The place among those who wait at this sidecar; 1 is next."""
    record: LockRecord | None
    """The lock's record, as far as it is known."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The caller holds the lock."""

    lock_path: str
    """The path of the lock."""
    fencing_token: int
    """Greater than every token granted for this lock before (S5)."""
    valid_until: float
    """The end of validity unless renewed: seconds on this machine's boot clock."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """The hold was renewed."""

    valid_until: float
    """The end of its validity: seconds on this machine's boot clock."""


@dataclass(frozen=True, slots=True)
class AtRisk:
    """Renewals fail: stop what cannot be interrupted later."""

    valid_until: float
    """The end of validity, which is the deadline: seconds on this machine's boot clock."""
    cause: Reason
    """What fails: STORE_UNAVAILABLE, STORE_THROTTLED, STORE_DENIED or STORE_FAILED."""
    cause_name: str
    """The same as text, also where this version of the client does not know it and `cause` is OTHER."""
    detail: str
    """The same for people."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """Renewals succeed again."""

    valid_until: float
    """The end of its validity: seconds on this machine's boot clock."""


@dataclass(frozen=True, slots=True)
class Draining:
    """The sidecar is shutting down: finish and leave the block."""

    time_left: float
    """How long it still waits, in seconds."""


@dataclass(frozen=True, slots=True)
class Revoked:
    """The lock was broken: finish and leave the block before the deadline."""

    notice: Notice
    """Until when, by whom and why."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The stream to the sidecar broke; the hold goes on until its validity ends, and is being resumed."""

    detail: str
    """What happened, for people."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """The hold was resumed at the sidecar."""

    valid_until: float
    """The end of its validity: seconds on this machine's boot clock."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The hold is over, though its holder did not end it. Nothing comes after this."""

    loss: Loss
    """Why."""


HoldEvent = Waiting | Granted | Renewed | AtRisk | Recovered | Draining | Revoked | Interrupted | Resumed | Lost
"""What happens to a hold."""

EventHandler = Callable[[HoldEvent], None]
"""Takes in events. Called in the client's event loop, so it must be quick; what it raises is only logged."""

_Event = TypeVar("_Event")


def tell(handler: Callable[[_Event], None] | None, event: _Event) -> None:
    """Tell an event to who wants to know."""
    if handler is None:
        return
    try:
        handler(event)
    except Exception:  # noqa: BLE001 - whatever it raises is its own business
        _log.exception("an event handler failed")
