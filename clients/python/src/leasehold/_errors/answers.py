"""Errors that carry what the sidecar answered of a lock, a hold or an occurrence."""

import json
from datetime import datetime
from typing import Final

from leasehold._errors.errors import LeaseholdError, named
from leasehold._hold.grants import Busy, Loss
from leasehold._records import LockRecord
from leasehold._runs.schedules import EndedRun


class BusyError(LeaseholdError):
    """The lock was not acquired within the wait: somebody else holds it, or it rests."""

    def __init__(self, lock: str, busy: Busy) -> None:
        record = busy.record
        who = f"{busy.held_permits} permits of it are held" if busy.held_permits > 1 else _who(record)
        why = {
            "HELD": who,
            "BREAKING": "it was broken, and its lease has not expired yet",
            "RESTING": "it rests, as its last holder asked (min_hold)",
        }
        path = record.lock_path if record is not None and record.lock_path else lock
        status = busy.priority_status
        yet = "" if status is None else f" (priority: {status.name.replace('_', ' ').lower()})"
        super().__init__(f"the lock {path} is busy: {why[busy.reason.name]}{yet}")
        self.busy: Final = busy
        """What the sidecar said: the record, when to ask again, and why."""


class OccurrenceOverError(LeaseholdError):
    """The occurrence that was named is not granted any more: it has a final outcome, or a newer one has."""

    def __init__(self, run: EndedRun | None, watermark: datetime | None) -> None:
        newer = "" if watermark is None else f", {watermark.isoformat().replace('+00:00', 'Z')}"
        done = "ended" if run is None or run.outcome is None else run.outcome.name
        what = f"skipped: a newer one is done{newer}" if run is None else f"done: {done}"
        super().__init__(f"the occurrence is {what}")
        self.run: Final = run
        """How it ended; None if nothing was recorded for it."""
        self.watermark: Final = watermark
        """The newest occurrence that has an outcome, if the one that was named is older and has none; else None."""


def _who(record: LockRecord | None) -> str:
    if record is None or not record.holder:
        return "held by somebody else"
    # Quoted, so that no control character of it gets out.
    holder = json.dumps(record.holder, ensure_ascii=False)
    return f"held, last recorded holder {holder}" if record.holder_is_last_recorded else f"held by {holder}"


class LostError(LeaseholdError):
    """The hold was lost: stop, and redo under a new hold what was not finished."""

    def __init__(self, lock_path: str, loss: Loss) -> None:
        super().__init__(f"the lock was lost: {loss}")
        self.lock_path: Final = lock_path
        """The path of the lock."""
        self.loss: Final = loss
        """Why."""


named(list(globals().values()))
