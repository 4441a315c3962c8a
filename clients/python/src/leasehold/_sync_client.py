"""The client for code without asyncio."""

from collections.abc import Iterator
from types import TracebackType
from typing import Self, Unpack

from leasehold._async_client import AsyncClient
from leasehold._connect.calls import Calls
from leasehold._connect.loop_thread import LoopThread
from leasehold._connect.options import ClientOptions
from leasehold._each import each
from leasehold._enums import RunOutcome
from leasehold._errors.errors import LeaseholdError, attach
from leasehold._hold.events import EventHandler
from leasehold._hold.grants import Extension, Grant, HoldInfo, ReleaseResult, Validity
from leasehold._hold.leading import for_leading
from leasehold._hold.spec import LeaseSpec, Seconds, wanted
from leasehold._hold.sync_hold import Holding
from leasehold._hold.sync_leading import Term, lead
from leasehold._records import LockKey, LockRecord
from leasehold._runs.sync_schedules import Schedules
from leasehold._watch.answers import BreakResult, LocksEvent, ResolvedPath, ServerInfo, TokenCheck
from leasehold._watch.requests import BreakOptions, ListOptions, WatchOptions


class Client(Schedules):
    """A client of one sidecar, for any threads of one process.

    It opens as many connections as its holds, waits and watches need, at the first call, and again when they break.
    `with` closes it. A thread in the background keeps what is held, whatever the others do. Calls raise RefusedError;
    UnreachableError, which is one, if no sidecar answers. Locks are named by a LockKey, and the number of the `permit`
    where they have several, or by their path as it stands in a Grant or a LockRecord.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        """Go to `endpoint`: `unix:///path`, `http://host:port` or `https://host:port`.

        Default: what LEASEHOLD_ENDPOINT says, else `http://127.0.0.1:50951`. Raises EndpointError or ArgumentError if
        the endpoint or an option is invalid, and PlatformError on a platform other than Linux and macOS, or where
        gevent or eventlet has patched Python's threads.
        """
        self._in_loop: AsyncClient = AsyncClient(endpoint, **options)

    def __repr__(self) -> str:
        return f"<Client {self._in_loop._connector.endpoint}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except LeaseholdError as error:
            if exc is None:
                raise
            attach(error, exc)

    def close(self) -> None:
        """Release what is still held through the client, and close its connections.

        Those holds are lost first (S13). Releases and completions that are under way are waited for, as long as a
        release may take. Raises ReleaseUnconfirmedError or LostError, as a hold's `release` does, of the first whose
        release was not confirmed; the others' are its notes.
        """
        LoopThread.shared().run(self._in_loop.close())

    def hold(
        self,
        function: str | LockKey,
        scope: str = "",
        *,
        on_event: EventHandler | None = None,
        **options: Unpack[LeaseSpec],
    ) -> Holding:
        """Hold the lock of `function`, or of its part `scope`, for a `with` block or a decorated function.

        Raises BusyError if the lock was not acquired within `wait`, and LostError when it was lost in the block.
        `on_event` is called in the background thread.
        """
        return Holding(self._calls, wanted(function, scope, options), on_event)

    def lead(
        self,
        function: str | LockKey,
        scope: str = "",
        *,
        on_event: EventHandler | None = None,
        **options: Unpack[LeaseSpec],
    ) -> Iterator[Term]:
        """Lead: give one term after the other, each a hold of the lock, without end.

        It waits for the lock without end, and takes it again after a loss, or when the sidecar was away. Enter each
        term with `with`: then LostError of the term (`check()`) stays inside, and the loop goes on with the
        next term. Where the block ends, the lock is released; leave the loop to lead no more. Between two terms is a
        random pause of 0.1 s to 1 s, and longer ones, up to 10 s, while the lock cannot be taken. Raises what the block
        raises, and RefusedError if the sidecar refuses what no repetition changes.
        """
        return lead(self, for_leading(function, scope, options), on_event)

    def acquire(
        self,
        function: str | LockKey,
        scope: str = "",
        **options: Unpack[LeaseSpec],
    ) -> Grant:
        """Take the lock by a unary call. Prefer `hold`.

        The sidecar renews it until `release`, `max_hold` or shutdown, whether or not this process lives. Raises
        BusyError if the lock was not acquired within `wait`.
        """
        return LoopThread.shared().run(self._in_loop.acquire(function, scope, **options))

    def release(
        self, lease_id: str, checkpoint: bytes | None = None, outcome: RunOutcome | None = None
    ) -> ReleaseResult:
        """Release what `acquire` took. Stop acting on it before; may be repeated (S13).

        A `checkpoint` is saved first. If that fails the lock is released all the same, and the result says both (S26).
        The outcome ALREADY_LOST says that somebody else may have held the lock before.
        """
        return LoopThread.shared().run(self._in_loop.release(lease_id, checkpoint, outcome))

    def save_checkpoint(self, lease_id: str, value: bytes) -> int:
        """Save the checkpoint of a lock that `acquire` took; give the version that the store has then (S24, S26).

        At most 2,048 bytes. Raises CheckpointUnknownError if no answer came in time (S27).
        """
        return LoopThread.shared().run(self._in_loop.save_checkpoint(lease_id, value))

    def extend(self, lease_id: str, max_hold: Seconds) -> Extension:
        """Set a new `max_hold`, counted from now."""
        return LoopThread.shared().run(self._in_loop.extend(lease_id, max_hold))

    def report_progress(self, lease_id: str) -> Validity:
        """Say that the holder is getting on, which restarts `progress_timeout`."""
        return LoopThread.shared().run(self._in_loop.report_progress(lease_id))

    def get_hold(self, lease_id: str) -> HoldInfo:
        """Ask for a hold's validity, limits and state, which changes nothing."""
        return LoopThread.shared().run(self._in_loop.get_hold(lease_id))

    def get_server_info(self) -> ServerInfo:
        """Ask what the sidecar is: its version, its limits and what it can do."""
        return LoopThread.shared().run(self._in_loop.get_server_info())

    def get_lock(self, lock: LockKey | str, *, permit: int = 0, with_checkpoint: bool = False) -> LockRecord:
        """Give the record of one lock. One that was never taken is AVAILABLE.

        The checkpoint's value is read from the store only if it is asked for.
        """
        return LoopThread.shared().run(self._in_loop.get_lock(lock, permit=permit, with_checkpoint=with_checkpoint))

    def list_locks(self, **options: Unpack[ListOptions]) -> Iterator[LockRecord]:
        """Give the records in the order of their paths, all pages of them."""
        return each(self._in_loop.list_locks(**options))

    def watch_lock(self, lock: LockKey | str, *, permit: int = 0) -> Iterator[LockRecord]:
        """Give the record of a lock now and at each change.

        A watch whose connection breaks goes on by itself. Raises RefusedError if none can be opened, or none again for
        90 s. It may be left open: its end, or the process's, closes it.
        """
        return each(self._in_loop.watch_lock(lock, permit=permit))

    def watch_locks(self, **options: Unpack[WatchOptions]) -> Iterator[LocksEvent]:
        """Follow all locks in one stream: LockChanged for each, then LocksListed, then each change, or LockGone.

        A watch whose connection breaks goes on by itself, with what has changed meanwhile. Raises RefusedError if none
        can be opened, or none again for 90 s.
        """
        return each(self._in_loop.watch_locks(**options))

    def check_token(self, lock: LockKey | str, fencing_token: int, *, permit: int = 0) -> TokenCheck:
        """Compare a fencing token with the newest of its lock."""
        return LoopThread.shared().run(self._in_loop.check_token(lock, fencing_token, permit=permit))

    def break_lock(self, lock: LockKey | str, reason: str, **options: Unpack[BreakOptions]) -> BreakResult:
        """End the lease of a lock that somebody else has; `reason` is stored with it (S17).

        Raises RefusedError with reason BREAK_NOT_ENABLED unless the operator enabled it, and with OTHER_HOLDER if the
        lock has another holder by then.
        """
        return LoopThread.shared().run(self._in_loop.break_lock(lock, reason, **options))

    def resolve_path(self, key: LockKey) -> ResolvedPath:
        """Give the lock path of a key; it acquires nothing."""
        return LoopThread.shared().run(self._in_loop.resolve_path(key))

    def _calls(self) -> Calls:
        return self._in_loop._calls()
