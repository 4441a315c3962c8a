"""The client for asyncio."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType
from typing import Final, Self, Unpack

from leasehold._connect import patched
from leasehold._connect.calls import LONGEST_LEASE, Calls
from leasehold._connect.needs import needs
from leasehold._connect.options import ClientOptions, Connector
from leasehold._constants import CALL_TIMEOUT, FIRST_PAUSE, LONGEST_PAUSE
from leasehold._convert import moment
from leasehold._enums import LossReason, RunOutcome
from leasehold._errors.answers import BusyError, OccurrenceOverError
from leasehold._errors.errors import ClosedError, LeaseholdError, ProtocolError, RefusedError, attach, is_below_needs
from leasehold._hold.async_hold import AsyncHolding
from leasehold._hold.boot_clock import BootClock, Clock
from leasehold._hold.events import EventHandler
from leasehold._hold.grants import Busy, Extension, Grant, HoldInfo, Loss, ReleaseResult, Validity
from leasehold._hold.leading import AsyncTerm, for_leading, lead
from leasehold._hold.saving import checked
from leasehold._hold.spec import FOREVER, LeaseSpec, Seconds, Wanted, wanted
from leasehold._records import LockKey, LockRecord, selector
from leasehold._runs.async_schedules import AsyncSchedules
from leasehold._runs.schedules import EndedRun
from leasehold._watch.answers import BreakResult, LocksEvent, ResolvedPath, ServerInfo, TokenCheck
from leasehold._watch.requests import (
    UNKNOWN_GENERATION,
    BreakOptions,
    ListOptions,
    WatchOptions,
    break_request,
    extend_request,
    list_request,
    watch_request,
)
from leasehold._watch.watch import watch, watch_all
from leasehold.v1 import lease_service_pb2 as wire


class AsyncClient(AsyncSchedules):
    """A client of one sidecar, for one event loop.

    It opens as many connections as its holds, waits and watches need, at the first call, and again when they break, so
    it can be made anywhere, also before the event loop runs. `async with` closes it. Calls raise RefusedError;
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
        patched.check()
        self._connector: Final = Connector(endpoint, options)
        self._clock: Clock = BootClock()
        self._process: Final = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._made: Calls | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<AsyncClient {self._connector.endpoint}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except LeaseholdError as error:
            if exc is None:
                raise
            attach(error, exc)

    async def close(self) -> None:
        """Release what is still held through the client, and close its connections.

        Those holds are lost first (S13). Releases and completions that are under way are waited for, as long as a
        release may take. Raises ReleaseUnconfirmedError or LostError, as a hold's `release` does, of the first whose
        release was not confirmed; the others' are its notes.
        """
        calls = None if self._closed else self._made
        self._closed = True
        if calls is None:
            return
        loss = Loss(LossReason.UNSPECIFIED, "the client was closed")
        releases = [held.abandon(loss) for held in calls.held]
        outcomes = await asyncio.gather(calls.ended(), *releases, return_exceptions=True)
        await calls.close()
        failed = [outcome for outcome in outcomes if isinstance(outcome, LeaseholdError)]
        for other in failed[1:]:
            failed[0].add_note(str(other))
        if failed:
            raise failed[0]

    def hold(
        self,
        function: str | LockKey,
        scope: str = "",
        *,
        on_event: EventHandler | None = None,
        **options: Unpack[LeaseSpec],
    ) -> AsyncHolding:
        """Hold the lock of `function`, or of its part `scope`, for an `async with` block or a decorated function.

        Raises BusyError if the lock was not acquired within `wait`, and LostError when it was lost in the block.
        """
        return AsyncHolding(self._calls, wanted(function, scope, options), on_event)

    def lead(
        self,
        function: str | LockKey,
        scope: str = "",
        *,
        on_event: EventHandler | None = None,
        **options: Unpack[LeaseSpec],
    ) -> AsyncGenerator[AsyncTerm, None]:
        """Lead: give one term after the other, each a hold of the lock, without end.

        It waits for the lock without end, and takes it again after a loss, or when the sidecar was away. Enter each
        term with `async with`: then a loss cancels the block, stays inside, and the loop goes on with the
        next term. Where the block ends, the lock is released; leave the loop to lead no more. Between two terms is a
        random pause of 0.1 s to 1 s, and longer ones, up to 10 s, while the lock cannot be taken. Raises what the block
        raises, and RefusedError if the sidecar refuses what no repetition changes.
        """
        return lead(self._calls, for_leading(function, scope, options), on_event)

    async def acquire(
        self,
        function: str | LockKey,
        scope: str = "",
        **options: Unpack[LeaseSpec],
    ) -> Grant:
        """Take the lock by a unary call. Prefer `hold`.

        The sidecar renews it until `release`, `max_hold` or shutdown, whether or not this process lives. Raises
        BusyError if the lock was not acquired within `wait`.
        """
        return await self._acquire(wanted(function, scope, options).in_rounds())

    async def _acquire(self, asked: Wanted) -> Grant:
        calls = self._calls()
        # The call itself is made once: one of which nothing is known may have been granted.
        asked = asked.after(await calls.sidecar(FOREVER if asked.forever else asked.wait))
        pause = FIRST_PAUSE
        while True:
            request, sent = wire.AcquireLeaseRequest(spec=asked.spec), calls.loop.time()
            request.needs = needs(request)
            try:
                with calls.lasting() as connection:
                    answer = await calls.unary(connection.stub.AcquireLease, request, asked.wait + CALL_TIMEOUT)
                    if answer.HasField("granted"):
                        calls.granted(answer.granted.lease_id, connection)
            except RefusedError as refused:
                if is_below_needs(refused) and pause < asked.wait:
                    # S37: the sidecar may be replaced meanwhile, by one that is new enough.
                    await asyncio.sleep(pause)
                    asked, pause = asked.after(calls.loop.time() - sent), min(2 * pause, LONGEST_PAUSE)
                else:
                    asked = asked.shortened(refused)
                continue
            match answer.WhichOneof("outcome"):
                case "granted":
                    return Grant._from_wire(answer.granted)
                case "already_done":
                    raise OccurrenceOverError(EndedRun._from_wire(answer.already_done.run), None)
                case "skipped":
                    raise OccurrenceOverError(None, moment(answer.skipped.watermark))
                case "busy" if asked.forever:
                    continue
                case "busy":
                    raise BusyError(asked.name, Busy._from_wire(answer.busy))
                case _:
                    raise ProtocolError("an acquire was answered without an outcome")

    async def release(
        self, lease_id: str, checkpoint: bytes | None = None, outcome: RunOutcome | None = None
    ) -> ReleaseResult:
        """Release what `acquire` took. Stop acting on it before; may be repeated (S13).

        A `checkpoint` is saved first. If that fails the lock is released all the same, and the result says both (S26).
        The outcome ALREADY_LOST says that somebody else may have held the lock before.
        """
        sending = None if checkpoint is None else checked(checkpoint)
        released = await self._calls().release(lease_id, UNKNOWN_GENERATION, sending, outcome.value if outcome else 0)
        return ReleaseResult._from_wire(released, sending, outcome)

    async def save_checkpoint(self, lease_id: str, value: bytes) -> int:
        """Save the checkpoint of a lock that `acquire` took; give the version that the store has then (S24, S26).

        At most 2,048 bytes. Raises CheckpointUnknownError if no answer came in time (S27).
        """
        request = wire.SaveCheckpointRequest(lease_id=lease_id, value=checked(value))
        return (await self._calls().save(request, LONGEST_LEASE)).version

    async def extend(self, lease_id: str, max_hold: Seconds) -> Extension:
        """Set a new `max_hold`, counted from now."""
        request = extend_request(lease_id, UNKNOWN_GENERATION, max_hold)
        return Extension._from_wire(await self._calls().extend(request))

    async def report_progress(self, lease_id: str) -> Validity:
        """Say that the holder is getting on, which restarts `progress_timeout`."""
        return Validity._from_wire(await self._calls().report_progress(lease_id, UNKNOWN_GENERATION))

    async def get_hold(self, lease_id: str) -> HoldInfo:
        """Ask for a hold's validity, limits and state, which changes nothing."""
        return HoldInfo._from_wire(await self._calls().get_hold(lease_id, UNKNOWN_GENERATION))

    async def get_server_info(self) -> ServerInfo:
        """Ask what the sidecar is: its version, its limits and what it can do."""
        calls = self._calls()
        return ServerInfo._from_wire(await calls.unary(calls.stub.GetServerInfo, wire.GetServerInfoRequest()))

    async def get_lock(self, lock: LockKey | str, *, permit: int = 0, with_checkpoint: bool = False) -> LockRecord:
        """Give the record of one lock. One that was never taken is AVAILABLE.

        The checkpoint's value is read from the store only if it is asked for.
        """
        calls = self._calls()
        request = wire.GetLockRequest(lock=selector(lock, permit), with_checkpoint=with_checkpoint)
        answer = await calls.unary(calls.stub.GetLock, request)
        return LockRecord._from_wire(answer.record)

    async def list_locks(self, **options: Unpack[ListOptions]) -> AsyncGenerator[LockRecord, None]:
        """Give the records in the order of their paths, all pages of them."""
        calls = self._calls()
        request = list_request(options)
        while True:
            answer = await calls.unary(calls.stub.ListLocks, request)
            for record in answer.records:
                yield LockRecord._from_wire(record)
            if not answer.next_page_token:
                return
            request.page_token = answer.next_page_token

    async def watch_lock(self, lock: LockKey | str, *, permit: int = 0) -> AsyncGenerator[LockRecord, None]:
        """Give the record of a lock now and at each change.

        A watch whose connection breaks goes on by itself. Raises RefusedError if none can be opened, or none again for
        90 s.
        """
        async for record in watch(self._calls(), selector(lock, permit)):
            yield LockRecord._from_wire(record)

    async def watch_locks(self, **options: Unpack[WatchOptions]) -> AsyncGenerator[LocksEvent, None]:
        """Follow all locks in one stream: LockChanged for each, then LocksListed, then each change, or LockGone.

        A watch whose connection breaks goes on by itself, with what has changed meanwhile. Raises RefusedError if none
        can be opened, or none again for 90 s.
        """
        async with aclosing(watch_all(self._calls(), watch_request(options))) as events:
            async for event in events:
                yield event

    async def check_token(self, lock: LockKey | str, fencing_token: int, *, permit: int = 0) -> TokenCheck:
        """Compare a fencing token with the newest of its lock."""
        calls = self._calls()
        request = wire.CheckTokenRequest(lock=selector(lock, permit), fencing_token=fencing_token)
        return TokenCheck._from_wire(await calls.unary(calls.stub.CheckToken, request))

    async def break_lock(self, lock: LockKey | str, reason: str, **options: Unpack[BreakOptions]) -> BreakResult:
        """End the lease of a lock that somebody else has; `reason` is stored with it (S17).

        Raises RefusedError with reason BREAK_NOT_ENABLED unless the operator enabled it, and with OTHER_HOLDER if the
        lock has another holder by then.
        """
        calls = self._calls()
        request = break_request(lock, reason, options)
        return BreakResult._from_wire(await calls.unary(calls.stub.BreakLock, request))

    async def resolve_path(self, key: LockKey) -> ResolvedPath:
        """Give the lock path of a key; it acquires nothing."""
        calls = self._calls()
        request = wire.ResolvePathRequest(key=key._to_wire())
        return ResolvedPath._from_wire(await calls.unary(calls.stub.ResolvePath, request))

    def _calls(self) -> Calls:
        """Give the calls in this event loop."""
        if self._closed:
            raise ClosedError("the client was closed")
        if os.getpid() != self._process:
            raise ClosedError("the client was made before this process was forked: make one in each process")
        loop = asyncio.get_running_loop()
        if self._made is None:
            self._loop = loop
            self._made = Calls(self._connector, self._clock)
        elif self._loop is not loop:
            raise ClosedError("the client belongs to another event loop: make one for each")
        return self._made
