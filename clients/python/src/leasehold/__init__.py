"""Hold singleton locks through a Leasehold sidecar, and know at once when one is lost.

A lock alone does not keep a holder that was paused from acting late: check `hold.is_valid()` before each step, and let
the resource that the lock protects refuse fencing tokens smaller than it has seen.
"""

import os

# Else a fork starts gRPC's threads again in the children of a process that holds a lock, and crashes some of them. What
# this package does instead is in _forking.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from leasehold._async_client import AsyncClient
from leasehold._connect.options import DEFAULT_ENDPOINT, ClientOptions, Tls
from leasehold._enums import (
    BreakMode,
    BreakOutcome,
    BusyReason,
    CatchUp,
    CheckpointOutcome,
    CompletionResult,
    HoldState,
    LockMode,
    LockState,
    LossReason,
    OutcomeResult,
    Overlap,
    PriorityStatus,
    Reason,
    ReleaseOutcome,
    RunKind,
    RunOutcome,
    TokenStatus,
)
from leasehold._errors.answers import BusyError, LostError, OccurrenceOverError
from leasehold._errors.errors import (
    ENDPOINT_VARIABLE,
    ArgumentError,
    CheckpointUnknownError,
    ClosedError,
    EndpointError,
    FieldViolation,
    LeaseholdError,
    PlatformError,
    ProtocolError,
    RefusedError,
    ReleaseUnconfirmedError,
    UnreachableError,
    UnsupportedError,
)
from leasehold._hold.async_hold import AsyncHold, AsyncHolding
from leasehold._hold.events import (
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
from leasehold._hold.grants import (
    Busy,
    CheckpointResult,
    Deadline,
    Extension,
    Grant,
    HoldInfo,
    Loss,
    Notice,
    ReleaseResult,
    Validity,
)
from leasehold._hold.hold import BaseHold, current_hold
from leasehold._hold.leading import AsyncTerm
from leasehold._hold.spec import FOREVER, LeaseSpec, Seconds
from leasehold._hold.sync_hold import Hold, Holding
from leasehold._hold.sync_leading import Term
from leasehold._records import BreakNote, Checkpoint, LockKey, LockRecord, Reservation
from leasehold._runs.async_run import (
    AsyncEvery,
    AsyncRun,
)
from leasehold._runs.requests import (
    ListSchedulesOptions,
    PreviewOptions,
)
from leasehold._runs.schedules import (
    CompletedRun,
    DefinitionInForce,
    EndedRun,
    Occurrence,
    Schedule,
    ScheduleEvent,
    ScheduleIntervention,
    SchedulePreview,
    ScheduleState,
    Standby,
    StartedRun,
    Subscribed,
    UnderstoodSchedule,
)
from leasehold._runs.spec import (
    ScheduleOptions,
    ScheduleSpec,
)
from leasehold._runs.subscription import (
    ScheduleHandler,
)
from leasehold._runs.sync_run import (
    Every,
    Run,
)
from leasehold._sync_client import Client
from leasehold._watch.answers import (
    BreakResult,
    LockChanged,
    LockGone,
    LocksEvent,
    LocksListed,
    ResolvedPath,
    ServerInfo,
    ServerLimits,
    TokenCheck,
)
from leasehold._watch.requests import BreakOptions, ListOptions, WatchOptions

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_ENDPOINT",
    "ENDPOINT_VARIABLE",
    "FOREVER",
    "ArgumentError",
    "AsyncClient",
    "AsyncEvery",
    "AsyncHold",
    "AsyncHolding",
    "AsyncRun",
    "AsyncTerm",
    "AtRisk",
    "BaseHold",
    "BreakMode",
    "BreakNote",
    "BreakOptions",
    "BreakOutcome",
    "BreakResult",
    "Busy",
    "BusyError",
    "BusyReason",
    "CatchUp",
    "Checkpoint",
    "CheckpointOutcome",
    "CheckpointResult",
    "CheckpointUnknownError",
    "Client",
    "ClientOptions",
    "ClosedError",
    "CompletedRun",
    "CompletionResult",
    "Deadline",
    "DefinitionInForce",
    "Draining",
    "EndedRun",
    "EndpointError",
    "EventHandler",
    "Every",
    "Extension",
    "FieldViolation",
    "Grant",
    "Granted",
    "Hold",
    "HoldEvent",
    "HoldInfo",
    "HoldState",
    "Holding",
    "Interrupted",
    "LeaseSpec",
    "LeaseholdError",
    "ListOptions",
    "ListSchedulesOptions",
    "LockChanged",
    "LockGone",
    "LockKey",
    "LockMode",
    "LockRecord",
    "LockState",
    "LocksEvent",
    "LocksListed",
    "Loss",
    "LossReason",
    "Lost",
    "LostError",
    "Notice",
    "Occurrence",
    "OccurrenceOverError",
    "OutcomeResult",
    "Overlap",
    "PlatformError",
    "PreviewOptions",
    "PriorityStatus",
    "ProtocolError",
    "Reason",
    "Recovered",
    "RefusedError",
    "ReleaseOutcome",
    "ReleaseResult",
    "ReleaseUnconfirmedError",
    "Renewed",
    "Reservation",
    "ResolvedPath",
    "Resumed",
    "Revoked",
    "Run",
    "RunKind",
    "RunOutcome",
    "Schedule",
    "ScheduleEvent",
    "ScheduleHandler",
    "ScheduleIntervention",
    "ScheduleOptions",
    "SchedulePreview",
    "ScheduleSpec",
    "ScheduleState",
    "Seconds",
    "ServerInfo",
    "ServerLimits",
    "Standby",
    "StartedRun",
    "Subscribed",
    "Term",
    "Tls",
    "TokenCheck",
    "TokenStatus",
    "UnderstoodSchedule",
    "UnreachableError",
    "UnsupportedError",
    "Validity",
    "Waiting",
    "WatchOptions",
    "current_hold",
]
