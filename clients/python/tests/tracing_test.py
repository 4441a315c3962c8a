"""The trace that a caller is in goes to the sidecar with its calls."""

import asyncio
import sys

import pytest
from fake import OURS, bench, grant, validity
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

import leasehold
from leasehold._connect.tracing import reader
from leasehold.v1 import lease_service_pb2 as wire
from leasehold.v1 import lock_pb2

CONTEXT = SpanContext(
    0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, False, TraceFlags(1), TraceState([("vendor", "1")])
)
PARENT = ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
STATE = ("tracestate", "vendor=1")


async def a_call_carries_the_trace_that_its_caller_is_in() -> None:
    async with bench() as (made, client):
        made.sidecar.answer = wire.GetLockResponse(record=lock_pb2.LockRecord(lock_path="a"))
        with trace.use_span(NonRecordingSpan(CONTEXT)):
            await client.get_lock("a")
        assert {PARENT, STATE} <= set(made.sidecar.metadata)
        await client.get_lock("a")
        assert "traceparent" not in dict(made.sidecar.metadata)


async def a_hold_carries_the_trace_in_which_it_is_asked_for() -> None:
    async with bench() as (made, client):

        async def hold() -> None:
            with trace.use_span(NonRecordingSpan(CONTEXT)):
                async with client.hold("nightly"):
                    pass

        holding = asyncio.create_task(hold())
        call = await made.sidecar.hold()
        assert PARENT in made.sidecar.metadata
        call.tell(grant(validity(OURS, 1_058, 58)))
        await holding


async def a_thread_of_the_client_without_asyncio_is_in_its_callers_trace() -> None:
    async with bench() as (made, _):
        made.sidecar.answer = wire.GetLockResponse(record=lock_pb2.LockRecord(lock_path="a"))

        def ask() -> None:
            with trace.use_span(NonRecordingSpan(CONTEXT)), leasehold.Client(made.endpoint) as client:
                client.get_lock("a")

        await asyncio.to_thread(ask)
        assert PARENT in made.sidecar.metadata


def without_the_library_there_is_nothing_to_send(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace.propagation.tracecontext", None)
    read = reader()
    assert read() == ()
