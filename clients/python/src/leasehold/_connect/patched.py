"""Libraries that replace Python's threads and sockets, with which gRPC and the background thread wait without end."""

import sys
from typing import Any

from leasehold._errors.errors import PlatformError

_MODULES = ("threading", "thread", "_thread", "socket", "select")


def check() -> None:
    """Raise PlatformError if gevent or eventlet has patched what this client needs."""
    gevent: Any = sys.modules.get("gevent.monkey")
    if gevent is not None and any(gevent.is_module_patched(name) for name in _MODULES):
        raise PlatformError(_problem("gevent"))
    eventlet: Any = sys.modules.get("eventlet.patcher")
    if eventlet is not None and any(eventlet.is_monkey_patched(name) for name in ("thread", "socket", "select")):
        raise PlatformError(_problem("eventlet"))


def _problem(library: str) -> str:
    return (
        f"{library} has patched Python's threads and sockets, with which this client would wait without end: use it in "
        f"a process that {library} has not patched (gunicorn's workers `gthread` or `sync`), or run the job by "
        "`leasehold run`"
    )
