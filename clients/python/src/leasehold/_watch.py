"""Watching a lock, over one stream after the other where connections break."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from leasehold._calls import Calls
from leasehold._errors import RefusedError, comes_back
from leasehold.v1.lease_service_pb2 import WatchLockRequest, WatchLockResponse
from leasehold.v1.lock_pb2 import LockRecord, LockSelector

_FIRST_PAUSE: Final = 0.05
"""The pause after a connection that broke; doubled up to `_LONGEST_PAUSE` until something is heard again."""
_LONGEST_PAUSE: Final = 1.0


async def watch(calls: Calls, lock: LockSelector) -> AsyncGenerator[LockRecord, None]:
    """Give the record of a lock now and at each change, and none twice."""
    time = asyncio.get_running_loop().time
    last: LockRecord | None = None
    # When the last stream ended over which something was heard.
    broke: float | None = None
    pause = _FIRST_PAUSE
    while True:
        try:
            async with aclosing(_follow(calls, lock)) as records:
                async for record in records:
                    broke, pause = None, _FIRST_PAUSE
                    # The sidecar repeats the last record, so that a dead connection is noticed.
                    if record != last:
                        last = record
                        yield record
        except RefusedError as error:
            broke = time() if broke is None else broke
            if last is None or not comes_back(error) or time() - broke > calls.silence:
                raise
        else:
            return
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


async def _follow(calls: Calls, lock: LockSelector) -> AsyncGenerator[LockRecord, None]:
    call = calls.watch(WatchLockRequest(lock=lock))
    try:
        while True:
            with calls.typed_errors():
                answer = await call.read()
            if not isinstance(answer, WatchLockResponse):
                return
            yield answer.record
    finally:
        call.cancel()
