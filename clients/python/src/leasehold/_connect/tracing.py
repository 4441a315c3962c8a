"""The trace that a caller is in, as W3C Trace Context, where OpenTelemetry's API is installed (`leasehold[otel]`)."""

from collections.abc import Callable
from typing import Final

Metadata = tuple[tuple[str, str], ...]


def _nothing() -> Metadata:
    return ()


def reader() -> Callable[[], Metadata]:
    """Give what reads the headers of the current context; without OpenTelemetry's API there are none."""
    try:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415
    except ImportError:
        return _nothing
    # Whatever else the process propagates, the sidecar reads this, and is told nothing but this.
    propagator = TraceContextTextMapPropagator()

    def read() -> Metadata:
        headers: dict[str, str] = {}
        propagator.inject(headers)
        return tuple(headers.items())

    return read


trace_metadata: Final = reader()
"""The headers of the current context."""
