"""What the holder and the keeper both know of a hold."""

import os
import threading
from collections.abc import Callable
from typing import Final

from leasehold._enums import LossReason
from leasehold._hold.boot_clock import Clock
from leasehold._hold.grants import Loss
from leasehold._hold.known_validity import KnownDeadline, KnownValidity
from leasehold._records import BreakNote
from leasehold.v1.hold_pb2 import BootTime, Deadline, Validity


class LocalState:
    """A hold's validity and its end. Both are looked at under one lock, so that lost is final (S4)."""

    def __init__(self, clock: Clock, validity: Validity, sent: int) -> None:
        """Begin with a grant's `validity`, in answer to a request sent at `sent`."""
        self._clock: Final = clock
        # A signal handler may ask in the midst of an answer, so the lock must let its own thread in again.
        self._lock: Final = threading.RLock()
        self._local = KnownValidity().after(validity, sent, clock.now(), clock.boot_id)
        self._max_hold_ends = KnownDeadline()
        self._over = False
        self._loss: Loss | None = None
        # Whether the loss was found by the clock alone, so that the sidecar may know better why.
        self._found_here = False
        # The loss at the end of the validity, once the lock was broken.
        self._broken: Loss | None = None
        self._on_loss: Callable[[], None] | None = None
        self._process: Final = os.getpid()

    def now(self) -> int:
        """Read the clock."""
        return self._clock.now()

    def on_loss(self, listener: Callable[[], None]) -> None:
        """Have `listener` called once, in whatever thread finds the loss, also if it was found already.

        It must not wait for anything.
        """
        with self._lock:
            self._on_loss = listener
            if self._loss is not None:
                listener()

    @property
    def valid_until(self) -> int:
        """The end of validity on the boot clock, in nanoseconds."""
        with self._lock:
            return self._local.until

    def remaining(self) -> int:
        """Give the nanoseconds left; 0 if the hold is over.

        Being past validity is being lost, whoever finds out first (S21).
        """
        if os.getpid() != self._process:
            # The copy in a forked child would go on being valid when the parent has released (S13).
            return 0
        with self._lock:
            if self._over:
                return 0
            left = self._local.until - self._clock.now()
            if left <= 0:
                self._found_here = True
                self._end_by(self._at_end())
                return 0
            return left

    def is_valid(self) -> bool:
        """Say whether the holder may act now."""
        return self.remaining() > 0

    def take_in(self, validity: Validity, sent: int | None) -> bool:
        """Take in what the sidecar says, unless the hold is over (S4). Say whether it goes on."""
        with self._lock:
            if self.remaining() == 0:
                return False
            self._local = self._local.after(validity, sent, self._clock.now(), self._clock.boot_id)
            return self.remaining() > 0

    def bound(self, max_hold_ends: Deadline, sent: int | None) -> None:
        """Take in when `max_hold` ends; the sidecar is asked where its words cannot be counted here (S21)."""
        with self._lock:
            now = self._clock.now()
            counted = self._max_hold_ends.after(max_hold_ends, sent, now, self._clock.boot_id)
            if counted is None:
                self._local = self._local.in_doubt(now)
            else:
                self._max_hold_ends = counted

    @property
    def max_hold_ends(self) -> int | None:
        """When `max_hold` ends, on the boot clock, in nanoseconds; None if there is no limit."""
        with self._lock:
            return self._max_hold_ends.at

    def broken(self, note: BreakNote | None) -> None:
        """Take in that the lock was broken: the validity is the last (S22)."""
        with self._lock:
            self._broken = Loss(LossReason.BROKEN, "it was broken, and its validity has ended", note)

    def _at_end(self) -> Loss:
        """Say why the hold is lost if nothing but the end of its validity ends it."""
        if self._broken is not None:
            return self._broken
        bound = self._max_hold_ends.at
        if bound is not None and bound <= self._local.until:
            return Loss(LossReason.MAX_HOLD_REACHED, "it lasted as long as max_hold allows")
        return Loss(LossReason.EXPIRED, "its validity ended without a renewal")

    def told(self) -> BootTime | None:
        """Give the latest validity's end, in the sidecar's words (S16)."""
        with self._lock:
            return self._local.told

    def next_question(self) -> int | None:
        """Say when the sidecar should be asked next for the validity; None where its words are enough (S21)."""
        with self._lock:
            return self._local.next_question()

    def lose(self, loss: Loss) -> None:
        """Have the hold lost, unless it is over already."""
        with self._lock:
            if not self._over:
                self._end_by(loss)

    def told_lost(self, loss: Loss) -> None:
        """Take in the sidecar's word that the hold is lost, which says why even if the clock has found it first."""
        with self._lock:
            self.lose(loss)
            if self._found_here:
                self._found_here = False
                self._loss = loss

    @property
    def may_hear_why(self) -> bool:
        """Whether the loss was found by the clock alone."""
        with self._lock:
            return self._found_here

    def end(self) -> bool:
        """End the hold on the holder's side (S13). False if it was over already."""
        with self._lock:
            was_valid = self.remaining() > 0
            self._over = True
            return was_valid

    def _end_by(self, loss: Loss) -> None:
        self._over = True
        self._loss = loss
        if self._on_loss is not None:
            self._on_loss()

    @property
    def loss(self) -> Loss | None:
        """The loss, if the hold is lost, which reads the clock first."""
        self.remaining()
        with self._lock:
            return self._loss
