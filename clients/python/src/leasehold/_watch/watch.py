"""Watching locks, over one stream after the other where connections break."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeVar

from leasehold._connect.calls import Calls
from leasehold._connect.listening import Listening
from leasehold._constants import FIRST_PAUSE, LONGEST_PAUSE
from leasehold._errors.errors import RefusedError, comes_back
from leasehold._records import LockRecord
from leasehold._watch.answers import LockChanged, LockGone, LocksEvent, LocksListed
from leasehold.v1 import lock_pb2
from leasehold.v1.lease_service_pb2 import WatchLockRequest, WatchLockResponse, WatchLocksRequest, WatchLocksResponse

_Answer = TypeVar("_Answer", WatchLockResponse, WatchLocksResponse)


async def watch(calls: Calls, lock: lock_pb2.LockSelector) -> AsyncGenerator[lock_pb2.LockRecord, None]:
    """Give the record of a lock now and at each change, and none twice."""
    last: lock_pb2.LockRecord | None = None
    streams = _streams(calls, lambda: calls.watch(WatchLockRequest(lock=lock)), WatchLockResponse)
    async with aclosing(streams) as answers:
        async for answer in answers:
            # The sidecar repeats the last record, so that a dead connection is noticed.
            if answer is not None and answer.record != last:
                last = answer.record
                yield last


async def watch_all(calls: Calls, request: WatchLocksRequest) -> AsyncGenerator[LocksEvent, None]:
    """Give the records of all locks, and each change; after a connection that broke only what has changed since."""
    known: dict[str, lock_pb2.LockRecord] = {}
    # What this stream has told of before it had told everything; None after that.
    seen: set[str] | None = None
    async with aclosing(_streams(calls, lambda: calls.watch_all(request), WatchLocksResponse)) as answers:
        async for answer in answers:
            if answer is None:
                seen = set()
            elif answer.HasField("changed"):
                record = answer.changed
                if seen is not None:
                    seen.add(record.lock_path)
                if known.get(record.lock_path) != record:
                    known[record.lock_path] = record
                    yield LockChanged(LockRecord._from_wire(record))
            elif answer.HasField("gone"):
                if known.pop(answer.gone, None) is not None:
                    yield LockGone(answer.gone)
            elif answer.HasField("listed"):
                for path in [] if seen is None else sorted(known.keys() - seen):
                    del known[path]
                    yield LockGone(path)
                seen = None
                yield LocksListed._from_wire(answer.listed)


async def _streams(
    calls: Calls, opened: Callable[[], Listening[_Answer]], kind: type[_Answer]
) -> AsyncGenerator[_Answer | None, None]:
    """Give the answers of one stream after the other, and None where one begins."""
    time = asyncio.get_running_loop().time
    is_heard = False
    # When the last stream ended over which something was heard.
    broke: float | None = None
    pause = FIRST_PAUSE
    while True:
        yield None
        try:
            async with aclosing(_follow(calls, opened(), kind)) as answers:
                async for answer in answers:
                    is_heard, broke, pause = True, None, FIRST_PAUSE
                    yield answer
        except RefusedError as error:
            broke = time() if broke is None else broke
            if not is_heard or not comes_back(error) or time() - broke > calls.silence:
                raise
        else:
            return
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


async def _follow(calls: Calls, call: Listening[_Answer], kind: type[_Answer]) -> AsyncGenerator[_Answer, None]:
    try:
        while True:
            with calls.typed_errors():
                answer = await call.read()
            if not isinstance(answer, kind):
                return
            yield answer
    finally:
        call.cancel()
