"""The clock that counts from boot and goes on counting while the machine sleeps (S3); only this file reads one."""

import functools
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar

from leasehold._errors.errors import PlatformError

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_PROCESS: Final = Path("/proc/self")
T = TypeVar("T")
_SYSCTL: Final = ("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid")


class Clock(Protocol):
    """Where the time comes from: the machine, or a test."""

    @property
    def boot_id(self) -> str:
        """Whose boot the clock counts from; empty if the kernel does not tell, or a time namespace shifts the clock.

        Then none is sent.
        """

    def now(self) -> int:
        """Give the nanoseconds from boot to the present moment."""


class BootClock:
    """The machine's boot clock: CLOCK_BOOTTIME on Linux, and CLOCK_MONOTONIC on macOS, where it counts sleep."""

    def __init__(self) -> None:
        names = {"linux": "CLOCK_BOOTTIME", "darwin": "CLOCK_MONOTONIC"}
        clock: int | None = getattr(time, names.get(sys.platform, ""), None)
        if clock is None:
            raise PlatformError(
                f"Leasehold's client needs Linux or macOS: Python has no clock on {sys.platform} that counts while the "
                "machine sleeps, and without one a holder cannot know when its lock has expired"
            )
        self._clock: Final = clock
        # Not remembered: a process that was forked may be in another time namespace.
        self.boot_id: Final = "" if is_shifted(_PROCESS) else _boot_id(sys.platform)

    def now(self) -> int:
        """Give the nanoseconds from boot to the present moment."""
        return time.clock_gettime_ns(self._clock)


@functools.cache
def _boot_id(platform: str) -> str:
    """Give the kernel's boot id; empty if it does not tell."""
    try:
        if platform == "darwin":
            told = subprocess.run(_SYSCTL, check=True, capture_output=True, timeout=5)  # noqa: S603 - a fixed program
            return told.stdout.decode("ascii").strip()
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""


def is_shifted(process: Path) -> bool:
    """Tell whether a time namespace shifts the clock of this process, or may.

    Processes of other namespaces then read another clock under the same boot id (S21).
    """
    offsets = _read(lambda: (process / "timens_offsets").read_text(encoding="ascii"))
    ours = _read((process / "ns/time").readlink)
    if offsets is None and ours is None:
        return False  # a kernel without time namespaces
    # The kernel tells the shift of the namespace that children get.
    if offsets is None or ours is None or ours != _read((process / "ns/time_for_children").readlink):
        return True
    return not any(line.split() == ["boottime", "0", "0"] for line in offsets.splitlines())


def _read(told: Callable[[], T]) -> T | None:
    try:
        return told()
    except (OSError, ValueError):
        return None
