import asyncio
import inspect
import signal
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from fake import PATIENCE, Bench

# What a shell runs in the background ignores SIGINT, and so would the samples that the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def made() -> Bench:
    """A fake sidecar, and a client of it, for the time of an async test."""
    return Bench()


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module, name: str, obj: object) -> list[pytest.Item] | None:
    """What a test module only imports is no test, whatever its name."""
    imported = inspect.isfunction(obj) and obj.__module__ != collector.obj.__name__
    return [] if imported else None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs async tests, each in an event loop of its own."""
    test: Callable[..., Any] = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}

    async def run() -> None:
        made: Any = arguments.get("made", nullcontext())
        async with made:
            await test(**arguments)

    asyncio.run(asyncio.wait_for(run(), 2 * PATIENCE))
    return True
