"""Who asks, where the caller does not say it."""

import os
import socket

from leasehold._constants import HOLDER_BYTES


def holder_or_this(given: str) -> str:
    """Give the name that is sent: the given one, or this pod or host and the process, such as `importer-7f9c/17`.

    It is made anew for each request, because a fork has an id of its own.
    """
    if given:
        return given
    try:
        # In a pod this is the pod's name, unless the pod shares its host's network.
        host = socket.gethostname()
    except OSError:
        host = ""
    return named(host, os.getpid())


def named(host: str, process: int) -> str:
    """Leave a host's name out that is not printable ASCII: the sidecar would refuse it (S19)."""
    if not host or not all("!" <= char <= "~" for char in host):
        return str(process)
    return f"{host[: HOLDER_BYTES - len(str(process)) - 1]}/{process}"
