"""What a holder sees of its hold, whichever way it was taken."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Final

from leasehold._convert import seconds
from leasehold._hold.grants import Grant, Loss, Notice
from leasehold._hold.keeper import Keeper
from leasehold._records import Checkpoint


class BaseHold:
    """A lock that is held.

    What it says is right also after the process, or the machine, was stopped and goes on: each question reads the
    boot clock. Between the question and the deed the process may be stopped again, so let protected resources check
    `fencing_token`. May be asked from any thread. In a forked child it is never valid.
    """

    def __init__(self, keeper: Keeper, grant: Grant) -> None:
        """Show `keeper` to its holder."""
        self._keeper: Final = keeper
        self._grant: Final = grant

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.lock_path} token {self.fencing_token}"
            f" {'valid' if self.is_valid() else 'over'}>"
        )

    @property
    def fencing_token(self) -> int:
        """Greater than every token granted for this lock before.

        Send it with each write, and let the resource refuse smaller ones than it has seen (S5).
        """
        return self._grant.fencing_token

    @property
    def lock_path(self) -> str:
        """The path of the lock."""
        return self._grant.lock_path

    @property
    def lease_id(self) -> str:
        """Names this hold in calls of its own. Who knows it can end the hold."""
        return self._grant.lease_id

    @property
    def grant(self) -> Grant:
        """The grant as it came."""
        return self._grant

    @property
    def valid_until(self) -> float:
        """The end of validity unless renewed: seconds on this machine's boot clock (CLOCK_BOOTTIME).

        Past it the hold is lost, whether or not anything said so.
        """
        return seconds(self._keeper.state.valid_until)

    @property
    def max_hold_ends(self) -> float | None:
        """When `max_hold` ends and the hold is lost, unless it is extended before; None if there is no limit.

        Seconds on this machine's boot clock, as `valid_until`.
        """
        ends = self._keeper.state.max_hold_ends
        return None if ends is None else seconds(ends)

    @property
    def permit(self) -> int:
        """Which permit of the lock is held: 0 for the lock's own path. Each has fencing tokens of its own."""
        return self._grant.permit

    @property
    def checkpoint(self) -> Checkpoint | None:
        """What the last holder saved, or this one since; None if nobody did."""
        return self._keeper.checkpoint

    def remaining(self) -> float:
        """Give the seconds left now; 0 when the hold is over."""
        return seconds(self._keeper.state.remaining())

    def is_valid(self) -> bool:
        """Say whether the holder may act now. Once false, it stays false."""
        return self._keeper.state.is_valid()

    @property
    def notice(self) -> Notice | None:
        """The notice that the lock was broken, with its deadline; None if there was none (S22).

        The hold stays valid until the deadline: finish, save the checkpoint, release.
        """
        return self._keeper.notice

    @property
    def loss(self) -> Loss | None:
        """Why the hold is lost; None if it is not, or was ended by its holder.

        EXPIRED where the clock has found it first, until the sidecar says why: up to 250 ms later, and the end of the
        block waits for it.
        """
        return self._keeper.state.loss

    def check(self) -> None:
        """Raise unless the holder may act now: call it before each step that must not happen twice.

        Raises LostError if the hold is lost, LeaseholdError if it was released.
        """
        self._keeper.check()


_current: Final[ContextVar[BaseHold]] = ContextVar("leasehold.current_hold")


def current_hold() -> BaseHold:
    """Give the hold of the innermost block, or decorated function, that this code runs in.

    Raises LookupError outside of all.
    """
    return _current.get()


@contextmanager
def as_current(hold: BaseHold) -> Iterator[None]:
    """Have `hold` be the current one."""
    token = _current.set(hold)
    try:
        yield
    finally:
        # Left in another context than entered, as in fixtures that are generators, it was not the current one there.
        with suppress(ValueError):
            _current.reset(token)
