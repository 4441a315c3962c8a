"""Takes part in a schedule, and holds locks for named occurrences."""

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import leasehold

Tell = Callable[..., None]
"""Tells an event of the command: its name, and what there is to say."""


def options(command: dict[str, Any]) -> leasehold.ScheduleOptions:
    """Give the policies of a schedule."""
    asked: leasehold.ScheduleOptions = {"backoff": command["backoff_ms"] / 1_000}
    if command.get("run_timeout_ms") is not None:
        asked["run_timeout"] = command["run_timeout_ms"] / 1_000
    return asked


async def runs(
    client: leasehold.AsyncClient,
    command: dict[str, Any],
    outcomes: asyncio.Queue[str],
    told: dict[type, str],
    tell: Tell,
) -> None:
    """Complete each run with the next outcome, until cancelled. What happens is told by the names in `told`."""

    def on_event(event: leasehold.ScheduleEvent) -> None:
        if type(event) in told:
            tell(told[type(event)])

    taking_part = client.runs(
        command["every_ms"] / 1_000, function=command["function"], on_event=on_event, **options(command)
    )
    async with aclosing(taking_part) as given:
        async for run in given:
            tell("run", at=int(run.scheduled_at.timestamp()), attempt=run.attempt, token=run.fencing_token)
            completed = await run.complete(leasehold.RunOutcome[await outcomes.get()])
            tell("completed", result=completed.result.name)


async def every(client: leasehold.Client, command: dict[str, Any], returns: queue.SimpleQueue[str], tell: Tell) -> None:
    """Run a function that hangs: whatever becomes of its run, it returns when `returns` says so, and not before."""

    def hang(run: leasehold.Run) -> None:
        def tell_loss() -> None:
            if (loss := run.wait_lost()) is not None:
                tell("lost", reason=loss.reason.name)

        tell("run", at=int(run.scheduled_at.timestamp()), attempt=run.attempt, token=run.fencing_token)
        threading.Thread(target=tell_loss, daemon=True).start()
        returns.get()

    def take_part() -> None:
        try:
            client.every(command["every_ms"] / 1_000, hang, function=command["function"], **options(command))
        except leasehold.ClosedError:
            tell("aborted")

    threading.Thread(target=take_part, daemon=True).start()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        # The thread says that it is over.
        client.close()


async def occurrence(client: leasehold.AsyncClient, command: dict[str, Any], tell: Tell) -> None:
    """Hold a lock for an occurrence, and release it with the outcome, if there is one."""
    outcome = leasehold.RunOutcome[command["outcome"]] if command.get("outcome") else None
    try:
        at = datetime.fromtimestamp(command["at"], UTC)
        async with client.hold(command["function"], occurrence_at=at) as hold:
            result = await hold.release(outcome=outcome)
    except leasehold.OccurrenceOverError as error:
        tell("over", outcome=error.run.outcome.name if error.run and error.run.outcome else None)
        return
    is_recorded = result.occurrence is leasehold.OutcomeResult.RECORDED
    tell("released", attempt=hold.grant.attempt, recorded=is_recorded)
