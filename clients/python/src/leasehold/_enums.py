"""The enums of the API, with the numbers of the wire.

A number that this version does not know becomes what the proto says it is to be taken for.
"""

from enum import Enum
from typing import Self


class LockMode(Enum):
    """What a lock is for; a part of its name."""

    FUNCTION = 1
    """Held while a function runs."""
    LISTENER = 2
    """Held while a listener listens."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls.FUNCTION


class LockState(Enum):
    """What a lock is doing."""

    AVAILABLE = 1
    """Nobody holds it."""
    HELD = 2
    """Somebody holds it; also a state that this version of the client does not know."""
    BREAKING = 3
    """It was broken, and nobody gets it before the old lease has run out."""
    RESTING = 4
    """It was released, and rests because of `min_hold`."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls.HELD


class BusyReason(Enum):
    """Why a lock is busy."""

    HELD = 1
    """Somebody else holds it; also a reason that this version of the client does not know."""
    BREAKING = 2
    """It was broken, and the old lease has not run out yet."""
    RESTING = 3
    """It was released, and rests because of the last holder's `min_hold`."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls.HELD


class PriorityStatus(Enum):
    """Why a caller with a priority waits all the same (S33)."""

    HOLDER_DOES_NOT_YIELD = 1
    """The holder does not yield: it is waited for like any other."""
    NOT_GREATER = 2
    """The holder's priority is not smaller than the caller's."""
    WAITED_TOO_SHORT = 3
    """The caller has not waited for a lease duration yet, or tried only once."""
    BROKEN_RECENTLY = 4
    """The lock was broken less than two lease durations ago."""
    REVOKED = 5
    """The holder was told, and has until its lease expires to finish."""
    CANNOT_BREAK = 6
    """The store refuses to break leases with the sidecar's credentials."""
    RESERVED = 7
    """The lock is reserved for a caller of greater priority that had it broken."""

    @classmethod
    def told(cls, value: int) -> Self | None:
        """Give the status with this number; None if there is none, or if this version does not know it."""
        return next((status for status in cls if status.value == value), None)


class LossReason(Enum):
    """Why a hold was lost."""

    UNSPECIFIED = 0
    """A reason that is not one of the sidecar's, or that this version of the client does not know."""
    EXPIRED = 1
    """Its validity ended without a renewal."""
    TAKEN = 2
    """Somebody else has held the lock since."""
    BROKEN = 3
    """An operator broke it, or a caller of greater priority: see `BreakNote.for_priority`."""
    LOCK_DELETED = 4
    """The lock or its container was deleted."""
    MAX_HOLD_REACHED = 5
    """It lasted as long as `max_hold` allows."""
    NO_PROGRESS = 6
    """Progress was not reported for `progress_timeout`."""
    SHUTDOWN = 7
    """The sidecar shut down, and the drain period was over."""

    @classmethod
    def named(cls, name: str) -> Self:
        """Give the reason of this name; UNSPECIFIED if this version of the client does not know it."""
        return cls.__members__.get(name, cls(0))

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls.UNSPECIFIED


class ReleaseOutcome(Enum):
    """What a release did."""

    UNSPECIFIED = 0
    """What this version of the client does not know."""
    RELEASED = 1
    """The lock is free or the next one's."""
    ALREADY_LOST = 2
    """The hold had been lost before."""
    ALREADY_RELEASED = 3
    """The hold had been released before."""
    RESTING = 4
    """The hold is over, and the lock rests because of `min_hold`."""
    NOT_CONFIRMED = 5
    """The store did not confirm the release before the lease expired; whether the hold lasted until then is unknown."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls.UNSPECIFIED


class CheckpointOutcome(Enum):
    """What became of a checkpoint that came with a release."""

    UNSPECIFIED = 0
    """What this version of the client does not know."""
    SAVED = 1
    """The store has it."""
    NOT_SAVED = 2
    """The store does not have it: the earlier checkpoint stands."""
    UNKNOWN = 3
    """The store did not answer in time: either this checkpoint stands or the earlier one."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls.UNSPECIFIED


class OutcomeResult(Enum):
    """What became of the outcome of an occurrence that came with a release."""

    UNSPECIFIED = 0
    """What this version of the client does not know."""
    RECORDED = 1
    """The store has it."""
    NOT_RECORDED = 2
    """The store does not have it: the next caller with this occurrence is granted it."""
    UNKNOWN = 3
    """The store did not answer in time. Ask again for the occurrence: OccurrenceOverError says if it was recorded."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls.UNSPECIFIED


class HoldState(Enum):
    """The state of a hold that is not over."""

    UNSPECIFIED = 0
    """What this version of the client does not know: go by the validity."""
    HELD = 1
    """It is held and renewed."""
    AT_RISK = 2
    """Renewals fail."""
    REVOKED = 3
    """The lock was broken; the hold ends with its validity."""
    DISCONNECTED = 4
    """Its stream broke, and was not resumed yet."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls.UNSPECIFIED


class TokenStatus(Enum):
    """What a fencing token is, compared with the newest of its lock."""

    CURRENT = 1
    """The newest. That its hold still lives is not said."""
    STALE = 2
    """Older: refuse what comes with it. Also a status that this version of the client does not know."""
    UNKNOWN = 3
    """Newer than any that is known."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls.STALE


class BreakMode(Enum):
    """How a break ends a lease."""

    RUN_OUT = 1
    """Nobody gets the lock before the lease has run out. Safe."""
    NOW = 2
    """The lease ends at once, and two holders are possible until the old one notices."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls.RUN_OUT


class BreakOutcome(Enum):
    """What a break did."""

    UNSPECIFIED = 0
    """What this version of the client does not know."""
    BREAKING = 1
    """The lease is left to expire."""
    BROKEN = 2
    """The lock is free."""
    NOT_HELD = 3
    """Nobody held the lock, so nothing was broken."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls.UNSPECIFIED


class CatchUp(Enum):
    """What becomes of missed occurrences that are older than the newest one (T9)."""

    LATEST = 1
    """They are skipped, and counted. The newest one runs, however late."""
    NONE = 2
    """They are skipped, and counted. The newest one runs only within `grace`."""
    ALL = 3
    """The newest `catch_up_max` of them run too, oldest first."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls.LATEST


class Overlap(Enum):
    """What becomes of occurrences that fall due during a run (T10)."""

    FOLLOW = 1
    """When the run is over they are handled as missed ones are."""
    SKIP = 2
    """They are skipped."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls.FOLLOW


class RunKind(Enum):
    """Why there is a run."""

    UNSPECIFIED = 0
    """What this version of the client does not know."""
    SCHEDULED = 1
    """An occurrence of the schedule."""
    MANUAL = 2
    """Somebody asked for it. It does not move the schedule on."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls.UNSPECIFIED


class RunOutcome(Enum):
    """How a run ended, or an occurrence without one. The first four are for a caller to say (T11)."""

    UNSPECIFIED = 0
    """Not said, or what this version of the client does not know."""
    SUCCEEDED = 1
    """It did its work."""
    FAILED = 2
    """It did not. It is tried again if attempts are left."""
    FAILED_FINAL = 3
    """It did not, and is not tried again."""
    RETURNED = 4
    """Another replica is to run it. Does not count as an attempt, at most 10 times."""
    TIMED_OUT = 5
    """Its deadline came. It is not tried again."""
    ABANDONED = 6
    """Its holder died or lost the lock without an outcome. It is tried again if attempts are left."""
    SKIPPED = 7
    """It was not run."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls.UNSPECIFIED


class CompletionResult(Enum):
    """What became of the outcome of a run (T8)."""

    RECORDED = 1
    """The store has it, or had it from an earlier call."""
    RECORDED_LATE = 2
    """The run's hold was over, and nobody had been granted the occurrence since: the store has it now."""
    SUPERSEDED = 3
    """The run was or may be repeated, so its outcome does not count. Also what this version does not know."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls.SUPERSEDED
