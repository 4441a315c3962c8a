"""Hold singleton locks through a Leasehold sidecar, and know at once when one is lost.

A lock alone does not keep a holder that was paused from acting late: check `hold.is_valid()` before each step, and let
the resource that the lock protects refuse fencing tokens smaller than it has seen.
"""

from leasehold._answers import Break, ResolvedPath, TokenCheck
from leasehold._async_client import AsyncClient
from leasehold._async_hold import AsyncHold, AsyncHolding
from leasehold._connect import DEFAULT_ENDPOINT, ClientOptions, Tls
from leasehold._enums import (
    BreakMode,
    BreakOutcome,
    BusyReason,
    CheckpointOutcome,
    HoldState,
    LockMode,
    LockState,
    LossReason,
    ReleaseOutcome,
    TokenStatus,
)
from leasehold._errors import (
    ENDPOINT_VARIABLE,
    ArgumentError,
    BusyError,
    CheckpointUnknownError,
    ClosedError,
    EndpointError,
    FieldViolation,
    LeaseholdError,
    LostError,
    NotReleasedError,
    PlatformError,
    ProtocolError,
    Reason,
    RefusedError,
    ReleaseUnconfirmedError,
    UnreachableError,
    UnsupportedError,
)
from leasehold._events import (
    AtRisk,
    Draining,
    EventHandler,
    Granted,
    HoldEvent,
    Interrupted,
    Lost,
    Recovered,
    Renewed,
    Resumed,
    Revoked,
    Waiting,
)
from leasehold._grants import Busy, CheckpointResult, Deadline, Extension, Grant, Loss, Notice, ReleaseResult, Validity
from leasehold._hold import BaseHold, current_hold
from leasehold._leading import AsyncTerm
from leasehold._records import BreakNote, Checkpoint, LockKey, LockRecord
from leasehold._requests import BreakOptions, ListOptions
from leasehold._spec import FOREVER, LeaseOptions, Seconds
from leasehold._sync_client import Client
from leasehold._sync_hold import Hold, Holding
from leasehold._sync_leading import Term

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_ENDPOINT",
    "ENDPOINT_VARIABLE",
    "FOREVER",
    "ArgumentError",
    "AsyncClient",
    "AsyncHold",
    "AsyncHolding",
    "AsyncTerm",
    "AtRisk",
    "BaseHold",
    "Break",
    "BreakMode",
    "BreakNote",
    "BreakOptions",
    "BreakOutcome",
    "Busy",
    "BusyError",
    "BusyReason",
    "Checkpoint",
    "CheckpointOutcome",
    "CheckpointResult",
    "CheckpointUnknownError",
    "Client",
    "ClientOptions",
    "ClosedError",
    "Deadline",
    "Draining",
    "EndpointError",
    "EventHandler",
    "Extension",
    "FieldViolation",
    "Grant",
    "Granted",
    "Hold",
    "HoldEvent",
    "HoldState",
    "Holding",
    "Interrupted",
    "LeaseOptions",
    "LeaseholdError",
    "ListOptions",
    "LockKey",
    "LockMode",
    "LockRecord",
    "LockState",
    "Loss",
    "LossReason",
    "Lost",
    "LostError",
    "NotReleasedError",
    "Notice",
    "PlatformError",
    "ProtocolError",
    "Reason",
    "Recovered",
    "RefusedError",
    "ReleaseOutcome",
    "ReleaseResult",
    "ReleaseUnconfirmedError",
    "Renewed",
    "ResolvedPath",
    "Resumed",
    "Revoked",
    "Seconds",
    "Term",
    "Tls",
    "TokenCheck",
    "TokenStatus",
    "UnreachableError",
    "UnsupportedError",
    "Validity",
    "Waiting",
    "current_hold",
]
