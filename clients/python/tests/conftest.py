import asyncio
import inspect
import signal
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from bench import PATIENCE, Bench, VirtualLoop

# What a shell runs in the background ignores SIGINT, and so would the samples that the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def made() -> Bench:
    """A client before a fake sidecar, for an async test in a time of its own."""
    return Bench()


@pytest.fixture
def served() -> Bench:
    """The same over a socket, in real time."""
    return Bench(is_served=True)


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
    bench: Any = arguments.get("made", arguments.get("served", nullcontext()))

    async def run() -> None:
        async with bench:
            await test(**arguments)

    factory, limit = (VirtualLoop, 3_600) if "made" in arguments else (None, 2 * PATIENCE)
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(asyncio.wait_for(run(), limit))
    return True
