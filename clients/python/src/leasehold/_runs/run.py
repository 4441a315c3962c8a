"""What a run knows of itself, whichever way it is run, and how its outcome is told (T8)."""

import asyncio
from datetime import datetime, timedelta

from leasehold._connect.calls import Calls
from leasehold._constants import FIRST_PAUSE, LONGEST_RUN_PAUSE
from leasehold._convert import duration, moment, seconds
from leasehold._enums import RunKind, RunOutcome
from leasehold._errors.errors import RefusedError, passes
from leasehold._hold.keeper import Keeper
from leasehold._hold.releasing import resume_answered
from leasehold._runs.run_line import complete, completion
from leasehold._runs.schedules import CompletedRun, EndedRun, at
from leasehold._runs.subscription import Granted
from leasehold.v1.schedule_service_pb2 import CompleteRunRequest
from leasehold.v1.schedule_service_pb2 import Run as WireRun


class RunFacts:
    """What a run is of."""

    _run: WireRun

    @property
    def scheduled_at(self) -> datetime:
        """The occurrence: the nominal instant, whatever the lateness and the spread (T1).

        Of a run by hand when it was started, by the store's clock. To have an effect once, key it on this.
        """
        return moment(self._run.scheduled_at)

    @property
    def local_time(self) -> str:
        """The same as the clocks of the schedule's zone show it, in RFC 3339 with offset and zone."""
        return self._run.local_time

    @property
    def kind(self) -> RunKind:
        """Why there is a run."""
        return RunKind(self._run.kind)

    @property
    def request_id(self) -> str:
        """The id of the request, of a run by hand; else empty."""
        return self._run.request_id

    @property
    def run_id(self) -> str:
        """Names this run in `complete_run`, also after a restart of this process. Who knows it can end the run."""
        return self._run.run_id

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1. Greater than 1 means that the work may have been done in part."""
        return self._run.attempt

    @property
    def max_attempts(self) -> int:
        """How many attempts there are."""
        return self._run.max_attempts

    @property
    def lateness(self) -> timedelta:
        """How long after it was due the run was started, by the store's clock, in whole seconds."""
        return timedelta(seconds=seconds(duration(self._run.lateness)))

    @property
    def missed_count(self) -> int:
        """How many occurrences were missed since the last one that was run. At most 10,000 are counted at once."""
        return self._run.missed_count

    @property
    def deadline_at(self) -> datetime | None:
        """When the run is to be over, by the store's clock; for people. Decide by `max_hold_ends`: the same."""
        return at(self._run, "deadline_at")

    @property
    def next_at(self) -> datetime | None:
        """The next occurrence; None if there is none."""
        return at(self._run, "next_at")

    @property
    def previous(self) -> EndedRun | None:
        """What ended before; None if nothing has."""
        return EndedRun._from_wire(self._run.previous) if self._run.HasField("previous") else None


class Outcome:
    """Tells how a run ended, once."""

    def __init__(self, calls: Calls, granted: Granted) -> None:
        """Tell nothing yet."""
        self._calls = calls
        self._granted = granted
        self._completed: CompletedRun | None = None
        self._telling = 0
        self._is_left = False

    @property
    def is_told(self) -> bool:
        """Whether it was told and answered."""
        return self._completed is not None

    async def tell(self, outcome: RunOutcome, detail: str = "", checkpoint: bytes | None = None) -> CompletedRun:
        """End the run's hold here (S13), and say how it ended until that is answered.

        Also where the hold is lost: its outcome may still count. Cancelled, it is given up.
        """
        if self._completed is not None:
            return self._completed
        keeper = self._granted.keeper
        hold = (keeper.lease_id, keeper.generation)
        # Raises ArgumentError, which leaves the run as it is.
        request = completion(self._granted.run.run_id, hold, outcome, detail, checkpoint)
        keeper.state.end()
        self._telling += 1
        try:
            with self._calls.ending():
                self._completed = await self._answered(keeper, request)
        except RefusedError:
            keeper.unheard()
            raise
        else:
            self._granted.thread.completed.set()
            return self._completed
        finally:
            self._telling -= 1
            if self.is_told or self._is_left:
                keeper.close()
            else:
                keeper.end()

    async def _answered(self, keeper: Keeper, request: CompleteRunRequest) -> CompletedRun:
        await resume_answered(keeper)
        request.generation = keeper.generation
        pause = FIRST_PAUSE
        while True:
            try:
                return await complete(self._calls, request, keeper.connection)
            except RefusedError as error:
                if not passes(error):
                    raise
                await asyncio.sleep(max(error.retry_after or 0, pause))
                pause = min(2 * pause, LONGEST_RUN_PAUSE)

    def leave(self) -> None:
        """Leave the connection, where what failed to be told is told again, once nothing is told any more (S37)."""
        self._is_left = True
        if not self._telling:
            self._granted.keeper.close()


def text_of(error: BaseException) -> str:
    """Give the text of an error; its type's name, if it has none."""
    return str(error) or type(error).__name__
