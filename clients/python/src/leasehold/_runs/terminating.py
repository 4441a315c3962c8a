"""What SIGTERM does to a program that takes part in a schedule: it ends the work as Ctrl-C does, and returns the run.

Python's own way is to end at once, without `finally`. Then the run is found abandoned, which uses up an attempt (T11).
"""

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_STATUS: Final = 128 + signal.SIGTERM


def _is_unhandled() -> bool:
    """Say whether nobody in this program handles the signal, and this thread may."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Have SIGTERM raise SystemExit in the block; a second one ends the process at once."""
    if not _is_unhandled():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise SystemExit(_STATUS)

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is stop:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def cancelled_by_sigterm() -> Iterator[None]:
    """Have SIGTERM cancel the task in the block, which then raises SystemExit; a second one ends the process."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    if task is None or not _is_unhandled():
        yield
        return
    told = False

    def stop() -> None:
        nonlocal told
        told = loop.remove_signal_handler(signal.SIGTERM)
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, stop)
    try:
        yield
    except asyncio.CancelledError:
        if told:
            raise SystemExit(_STATUS) from None
        raise
    finally:
        if not told:
            loop.remove_signal_handler(signal.SIGTERM)
