"""What a holder gets and is told, as plain values."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from leasehold._convert import duration, moment, seconds
from leasehold._enums import (
    BusyReason,
    CheckpointOutcome,
    HoldState,
    LossReason,
    OutcomeResult,
    PriorityStatus,
    ReleaseOutcome,
    RunOutcome,
)
from leasehold._records import BreakNote, Checkpoint, LockRecord
from leasehold.v1 import hold_pb2, lease_service_pb2


@dataclass(frozen=True, slots=True)
class Busy:
    """The lock was not acquired within the wait."""

    record: LockRecord | None
    """The lock's record, as far as it is known: who holds it, since when."""
    retry_after: float
    """When to ask again: seconds, counted from the answer."""
    reason: BusyReason
    """Why the lock is not available."""
    held_permits: int = 0
    """How many of the permits were found held, as far as the sidecar knows."""
    priority_status: PriorityStatus | None = None
    """Why the caller's priority did not free the lock; None if it gave none, or if that is not known."""

    @classmethod
    def _from_wire(cls, wire: hold_pb2.Busy) -> Self:
        record = LockRecord._from_wire(wire.record) if wire.HasField("record") else None
        return cls(
            record,
            seconds(duration(wire.retry_after)),
            BusyReason(wire.reason),
            wire.held_permits,
            PriorityStatus.told(wire.priority_status),
        )


@dataclass(frozen=True, slots=True)
class Validity:
    """Until when a holder may act, in the sidecar's words."""

    boot_id: str
    """Whose boot clock `valid_until` is a reading of: readings compare only where it is the same and not empty."""
    valid_until: float
    """The end of validity: seconds since boot on that clock (CLOCK_BOOTTIME)."""
    valid_for: float
    """The seconds from when the message was made; count them only from before the request that it answers."""

    @classmethod
    def _from_wire(cls, wire: hold_pb2.Validity) -> Self:
        told = wire.valid_until
        return cls(told.boot_id, seconds(duration(told.since_boot)), seconds(duration(wire.valid_for)))


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment that lies ahead, in the sidecar's words."""

    boot_id: str
    """Whose boot clock `at` is a reading of: readings compare only where it is the same and not empty."""
    at: float
    """The moment: seconds since boot on that clock (CLOCK_BOOTTIME)."""
    after: float
    """The seconds from when the message was made; count them only from before the request that it answers."""

    @classmethod
    def _from_wire(cls, wire: hold_pb2.Deadline) -> Self:
        return cls(wire.at.boot_id, seconds(duration(wire.at.since_boot)), seconds(duration(wire.after)))


@dataclass(frozen=True, slots=True)
class Grant:
    """What makes the caller a holder."""

    lease_id: str = field(repr=False)
    """Names this hold in calls. Who knows it can end the hold, so it is not shown."""
    lock_path: str
    """The path of the lock."""
    host_id: str
    """The host id in that path."""
    fencing_token: int
    """Greater than every token granted for this lock path before (S5): 1 to 2^53 - 1."""
    validity: Validity
    """Until when the holder may act, unless renewed, as it was at the grant."""
    acquired_at: datetime
    """When the grant was made."""
    expires_at: datetime
    """When the validity ends unless renewed; never to be counted on."""
    max_hold_ends: Deadline | None
    """When `max_hold` ends and the hold is lost, unless it is extended before; None if there is no limit."""
    permit: int
    """Which permit of the lock is granted: 0 for the lock's own path."""
    attempt: int
    """Which attempt at `occurrence_at` this is, from 1; 0 if the caller named no occurrence."""
    checkpoint: Checkpoint | None
    """The lock's checkpoint as the last holder left it; None if there is none (S25)."""

    @classmethod
    def _from_wire(cls, wire: hold_pb2.Grant) -> Self:
        return cls(
            lease_id=wire.lease_id,
            lock_path=wire.lock_path,
            host_id=wire.host_id,
            fencing_token=wire.fencing_token,
            validity=Validity._from_wire(wire.validity),
            acquired_at=moment(wire.acquired_at),
            expires_at=moment(wire.expires_at),
            max_hold_ends=Deadline._from_wire(wire.max_hold_ends) if wire.HasField("max_hold_ends") else None,
            permit=wire.permit,
            attempt=wire.attempt,
            checkpoint=Checkpoint._from_wire(wire.checkpoint) if wire.HasField("checkpoint") else None,
        )


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a hold is over, though its holder did not end it."""

    reason: LossReason
    """Why."""
    detail: str = ""
    """The same for people."""
    break_note: BreakNote | None = None
    """Who broke the lock and why, where it was broken and that is known."""

    @classmethod
    def _from_wire(cls, wire: hold_pb2.Lost) -> Self:
        note = BreakNote._from_wire(wire.break_note) if wire.HasField("break_note") else None
        return cls(LossReason(wire.reason), wire.detail, note)

    def __str__(self) -> str:
        return f"{self.reason.name}: {self.detail}" if self.detail else self.reason.name


@dataclass(frozen=True, slots=True)
class Notice:
    """The lock was broken. The hold is not renewed any more, and is lost (BROKEN) at the deadline (S22).

    Until then it is held: finish, save the checkpoint, release.
    """

    deadline: float
    """The end of validity: seconds on this machine's boot clock."""
    reason: str
    """Why the lock was broken, in words; empty if that is not known."""
    by: str
    """Who broke it; empty if that is not known."""
    break_note: BreakNote | None
    """All that is known of the break."""

    @classmethod
    def _from_wire(cls, wire: hold_pb2.Revoked | lease_service_pb2.GetHoldResponse, deadline: float) -> Self:
        note = BreakNote._from_wire(wire.break_note) if wire.HasField("break_note") else None
        return cls(deadline, wire.break_note.reason, wire.break_note.broken_by, note)

    @property
    def for_priority(self) -> int | None:
        """The priority of the caller that takes over, such as a newer version; None if an operator broke the lock."""
        return self.break_note.for_priority if self.break_note else None


@dataclass(frozen=True, slots=True)
class CheckpointResult:
    """What became of the checkpoint that came with a release (S26)."""

    outcome: CheckpointOutcome
    """What happened."""
    version: int | None = None
    """The version that was saved; with outcome SAVED only."""
    detail: str = ""
    """Why it was not saved, for people."""

    @classmethod
    def _from_wire(cls, wire: hold_pb2.ReleaseResult) -> Self:
        outcome = CheckpointOutcome.told(wire.checkpoint_outcome)
        if outcome is None and wire.checkpoint_outcome:
            # Of a newer sidecar.
            return cls(CheckpointOutcome.UNKNOWN, None, wire.checkpoint_detail)
        if outcome is None:
            # What is not understood is not said back (S37).
            detail = "the sidecar does not know checkpoints, because it is older than this request"
            return cls(CheckpointOutcome.NOT_SAVED, None, detail)
        version = wire.checkpoint_version if outcome is CheckpointOutcome.SAVED else None
        return cls(outcome, version, wire.checkpoint_detail)

    def __str__(self) -> str:
        return f"{self.outcome.name}: {self.detail}" if self.detail else self.outcome.name


@dataclass(frozen=True, slots=True)
class ReleaseResult:
    """What a release did."""

    outcome: ReleaseOutcome
    """What happened."""
    loss_reason: LossReason | None = None
    """Why the hold had been lost; with outcome ALREADY_LOST only."""
    resting_until: datetime | None = None
    """Until when nobody gets the lock, by the store's clock; with outcome RESTING only."""
    checkpoint: CheckpointResult | None = None
    """What became of the checkpoint that came with the release; None if there was none."""
    occurrence: OutcomeResult | None = None
    """What became of the outcome that came with the release; None if there was none."""

    @classmethod
    def _from_wire(cls, wire: hold_pb2.ReleaseResult, checkpoint: bytes | None, told: RunOutcome | None = None) -> Self:
        outcome = ReleaseOutcome(wire.outcome)
        lost = outcome is ReleaseOutcome.ALREADY_LOST
        return cls(
            outcome,
            LossReason(wire.loss_reason) if lost else None,
            moment(wire.resting_until) if wire.HasField("resting_until") else None,
            None if checkpoint is None else CheckpointResult._from_wire(wire),
            # What is not understood is not said back (S37).
            None if told is None else OutcomeResult(wire.outcome_result or OutcomeResult.NOT_RECORDED.value),
        )


@dataclass(frozen=True, slots=True)
class Extension:
    """The result of a new `max_hold`."""

    validity: Validity
    """Until when the holder may act, unless renewed."""
    max_hold_ends_at: datetime
    """When the new `max_hold` ends."""
    max_hold_ends: Deadline | None
    """The same moment, to be compared with a boot clock; None if the sidecar does not say."""

    @classmethod
    def _from_wire(cls, wire: lease_service_pb2.ExtendLeaseResponse) -> Self:
        ends = Deadline._from_wire(wire.max_hold_ends) if wire.HasField("max_hold_ends") else None
        return cls(Validity._from_wire(wire.validity), moment(wire.max_hold_ends_at), ends)


@dataclass(frozen=True, slots=True)
class HoldInfo:
    """A hold that is not over, as the sidecar knows it."""

    validity: Validity
    """Until when the holder may act, unless renewed."""
    state: HoldState
    """What the hold is doing."""
    max_hold_ends: Deadline | None
    """When `max_hold` ends; None if there is no limit."""
    progress_due: Deadline | None
    """When the hold is lost unless progress is reported before; None if that is not watched."""
    lock_path: str
    """The path of the lock."""
    fencing_token: int
    """The token of the hold."""
    generation: int
    """How often the hold was granted or resumed (S16)."""
    break_note: BreakNote | None
    """Who broke the lock and why; only in state REVOKED, and only if it is known."""
    permit: int
    """Which permit of the lock is held: 0 for the lock's own path."""

    @classmethod
    def _from_wire(cls, wire: lease_service_pb2.GetHoldResponse) -> Self:
        return cls(
            validity=Validity._from_wire(wire.validity),
            state=HoldState(wire.state),
            max_hold_ends=Deadline._from_wire(wire.max_hold_ends) if wire.HasField("max_hold_ends") else None,
            progress_due=Deadline._from_wire(wire.progress_due) if wire.HasField("progress_due") else None,
            lock_path=wire.lock_path,
            fencing_token=wire.fencing_token,
            generation=wire.generation,
            break_note=BreakNote._from_wire(wire.break_note) if wire.HasField("break_note") else None,
            permit=wire.permit,
        )
