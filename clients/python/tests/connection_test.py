"""How a client finds its sidecar, what goes over its connections besides its calls, and how it ends."""

import asyncio
import socket
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from bench import Bench, Holder, until
from fake import FakeSidecar, Served
from messages import OURS
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

import leasehold
from leasehold._connect.options import Connector
from leasehold._connect.tracing import reader
from leasehold._hold import boot_clock as _boot_clock

NEVER = 2**31 - 1


def invalid_endpoints_are_refused_with_what_would_be_valid() -> None:
    near = ("127.0.0.1:50951", "unix://", "unix://host/path")
    for endpoint in (*near, "ftp://host:1", "http://", "http://a b:1", "http://h:x", "http://h:1/x"):
        with pytest.raises(leasehold.EndpointError, match="http://host:port"):
            leasehold.AsyncClient(endpoint)


def the_environment_says_where_the_sidecar_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_ENDPOINT", "unix:///run/leasehold.sock")
    assert repr(leasehold.AsyncClient()) == "<AsyncClient unix:///run/leasehold.sock>"
    monkeypatch.setenv("LEASEHOLD_ENDPOINT", "")
    assert repr(leasehold.Client()) == "<Client http://127.0.0.1:50951>"


async def nobody_there_is_said_with_what_to_do() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for endpoint in (f"http://127.0.0.1:{port}", "unix:///nowhere/leasehold.sock"):
        async with leasehold.AsyncClient(endpoint) as client:
            for asking in (client.get_lock("a"), client.hold("f").__aenter__()):
                with pytest.raises(leasehold.UnreachableError, match=f"{endpoint}; start one with `leasehold serve`"):
                    await asking


@pytest.mark.parametrize(
    ("endpoint", "pings"),
    [
        *((f"{local}", NEVER) for local in ("unix:///run/leasehold.sock", "http://127.8.9.1:1", "http://[::1]:1")),
        ("http://LocalHost:1", NEVER),
        *((f"http://{far}:1", 30_000) for far in ("10.0.0.1", "localhost.example.com", "[fd00::1]")),
    ],
)
def s21_only_connections_over_a_network_are_pinged(endpoint: str, pings: int) -> None:
    options = dict(Connector(endpoint, {})._options)
    assert options["grpc.keepalive_time_ms"] == pings
    assert options.get("grpc.keepalive_timeout_ms") == (None if pings == NEVER else 10_000)
    assert options["grpc.http2.ping_timeout_ms"] == (NEVER if pings == NEVER else 10_000)
    # HTTP/2 servers refuse the form that gRPC would give a Unix socket's path as the authority.
    assert options.get("grpc.default_authority") == ("localhost" if endpoint.startswith("unix") else None)


def pings_are_as_often_as_was_asked_for_but_not_too_often() -> None:
    assert dict(Connector("unix:///s", {"keep_alive": 10})._options)["grpc.keepalive_time_ms"] == 10_000
    assert dict(Connector("http://h:1", {"keep_alive": None})._options)["grpc.keepalive_time_ms"] == NEVER
    with pytest.raises(leasehold.ArgumentError, match="keep_alive is 9; it must be None"):
        leasehold.Client(keep_alive=9)


async def a_token_is_asked_for_at_each_call_and_never_shown(made: Bench) -> None:
    tokens = ["one", "two"]
    client = made.another(bearer_token=lambda: tokens.pop(0))
    for token in ("one", "two"):
        await client.get_hold("l")
        assert set(made.sidecar.metadata) >= {("authorization", f"Bearer {token}"), ("leasehold-boot-id", OURS)}, "S14"
    with pytest.raises(leasehold.RefusedError, match="the bearer token cannot be loaded: pop from empty list"):
        await client.get_hold("l")
    client = made.another(bearer_token="secret")
    await client.get_hold("l")
    assert ("authorization", "Bearer secret") in made.sidecar.metadata
    assert "secret" not in repr(client), "S20"
    with pytest.raises(leasehold.EndpointError) as caught:
        made.another(bearer_token="se\ncret")
    assert "cret" not in str(caught.value)


def noting(seen: list[str], kind: str, base: type) -> Any:
    """An interceptor that notes the calls of a kind."""

    async def note(_self: object, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        seen.append(details.method.decode().rpartition("/")[2])
        return await continuation(details, request)

    return type("Noting", (base,), {f"intercept_{kind}": note})()


async def interceptors_see_each_call(served: Bench) -> None:
    seen: list[str] = []
    unary = noting(seen, "unary_unary", grpc.aio.UnaryUnaryClientInterceptor)
    stream = noting(seen, "unary_stream", grpc.aio.UnaryStreamClientInterceptor)
    holder, _call = await served.held(served.another(interceptors=[unary, stream]))
    await holder.left()
    assert seen == ["HoldLease", "ReleaseLease"]


PEM = Path(__file__).with_name("certificates.pem").read_bytes().split(b"\n\n")
CA, SERVER_KEY, SERVER, CLIENT_KEY, CLIENT, STRANGER_KEY, STRANGER = PEM[1:]


def trusted(certificate: bytes | None = None, key: bytes | None = None) -> leasehold.Tls:
    return leasehold.Tls(ca_certificate=CA, client_certificate=certificate, client_key=key)


async def a_sidecar_that_wants_another_certificate_says_so_and_a_new_one_is_asked_for_at_each_connection() -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Served(FakeSidecar()),))
    credentials = grpc.ssl_server_credentials([(SERVER_KEY, SERVER)], CA, require_client_auth=True)
    endpoint = f"https://localhost:{server.add_secure_port('localhost:0', credentials)}"
    await server.start()
    current = [trusted()]
    async with leasehold.AsyncClient(endpoint, tls=lambda: current[0]) as client:
        for tls in (trusted(), trusted(STRANGER, STRANGER_KEY)):
            current[0] = tls
            with pytest.raises(leasehold.UnreachableError, match="wants a client certificate that it trusts"):
                await client.get_hold("l")
        current[0] = trusted(CLIENT, CLIENT_KEY)
        await client.get_hold("l")
    await server.stop(None)


def tls_options_must_fit_the_endpoint() -> None:
    def fail() -> leasehold.Tls:
        raise OSError("no such file")

    tls = leasehold.Tls(ca_certificate=b"pem", client_key=b"secret")
    with pytest.raises(leasehold.EndpointError, match="only https"):
        leasehold.Client("http://127.0.0.1:1", tls=tls)
    with pytest.raises(leasehold.EndpointError, match="certificate authority"):
        leasehold.Client("https://127.0.0.1:1")
    with pytest.raises(leasehold.EndpointError, match="go together"):
        leasehold.Client("https://127.0.0.1:1", tls=tls)
    with pytest.raises(leasehold.RefusedError, match="the certificates cannot be loaded: no such file"):
        leasehold.Client("https://h:1", tls=fail)
    assert "secret" not in repr(tls), "S20"


CONTEXT = SpanContext(
    0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, False, TraceFlags(1), TraceState([("vendor", "1")])
)
TRACE = {("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), ("tracestate", "vendor=1")}


async def a_call_carries_the_trace_that_its_caller_is_in(served: Bench) -> None:
    def blocking() -> None:
        with leasehold.Client(served.endpoint) as client, trace.use_span(NonRecordingSpan(CONTEXT)):
            client.get_hold("l")

    await served.client.get_hold("l")
    assert "traceparent" not in dict(served.sidecar.metadata)
    await asyncio.to_thread(blocking)
    assert set(served.sidecar.metadata) >= TRACE
    for what in (lambda: served.do(served.client.get_hold("l")), lambda: Holder(served)):
        served.sidecar.metadata.clear()
        with trace.use_span(NonRecordingSpan(CONTEXT)):
            what()
        await until(lambda: served.sidecar.metadata)
        assert set(served.sidecar.metadata) >= TRACE


def without_the_library_there_is_no_trace_to_send(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace.propagation.tracecontext", None)
    read = reader()
    assert read() == ()


async def a_client_belongs_to_one_loop_and_ends_with_its_closing(served: Bench) -> None:
    await served.client.get_hold("l")
    with pytest.raises(leasehold.ClosedError, match="another event loop"):
        await asyncio.to_thread(lambda: asyncio.run(served.client.get_hold("l")))
    waiting = Holder(served)
    call = await served.sidecar.call()
    await served.client.close()
    # An error, and no cancellation of the task.
    with pytest.raises(leasehold.ClosedError, match="closed during the call"):
        await waiting.task
    await call.ended()
    with pytest.raises(leasehold.ClosedError, match="was closed"):
        await served.client.get_hold("l")


def on_macos_the_clock_that_counts_sleep_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    # Where it cannot be read, none is sent, and the validity counts from before the client's own calls (S21).
    for command, boot_id in ((("/bin/echo", "A-B-C"), "A-B-C"), (("/nowhere/sysctl",), "")):
        monkeypatch.setattr(_boot_clock, "_SYSCTL", command)
        _boot_clock._boot_id.cache_clear()
        clock = _boot_clock.BootClock()
        assert (clock._clock, clock.boot_id, clock.now() > 0) == (time.CLOCK_MONOTONIC, boot_id, True)
    _boot_clock._boot_id.cache_clear()


def on_windows_a_client_says_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(leasehold.PlatformError, match="Leasehold's client needs Linux or macOS"):
        leasehold.Client()


def the_version_is_that_of_the_package() -> None:
    assert leasehold.__version__ == metadata.version("leasehold")
