"""What keeps a hold true: it reads the stream, watches the clock, and resumes when the sidecar was away.

Rules: S3 (the clock is read after every wake-up), S4 (lost is final), S13 (the hold ends here before the release is
sent and before the stream ends), S14, S16 (resume), S21 (until when a client may act).
"""

import asyncio
import contextlib
import logging
import os
import uuid
import weakref
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import grpc
import grpc.aio

from leasehold._connect.calls import Calls, Place, final_refusal, told_lost
from leasehold._connect.guarded import Guarded
from leasehold._connect.listening import ENDED, Connection, SilentError
from leasehold._constants import ANSWER_POLL, ANSWER_TIMEOUT, FIRST_PAUSE, KNOWN_TIMEOUT, NAP
from leasehold._convert import duration, seconds
from leasehold._enums import CheckpointOutcome, LossReason, Reason, ReleaseOutcome, RunOutcome
from leasehold._errors.answers import LostError
from leasehold._errors.errors import LeaseholdError, RefusedError, reason_name, refused
from leasehold._hold import events
from leasehold._hold.grants import CheckpointResult, Loss, Notice, ReleaseResult
from leasehold._hold.line import Line
from leasehold._hold.releasing import already_lost, release
from leasehold._hold.saving import Known, checked
from leasehold._hold.state import LocalState
from leasehold._hold.ticker import Ticker
from leasehold._records import Checkpoint
from leasehold.v1 import hold_pb2
from leasehold.v1.lease_service_pb2 import HOLD_STATE_REVOKED, GetHoldResponse, HoldLeaseResponse

_LAST_WORD: Final = 0.25
"""How long the sidecar may still say why a hold is over that the clock has found to be so."""

_log: Final = logging.getLogger("leasehold")

_T = TypeVar("_T")


class Keeper:
    """A hold in the event loop that it was granted in."""

    def __init__(
        self,
        calls: Calls,
        grant: hold_pb2.Grant,
        state: LocalState,
        line: Line,
        handler: events.EventHandler | None,
    ) -> None:
        """Begin to keep what `grant` gave. The stream of `line` is the keeper's from now on."""
        self.state: Final = state
        self.lease_id: Final = grant.lease_id
        self.over: Final = asyncio.Event()
        """Set when the hold is over and the loop knows."""
        self.settled: Final = asyncio.Event()
        """Set when it is known, too, why; soon after `over`."""
        self.notice: Notice | None = None
        """What the holder was told of a break (S22)."""
        self.noticed: Final = asyncio.Event()
        """Set when there is a notice."""
        self.ending: Final = asyncio.Event()
        """Set when there is a notice, when the sidecar shuts down, and when the hold is over."""
        self._calls: Final = calls
        self.generation = grant.generation
        """The newest that was answered (S16). Only the event loop reads it, and sets it."""
        self.lock_path: Final = grant.lock_path
        self._fencing_token: Final = grant.fencing_token
        self._resume_token = grant.resume_token
        self._line = line
        self._place: Final = Place(calls, line.connection)
        weakref.finalize(self, _collected, self._place, calls.loop, os.getpid()).atexit = False
        line.guard(self._loop_ends)
        # Tries to resume, and streams over which nothing was heard for long. They are cancelled only when the hold was
        # resumed, because a sidecar that still hears this client would take it for the holder's end (S14).
        self._others: Final[list[Line]] = []
        self._handler: Final = handler
        self._loop: Final = asyncio.get_running_loop()
        self._loss_listeners: Final[list[Callable[[Loss], None]]] = []
        self._notice_listeners: Final[list[Callable[[], None]]] = []
        self._ending_listeners: Final[list[Callable[[], None]]] = []
        self.resuming = False
        """Whether the stream broke, and no resume was answered yet."""
        self.refused: Loss | None = None
        """The answer to a resume that was refused."""
        self._settling: asyncio.TimerHandle | None = None
        self._known_said = False
        self.known: Final = Known(grant.fencing_token)
        self._told_by(grant)
        self._ticker: Final = Ticker(state, self._ask)
        self._keeping: asyncio.Task[None] | None = self._loop.create_task(Guarded(self._keep(), self._loop_ends))
        self._keeping.add_done_callback(self._forget_keeping)
        calls.held.add(self)
        state.on_loss(self._found_lost)
        self._ticker.tick()

    def on_loss(self, listener: Callable[[Loss], None]) -> None:
        """Have `listener` called in the loop when the hold is lost."""
        self._loss_listeners.append(listener)

    def on_notice(self, listener: Callable[[], None]) -> None:
        """Have `listener` called in the loop when the holder is given notice (S22)."""
        self._notice_listeners.append(listener)

    def on_ending(self, listener: Callable[[], None]) -> None:
        """Have `listener` called in the loop when the hold is to end soon, or is over."""
        self._ending_listeners.append(listener)

    def _is_over(self) -> None:
        self._calls.held.discard(self)
        self.over.set()
        self._is_ending()

    def _is_ending(self) -> None:
        if not self.ending.is_set():
            self.ending.set()
            for listener in self._ending_listeners:
                listener()

    def _loop_ends(self) -> None:
        # What the event loop cancels at its end must not be cancelled while the hold is valid (S13).
        self.state.lose(Loss(LossReason.UNSPECIFIED, "the client's event loop has ended"))

    @property
    def is_unkept(self) -> bool:
        """Whether nobody reads the stream any more."""
        return self._keeping is None or self._keeping.done()

    def _forget_keeping(self, _ended: "asyncio.Task[None]") -> None:
        # What it was cancelled by keeps frames of gRPC, and by them the channel (see _forking).
        self._keeping = None

    def check(self) -> None:
        """Raise unless the holder may act now."""
        if self.state.is_valid():
            return
        loss = self.state.loss
        if loss is not None:
            raise LostError(self.lock_path, loss)
        raise LeaseholdError(f"the lock {self.lock_path} is not held any more")

    async def call(self, make: Callable[[int], Awaitable[_T]], *, here: bool = False) -> tuple[int, _T]:
        """Make a call about the hold, by its newest generation; give when it was sent, and the answer (S21).

        It is made again where a resume has overtaken it, unless the hold is over by then: if it was refused for that,
        and if it counts only where the hold is (`here`).
        """
        while True:
            generation, sent = self.generation, self.state.now()
            try:
                answer = await make(generation)
            except RefusedError as error:
                if not self._is_overtaken(error, generation):
                    raise
                await self.resumed()
                if not self.state.is_valid():
                    raise
            else:
                if here:
                    await self.resumed()
                if not here or generation == self.generation or not self.state.is_valid():
                    return sent, answer

    def _is_overtaken(self, refusal: RefusedError, generation: int) -> bool:
        """Take in what a call about this generation is refused with; say whether a resume has overtaken it, or may.

        S16: a sidecar that the hold has left says of its end what is true there alone.
        """
        loss = told_lost(refusal)
        if loss is None:
            return False
        if self.resuming or generation != self.generation:
            return True
        self.state.told_lost(loss)
        return False

    async def resumed(self) -> None:
        """Wait until no resume is unanswered, as long as the hold is valid."""
        while self.resuming:
            if not self.state.is_valid():
                return
            await asyncio.sleep(ANSWER_POLL)

    async def release(self, checkpoint: bytes | None = None, outcome: RunOutcome | None = None) -> ReleaseResult:
        """Release the lock and wait until the store has it. The hold ends here first (S13)."""
        sending = None if checkpoint is None else checked(checkpoint)
        if not self.state.end():
            loss = await self.why()
            if loss is not None:
                raise LostError(self.lock_path, loss)
            late = CheckpointResult(CheckpointOutcome.NOT_SAVED, None, "the hold had been released before")
            return ReleaseResult(ReleaseOutcome.ALREADY_RELEASED, checkpoint=None if checkpoint is None else late)
        with self._calls.ending():
            return await release(self, self._calls.release_timeout, sending, outcome)

    async def abandon(self, loss: Loss) -> None:
        """Have the hold lost because its client is closed, and release the lock."""
        if self.state.is_valid():
            self._known_said = True
            self.state.lose(loss)
            await release(self, self._calls.release_timeout)

    async def release_there(self, checkpoint: bytes | None, outcome: int) -> hold_pb2.ReleaseResult:
        """Have the sidecar release the lock."""
        return await self._line.release(self.lease_id, self.generation, checkpoint, outcome)

    @property
    def connection(self) -> Connection | None:
        """What carries its stream, and the calls about it."""
        return self._line.connection

    def replace_resume_token(self, resume_token: str) -> None:
        """Resume with this token from now on: the bounds of the hold have changed. An empty one changes nothing."""
        self._resume_token = resume_token or self._resume_token

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint that is known."""
        return self.known.newest

    def _told_by(self, grant: hold_pb2.Grant) -> None:
        if grant.HasField("checkpoint"):
            self.known.told(grant.checkpoint)

    async def why(self) -> Loss | None:
        """Give the loss of a hold that is over, to a holder that has let go; None if that ended it."""
        if self.state.loss is not None:
            try:
                await self.settled.wait()
                await self._say_known()
            finally:
                self._leave()
        self.end()
        return self.state.loss

    async def _say_known(self) -> None:
        """S13: say that the holder knows of its loss and has let go, so that the lock need not be kept for it.

        Not where a resume may have made a newer generation (S16). Whatever is answered, the hold is lost.
        """
        if self._known_said or self.resuming or self.refused is not None or not self._line.says_known:
            return
        self._known_said = True
        with contextlib.suppress(LeaseholdError, TimeoutError):
            await asyncio.wait_for(self.release_there(None, 0), KNOWN_TIMEOUT)

    def released(self) -> None:
        """End the hold and the stream. The outcome of a run may still be told, over its connection."""
        self.end()
        self._leave()

    def unheard(self) -> None:
        """End the hold and the stream, of which the sidecar may not know that it is over."""
        self.end()
        self._line.hand_back()

    def _leave(self) -> None:
        if self._line.says_known:
            self._place.move(None)

    def close(self) -> None:
        """End the hold and the stream, and leave the connection: what was to be said of it was said, or given up."""
        self.end()
        self._place.move(None)

    def end(self) -> None:
        """End the hold here, and then the stream, which releases what was not released (S14)."""
        self.state.end()
        self._ticker.stop()
        if self._settling is not None:
            self._settling.cancel()
        if self._keeping is not None:
            self._keeping.cancel()
        for line in self._others:
            line.cancel()
        self._line.end(is_lost=self.state.loss is not None)
        self._is_over()
        self.settled.set()

    def _tell(self, event: events.HoldEvent) -> None:
        events.tell(self._handler, event)

    def _found_lost(self) -> None:
        # In whatever thread found it. A loop that is closed has nobody left to tell.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._lost)

    def _lost(self) -> None:
        loss = self.state.loss
        if loss is None or self.over.is_set():
            return
        self._is_over()
        for listener in self._loss_listeners:
            listener(loss)
        self._ticker.pause()
        if not self.state.may_hear_why or self.resuming or self.is_unkept:
            self._settle()
        else:
            self._settling = self._loop.call_later(_LAST_WORD, self._settle)

    def _settle(self) -> None:
        loss = self.state.loss
        if loss is not None and not self.settled.is_set():
            self.end()
            self._tell(events.Lost(loss))

    async def _ask(self) -> None:
        """S21: a client elsewhere asks for its validity when it was renewed, and from time to time."""
        generation, sent = self.generation, self.state.now()
        question = self._calls.get_hold(self.lease_id, generation, self.connection)
        try:
            answer = await asyncio.wait_for(question, ANSWER_TIMEOUT)
            goes_on = self.state.take_in(answer.validity, sent)
            if answer.HasField("max_hold_ends"):
                self.state.bound(answer.max_hold_ends, sent)
            if goes_on and answer.state == HOLD_STATE_REVOKED:
                self._revoke(answer)
        except RefusedError as error:
            # One that a resume has overtaken is asked again when that is due.
            self._is_overtaken(error, generation)
        except TimeoutError:
            # Asked again, until the validity ends.
            pass

    async def _keep(self) -> None:
        """Read the stream, and resume when it breaks, until the hold is over."""
        try:
            loss = await self._read()
        except Exception as error:  # noqa: BLE001 - a hold that is not kept is lost, whatever the cause
            _log.exception("the stream of a hold cannot be read")
            loss = Loss(LossReason.UNSPECIFIED, f"the client failed: {error!r}")
        if loss is not None:
            self.state.told_lost(loss)
        if self.over.is_set():
            self._settle()

    async def _read(self) -> Loss | None:
        while True:
            try:
                message = await self._line.read()
            except grpc.aio.AioRpcError as error:
                broke = refused(error)
            except SilentError as error:
                self._others.append(self._line)
                broke = error
            else:
                if isinstance(message, HoldLeaseResponse):
                    loss = self._take_in(message)
                    if loss is not None:
                        return loss
                    continue
                broke = RefusedError(grpc.StatusCode.UNAVAILABLE, ENDED)
            if not self.state.is_valid():
                return None
            loss = final_refusal(broke)
            if loss is not None:
                return loss
            self._tell(events.Interrupted(broke.message))
            self.resuming = True
            loss = await self._resume()
            self.refused = loss
            self.resuming = False
            if loss is not None:
                return loss

    def _take_in(self, message: HoldLeaseResponse) -> Loss | None:
        """Take in an event, and tell it if the hold goes on; give the loss, if the event is one."""
        match message.WhichOneof("event"):
            case "renewed":
                self._take_in_renewed(message.renewed)
            case "at_risk":
                self._take_in_risk(message.at_risk)
            case "revoked":
                if self._goes_on(message.revoked):
                    self._revoke(message.revoked)
            case "recovered":
                if self._goes_on(message.recovered):
                    self._tell(events.Recovered(seconds(self.state.valid_until)))
            case "draining":
                self._is_ending()
                self._tell(events.Draining(seconds(duration(message.draining.time_left))))
            case "lost":
                return Loss._from_wire(message.lost)
            case "released":
                by_lease_id = Loss(LossReason.UNSPECIFIED, "it was released by its lease id")
                return already_lost(message.released.result) or by_lease_id
            case _:
                # Said before a grant only, or an event that this version does not know.
                pass
        return None

    def _take_in_renewed(self, renewed: hold_pb2.Renewed) -> None:
        self.replace_resume_token(renewed.resume_token)
        if renewed.HasField("max_hold_ends"):
            self.state.bound(renewed.max_hold_ends, None)
        if self._goes_on(renewed):
            self._tell(events.Renewed(seconds(self.state.valid_until)))

    def _take_in_risk(self, risk: hold_pb2.AtRisk) -> None:
        if self._goes_on(risk):
            cause = reason_name(risk.cause)
            self._tell(events.AtRisk(seconds(self.state.valid_until), Reason(cause), cause, risk.detail))

    def _revoke(self, told: hold_pb2.Revoked | GetHoldResponse) -> None:
        """Give the holder notice that the lock was broken, unless it was given before (S22)."""
        if self.notice is not None:
            return
        self.notice = Notice._from_wire(told, seconds(self.state.valid_until))
        self.state.broken(self.notice.break_note)
        self.noticed.set()
        self._is_ending()
        for listener in self._notice_listeners:
            listener()
        self._tell(events.Revoked(self.notice))

    def _goes_on(self, told: hold_pb2.Renewed | hold_pb2.AtRisk | hold_pb2.Recovered | hold_pb2.Revoked) -> bool:
        """Take in a validity that answers no request of ours, and ask about it where that is needed (S21)."""
        goes_on = not told.HasField("validity") or self.state.take_in(told.validity, None)
        if goes_on:
            self._ticker.tick()
        return goes_on

    async def _resume(self) -> Loss | None:
        """S16. Try until it has worked or is hopeless, or the hold is over.

        A try is never cut short while the hold is valid, because the sidecar would read that as its end (S14).
        """
        pause = FIRST_PAUSE
        # The same for every try, so that one whose answer was lost can be repeated.
        attempt_id = str(uuid.uuid4())
        # Also where the holder has ended the hold: its release waits for the answer, and ends this (S16).
        while self.state.is_valid() or self.state.loss is None:
            try:
                return await self._try_resume(attempt_id)
            except (grpc.aio.AioRpcError, RefusedError) as error:
                loss = final_refusal(error if isinstance(error, RefusedError) else refused(error))
                if loss is not None:
                    return loss
            await asyncio.sleep(pause)
            pause = min(pause * 2, NAP)
        return None

    async def _try_resume(self, attempt_id: str) -> Loss | None:
        sent = self.state.now()
        resume = hold_pb2.Resume(
            resume_token=self._resume_token,
            told_valid_until=self.state.told() if self.state.is_valid() else None,
            attempt_id=attempt_id,
        )
        line = self._line.resume(resume)
        line.guard(self._loop_ends)
        self._others.append(line)
        while True:
            message = await line.read()
            if not isinstance(message, HoldLeaseResponse):
                raise RefusedError(grpc.StatusCode.UNAVAILABLE, "the stream ended without an answer")
            if message.HasField("lost"):
                return Loss._from_wire(message.lost)
            if message.HasField("granted"):
                break
        # From here on the old stream's end means nothing, and the new one's does.
        self._line = line
        self._place.move(line.connection)
        self._others.remove(line)
        for other in self._others:
            other.drop()
        self._others.clear()
        grant = message.granted
        if grant.fencing_token != self._fencing_token:
            return Loss(LossReason.TAKEN, "the sidecar resumed another hold than this one")
        self.generation = grant.generation
        self._resume_token = grant.resume_token
        self._told_by(grant)
        if grant.HasField("max_hold_ends"):
            self.state.bound(grant.max_hold_ends, sent)
        if not self.state.take_in(grant.validity, sent):
            if self.state.loss is None:
                # The holder has ended the hold, and its release waits for this.
                return None
            return Loss(LossReason.EXPIRED, "its validity ended before it was resumed")
        self._tell(events.Resumed(seconds(self.state.valid_until)))
        return None


def _collected(place: Place, loop: asyncio.AbstractEventLoop, process: int) -> None:
    # Of a hold that was lost and never left, in whatever thread. In a forked child the parent's loop is not one.
    if place.connection is not None and os.getpid() == process:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(place.move, None)
