"""The validity, and other moments that lie ahead, as a client counts them on its own clock (S21).

Pure: readings of the clock, in nanoseconds since boot, are arguments.
"""

from dataclasses import dataclass, replace
from typing import Final

from leasehold._convert import duration
from leasehold.v1.hold_pb2 import BootTime, Deadline, Validity

_WORTH_ASKING: Final = 10
"""How much of a promised validity is worth a question: a tenth."""


@dataclass(frozen=True, slots=True)
class KnownValidity:
    """Until when this client may act, and from which message."""

    until: int = 0
    """The end of validity. Past it the hold is lost."""

    as_of: int = 0
    """When the newest message was made, or the request sent that it answers."""

    told: BootTime | None = None
    """The latest validity told, in the sidecar's words, for a resume (S16)."""

    same_kernel: bool = False
    """Whether the sidecar's boot clock is ours. If not, it must be asked from time to time."""

    longer_heard: int | None = None
    """When the sidecar last told of a validity that is noticeably longer, and cannot be counted before it is asked."""

    def after(self, validity: Validity, sent: int | None, now: int, boot_id: str) -> "KnownValidity":
        """Take in a validity read at `now`, in an answer to a request sent at `sent` if there was one.

        Whether the old one has ended is for the caller to check before.
        """
        told = validity.valid_until if validity.HasField("valid_until") else None
        valid_for = duration(validity.valid_for)
        reading = _read(validity.valid_until, valid_for, sent, now, boot_id)
        if reading is None:
            # Said, though it cannot be counted here: the sidecar keeps to it.
            is_longer = now + valid_for > self.until + valid_for // _WORTH_ASKING
            return replace(self, told=told, longer_heard=now if is_longer else self.longer_heard)
        until, as_of, same_kernel = reading
        if as_of < self.as_of:
            # An older message than the newest one changes nothing.
            return self
        # An answer to a question from before says nothing of what was told since.
        unanswered = self.longer_heard is not None and not same_kernel and as_of < self.longer_heard
        return KnownValidity(until, as_of, told, same_kernel, self.longer_heard if unanswered else None)

    def in_doubt(self, now: int) -> "KnownValidity":
        """Have the sidecar asked at once, unless its clock is ours."""
        return self if self.same_kernel else replace(self, longer_heard=now)

    def next_question(self) -> int | None:
        """Say when the sidecar should be asked next for the validity.

        At once when it has told of one that cannot be counted here, which it does at each renewal, and else when half
        of this one is over. None where its words are enough (S21).
        """
        if self.same_kernel:
            return None
        if self.longer_heard is not None:
            return self.longer_heard
        return self.as_of + max(self.until - self.as_of, 0) // 2


@dataclass(frozen=True, slots=True)
class KnownDeadline:
    """A moment that lies ahead, on this client's clock."""

    at: int | None = None
    """The moment; None if there is none."""

    as_of: int = 0
    """When the newest message was made, or the request sent that it answers."""

    def after(self, told: Deadline, sent: int | None, now: int, boot_id: str) -> "KnownDeadline | None":
        """Take in a deadline read at `now`, in an answer to a request sent at `sent` if there was one.

        None if it cannot be counted here.
        """
        reading = _read(told.at, duration(told.after), sent, now, boot_id)
        if reading is None:
            return None
        at, as_of, _ = reading
        return self if as_of < self.as_of else KnownDeadline(at, as_of)


def _read(told: BootTime, left: int, sent: int | None, now: int, boot_id: str) -> tuple[int, int, bool] | None:
    """Say what a moment, `left` after it was told, means on our clock.

    That is the moment, when it was told, and whether the clock is the sidecar's.
    """
    if boot_id and told.boot_id == boot_id:
        until = duration(told.since_boot)
        made = max(until - left, 0)
        # A message made after it was read, or before it was asked for, was made by another clock after all: time
        # namespaces shift the boot clock and keep the boot id.
        if made <= now and (sent is None or sent <= made):
            return until, made, True
    if sent is None:
        return None
    return sent + left, sent, False
