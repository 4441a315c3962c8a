"""Iterating without asyncio over what an async generator gives."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from typing import TypeVar

from leasehold._connect.loop_thread import LoopThread
from leasehold._errors.errors import ClosedError

_T = TypeVar("_T")


def each(records: AsyncGenerator[_T, None]) -> Iterator[_T]:
    """Give one record after the other, each when it is asked for."""

    async def following() -> _T | None:
        return await anext(records, None)

    thread = LoopThread.shared()
    try:
        while (record := thread.run(following())) is not None:
            yield record
    finally:
        # Left open until the process ends, it was closed with the thread.
        with suppress(ClosedError):
            thread.run(records.aclose())
