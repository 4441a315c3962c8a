"""The driver: one process that does what JSON lines on stdin say, and tells on stdout what happens."""

import asyncio
import contextlib
import json
import os
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from contend import contend
from measure import measure, quick
from schedules import every, occurrence, runs
from words import (
    Command,
    emit,
    emit_error,
    emit_granted,
    key_of,
    name_of,
    options,
    told_of_busy,
    told_of_checkpoint,
    told_of_record,
)

import leasehold

TOLD: Final[dict[type, str]] = {
    leasehold.AtRisk: "at_risk",
    leasehold.Recovered: "recovered",
    leasehold.Draining: "draining",
    leasehold.Interrupted: "interrupted",
    leasehold.Resumed: "resumed",
}
"""What is told as it comes. The block itself tells that it was granted and lost; renewals are not told."""


left_open: list[Iterator[leasehold.LockRecord]] = []
"""Iterators that are open when the process ends."""


class BoomError(Exception):
    """What the command `fail` raises in the block."""


class Block:
    """A block of code that holds a lock until it is told to end."""

    def __init__(self) -> None:
        """Be told nothing yet."""
        self.told: Final[asyncio.Future[str]] = asyncio.get_running_loop().create_future()
        self.hold: leasehold.AsyncHold | None = None
        self.is_interrupted = False
        self.checkpoint: str | None = None

    def tell(self, what: str) -> None:
        """End the block."""
        if not self.told.done():
            self.told.set_result(what)


class Driver:
    """Takes commands and tells events."""

    def __init__(self, client: leasehold.AsyncClient, lines: asyncio.Queue[str | None]) -> None:
        """Drive `client`. None in `lines` ends the driver."""
        self._client: Final = client
        self._lines: Final = lines
        self._blocks: Final[dict[str, Block]] = {}
        self._tasks: Final[dict[str, asyncio.Task[None]]] = {}
        self._completing: Final[dict[str, Callable[[str], None]]] = {}
        self._commands: Final[dict[str, Callable[[Command], Coroutine[Any, Any, None]]]] = {
            "hold": self._hold,
            "progress": self._progress,
            "validity": self._validity,
            "acquire": self._acquire,
            "release_lease": self._release_lease,
            "extend": self._extend,
            "resolve": self._resolve,
            "list": self._list,
            "check": self._check,
            "break": self._break,
            "watch": self._watch,
            "exit_with_open_watch": self._exit_with_open_watch,
            "save": self._save,
            "info": self._info,
            "lead": self._lead,
            "watch_locks": self._watch_locks,
            "server_info": self._server_info,
            "quick": self._quick,
            "measure": self._measure,
            "contend": self._contend,
            "runs": self._runs,
            "every": self._every,
            "occurrence": self._occurrence,
        }

    def take(self, command: Command) -> None:
        """Begin what a command says."""
        what, name = command["do"], str(command["id"])
        if what in ("release", "fail") and name in self._blocks:
            self._blocks[name].checkpoint = command.get("checkpoint")
            self._blocks[name].tell(what)
        elif what == "complete" and name in self._completing:
            self._completing[name](command["outcome"])
        elif what == "stop_leading" and name in self._tasks:
            self._tasks[name].cancel()
        elif what in ("cancel", "interrupt") and name in self._tasks:
            if name in self._blocks:
                self._blocks[name].is_interrupted = what == "interrupt"
            self._tasks[name].cancel()
        elif what not in self._commands:
            emit(command, "error", code="UNKNOWN_COMMAND", reason=None, message=f"cannot {what} {name}", fields=[])
        else:
            if what == "hold":
                self._blocks[name] = Block()
            task = asyncio.get_running_loop().create_task(self._guarded(self._commands[what], command))
            if what not in ("progress", "validity", "save", "info"):
                self._tasks[name] = task

    async def end(self) -> None:
        """Cancel what goes on, and wait for its end."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _guarded(self, work: Callable[[Command], Coroutine[Any, Any, None]], command: Command) -> None:
        try:
            await work(command)
        except leasehold.BusyError as error:
            emit(command, "busy", **told_of_busy(error.busy))
        except leasehold.LostError as error:
            emit(command, "lost", reason=error.loss.reason.name, detail=error.loss.detail)
        except leasehold.ReleaseUnconfirmedError as error:
            emit(command, "release_unconfirmed", message=str(error))
        except leasehold.LeaseholdError as error:
            emit_error(command, error)
        except asyncio.CancelledError:
            block = self._blocks.get(str(command["id"]))
            is_interrupted = block is not None and block.is_interrupted
            emit(command, "interrupted_outside" if is_interrupted else "aborted")

    async def _hold(self, command: Command) -> None:
        block = self._blocks[str(command["id"])]

        def on_event(event: leasehold.HoldEvent) -> None:
            if isinstance(event, leasehold.Waiting):
                emit(command, "waiting", place=event.position)
            elif isinstance(event, leasehold.Revoked):
                emit(command, "revoked", reason=event.notice.reason, for_priority=event.notice.for_priority)
            elif type(event) in TOLD:
                emit(command, TOLD[type(event)])

        more: dict[str, object] = {}
        try:
            async with self._client.hold(*name_of(command), on_event=on_event, **options(command)) as hold:
                block.hold = hold
                emit_granted(command, hold.grant)
                more = await self._in_block(command, block, hold)
        except BoomError as error:
            emit(command, "failed", error=str(error))
        else:
            emit(command, "released", **more)

    async def _in_block(self, command: Command, block: Block, hold: leasehold.AsyncHold) -> dict[str, object]:
        """Wait until the block is told to end; give what its release told besides."""
        try:
            what = await block.told
        except asyncio.CancelledError:
            if hold.loss is not None:
                emit(command, "cancelled")
            raise
        if what == "fail":
            raise BoomError("boom")
        if block.checkpoint is not None:
            return told_of_checkpoint(await hold.release(block.checkpoint.encode()))
        if command.get("form") == "call":
            await hold.release()
        return {}

    def _held(self, command: Command) -> leasehold.AsyncHold:
        block = self._blocks.get(str(command["id"]))
        if block is None or block.hold is None:
            raise leasehold.LeaseholdError("it is not held")
        return block.hold

    async def _progress(self, command: Command) -> None:
        await self._held(command).report_progress()
        emit(command, "progressed")

    async def _save(self, command: Command) -> None:
        try:
            version = await self._held(command).save(command["value"].encode())
        except leasehold.ArgumentError:
            emit(command, "save_failed", reason="INVALID_FIELD")
        except leasehold.LostError:
            emit(command, "save_failed", reason="HOLD_LOST")
        except leasehold.RefusedError as error:
            emit(command, "save_failed", reason=error.reason_name)
        else:
            emit(command, "saved", version=version)

    async def _info(self, command: Command) -> None:
        info = await self._held(command).info()
        emit(command, "info", state=info.state.name, token=info.fencing_token)

    async def _lead(self, command: Command) -> None:
        asked = options(command)
        asked.pop("wait", None)
        try:
            async for term in self._client.lead(*name_of(command), **asked):
                async with term:
                    emit(command, "leading", token=term.fencing_token)
                    await asyncio.Event().wait()
                emit(command, "term_ended")
        except asyncio.CancelledError:
            emit(command, "stopped_leading")

    async def _watch_locks(self, command: Command) -> None:
        under = cast(
            "leasehold.WatchOptions", {name: command[name] for name in ("prefix", "share") if command.get(name)}
        )
        async with contextlib.aclosing(self._client.watch_locks(**under)) as events:
            async for event in events:
                match event:
                    case leasehold.LockChanged(record):
                        told = told_of_record(record)
                        emit(command, "lock_changed", path=record.lock_path, state=record.state.name, **told)
                    case leasehold.LockGone(path):
                        emit(command, "lock_gone", path=path)
                    case leasehold.LocksListed(locks):
                        emit(command, "listed", locks=locks)

    async def _server_info(self, command: Command) -> None:
        info = await self._client.get_server_info()
        emit(command, "server_info", version=info.version, features=sorted(info.features))

    async def _validity(self, command: Command) -> None:
        hold = self._held(command)
        emit(command, "validity", valid=hold.is_valid(), remaining_ms=int(hold.remaining() * 1_000))

    async def _acquire(self, command: Command) -> None:
        emit_granted(command, await self._client.acquire(*name_of(command), **options(command)))

    async def _release_lease(self, command: Command) -> None:
        result = await self._client.release(command["lease_id"])
        emit(command, "released", outcome=result.outcome.name)

    async def _extend(self, command: Command) -> None:
        await self._client.extend(command["lease_id"], command["max_hold_ms"] / 1_000)
        emit(command, "extended")

    async def _resolve(self, command: Command) -> None:
        path = await self._client.resolve_path(key_of(command))
        emit(command, "resolved", lock_path=path.lock_path)

    async def _list(self, command: Command) -> None:
        share: leasehold.ListOptions = {"share": command["share"]} if command.get("share") else {}
        emit(command, "listed", paths=[record.lock_path async for record in self._client.list_locks(**share)])

    async def _check(self, command: Command) -> None:
        check = await self._client.check_token(key_of(command), command["token"])
        emit(command, "checked", status=check.status.name)

    async def _break(self, command: Command) -> None:
        mode = leasehold.BreakMode.NOW if command.get("now") else leasehold.BreakMode.RUN_OUT
        broken = await self._client.break_lock(key_of(command), command["reason"], mode=mode)
        emit(command, "broken", outcome=broken.outcome.name)

    async def _watch(self, command: Command) -> None:
        async with contextlib.aclosing(self._client.watch_lock(key_of(command))) as records:
            async for record in records:
                emit(command, "watched", state=record.state.name, **told_of_record(record))

    async def _exit_with_open_watch(self, command: Command) -> None:
        def first() -> leasehold.LockRecord:
            left_open.append(leasehold.Client(**client_options()).watch_lock(key_of(command)))
            return next(left_open[-1])

        record = await asyncio.to_thread(first)
        emit(command, "watched", state=record.state.name)
        self._lines.put_nowait(None)

    async def _quick(self, command: Command) -> None:
        emit(command, "done", tokens=await quick(self._client, command["function"], command["times"]))

    async def _measure(self, command: Command) -> None:
        client, stub = await measure(self._client, command["function"], command["times"])
        emit(command, "measured", client_per_second=client, stub_per_second=stub)

    async def _runs(self, command: Command) -> None:
        outcomes: asyncio.Queue[str] = asyncio.Queue()
        self._completing[command["id"]] = outcomes.put_nowait
        told = TOLD | {leasehold.Subscribed: "subscribed"}
        await runs(self._client, command, outcomes, told, partial(emit, command))

    async def _every(self, command: Command) -> None:
        returns: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._completing[command["id"]] = returns.put
        await every(leasehold.Client(**client_options()), command, returns, partial(emit, command))

    async def _occurrence(self, command: Command) -> None:
        await occurrence(self._client, command, partial(emit, command))

    async def _contend(self, command: Command) -> None:
        emit(command, "done", tokens=await contend(self._client, Path(command["file"]), command["times"]))


def client_options() -> leasehold.ClientOptions:
    """Give the options that the environment asks for."""
    asked: leasehold.ClientOptions = {}
    if keep_alive := os.environ.get("LEASEHOLD_DRIVER_KEEP_ALIVE_MS"):
        asked["keep_alive"] = int(keep_alive) / 1_000
    if release_timeout := os.environ.get("LEASEHOLD_DRIVER_RELEASE_TIMEOUT_MS"):
        asked["release_timeout"] = int(release_timeout) / 1_000
    return asked


def read_lines(loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[str | None]) -> None:
    """Hand each line of stdin to the loop, and None at its end."""
    # Not by sys.stdin: a thread that waits in it keeps the interpreter from ending.
    begun = b""
    while read := os.read(0, 65_536):
        *whole, begun = (begun + read).split(b"\n")
        for line in whole:
            loop.call_soon_threadsafe(lines.put_nowait, line.decode())
    loop.call_soon_threadsafe(lines.put_nowait, None)


async def main() -> None:
    """Take commands until stdin ends."""
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    threading.Thread(target=read_lines, args=(loop, lines), daemon=True).start()
    async with leasehold.AsyncClient(**client_options()) as client:
        driver = Driver(client, lines)
        while (line := await lines.get()) is not None:
            if line.strip():
                driver.take(json.loads(line))
                # What was begun gets its turn before the next command, which may be about it.
                await asyncio.sleep(0)
        await driver.end()


if __name__ == "__main__":
    asyncio.run(main())
