"""The clock that counts from boot and goes on counting while the machine sleeps (S3); only this file reads one."""

import time
from pathlib import Path
from typing import Protocol

from leasehold._errors import PlatformError

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """Where the time comes from: the machine, or a test."""

    @property
    def boot_id(self) -> str:
        """Whose boot the clock counts from; empty if the kernel does not tell."""

    def now(self) -> int:
        """Give the nanoseconds from boot to the present moment."""


class BootClock:
    """The machine's boot clock (CLOCK_BOOTTIME)."""

    def __init__(self) -> None:
        if not hasattr(time, "CLOCK_BOOTTIME"):
            raise PlatformError(
                "this platform has no CLOCK_BOOTTIME, and a holder's clock must go on counting while the "
                "machine sleeps: run on Linux",
            )
        self._clock = time.CLOCK_BOOTTIME
        try:
            self.boot_id = _BOOT_ID.read_text(encoding="ascii").strip()
        except OSError:
            self.boot_id = ""

    def now(self) -> int:
        """Give the nanoseconds from boot to the present moment."""
        return time.clock_gettime_ns(self._clock)
