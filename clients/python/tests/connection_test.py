"""What goes over a client's connections besides its calls: pings, certificates, tokens, interceptors."""

import asyncio
import sys
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import certificates
import grpc
import grpc.aio
import pytest
from fake import FakeSidecar, HoldCall, bench, grant, validity

import leasehold
from leasehold._connect.options import Connector
from leasehold._hold import boot_clock as _boot_clock
from leasehold.v1 import lease_service_pb2 as wire
from leasehold.v1 import lock_pb2
from leasehold.v1.lease_service_pb2_grpc import add_LeaseServiceServicer_to_server

NEVER = 2**31 - 1


@pytest.mark.parametrize(
    ("endpoint", "pings"),
    [
        ("unix:///run/leasehold.sock", NEVER),
        ("http://127.0.0.1:1", NEVER),
        ("http://127.8.9.1:1", NEVER),
        ("http://[::1]:1", NEVER),
        ("http://LocalHost:1", NEVER),
        ("http://10.0.0.1:1", 30_000),
        ("http://localhost.example.com:1", 30_000),
        ("http://[fd00::1]:1", 30_000),
    ],
)
def s21_only_connections_over_a_network_are_pinged(endpoint: str, pings: int) -> None:
    options = dict(Connector(endpoint, {})._options)
    assert options["grpc.keepalive_time_ms"] == pings
    assert options.get("grpc.keepalive_timeout_ms") == (None if pings == NEVER else 10_000)
    assert options["grpc.http2.ping_timeout_ms"] == (NEVER if pings == NEVER else 10_000)


def pings_are_as_often_as_was_asked_for_but_not_too_often() -> None:
    assert dict(Connector("unix:///s", {"keep_alive": 10})._options)["grpc.keepalive_time_ms"] == 10_000
    assert dict(Connector("http://h:1", {"keep_alive": None})._options)["grpc.keepalive_time_ms"] == NEVER
    with pytest.raises(leasehold.ArgumentError, match="keep_alive is 9; it must be None"):
        leasehold.Client(keep_alive=9)


async def a_token_is_asked_for_at_each_call() -> None:
    tokens = ["one", "two"]
    async with bench(bearer_token=lambda: tokens.pop(0)) as (made, client):
        made.sidecar.answer = wire.GetLockResponse(record=lock_pb2.LockRecord(lock_path="a"))
        for token in ("one", "two"):
            await client.get_lock("a")
            assert ("authorization", f"Bearer {token}") in made.sidecar.metadata
        with pytest.raises(leasehold.RefusedError, match="the bearer token cannot be loaded: pop from empty list"):
            await client.get_lock("a")


class Unary(grpc.aio.UnaryUnaryClientInterceptor):
    """Notes unary calls."""

    def __init__(self, seen: list[str]) -> None:
        self.seen = seen

    async def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        self.seen.append(details.method.decode().rpartition("/")[2])
        return await continuation(details, request)


class Stream(grpc.aio.UnaryStreamClientInterceptor):
    """Notes streams."""

    def __init__(self, seen: list[str]) -> None:
        self.seen = seen

    async def intercept_unary_stream(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        self.seen.append(details.method.decode().rpartition("/")[2])
        return await continuation(details, request)


async def interceptors_see_each_call() -> None:
    seen: list[str] = []
    async with bench(interceptors=[Unary(seen), Stream(seen)]) as (made, client):

        async def hold() -> None:
            async with client.hold("f"):
                pass

        task = asyncio.create_task(hold())
        call: HoldCall = await made.sidecar.hold()
        call.tell(grant(validity("kernel-a", 1_058, 58)))
        await task
        await call.ended()
        assert seen == ["HoldLease", "ReleaseLease"]


async def secured() -> tuple[grpc.aio.Server, str]:
    server = grpc.aio.server()
    sidecar = FakeSidecar()
    sidecar.answer = wire.GetLockResponse(record=lock_pb2.LockRecord(lock_path="a"))
    add_LeaseServiceServicer_to_server(sidecar, server)
    pairs = [(certificates.SERVER_KEY, certificates.SERVER)]
    credentials = grpc.ssl_server_credentials(pairs, certificates.CA, require_client_auth=True)
    port = server.add_secure_port("localhost:0", credentials)
    await server.start()
    return server, f"https://localhost:{port}"


def trusted(certificate: bytes | None = None, key: bytes | None = None) -> leasehold.Tls:
    return leasehold.Tls(ca_certificate=certificates.CA, client_certificate=certificate, client_key=key)


CLIENT = trusted(certificates.CLIENT, certificates.CLIENT_KEY)
STRANGER = trusted(certificates.STRANGER, certificates.STRANGER_KEY)


async def a_sidecar_that_wants_another_certificate_says_so() -> None:
    server, endpoint = await secured()
    for tls in (trusted(), STRANGER):
        async with leasehold.AsyncClient(endpoint, tls=tls) as client:
            with pytest.raises(leasehold.UnreachableError, match="wants a client certificate that it trusts"):
                await client.get_lock("a")
    await server.stop(None)


async def certificates_are_asked_for_at_each_connection() -> None:
    server, endpoint = await secured()
    current = [STRANGER]
    async with leasehold.AsyncClient(endpoint, tls=lambda: current[0]) as client:
        with pytest.raises(leasehold.UnreachableError):
            await client.get_lock("a")
        current[0] = CLIENT
        assert (await client.get_lock("a")).lock_path == "a"
    await server.stop(None)


def certificates_that_cannot_be_loaded_are_said() -> None:
    def fail() -> leasehold.Tls:
        raise OSError("no such file")

    with pytest.raises(leasehold.RefusedError, match="the certificates cannot be loaded: no such file"):
        leasehold.Client("https://h:1", tls=fail)


def on_macos_the_clock_that_counts_sleep_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    monkeypatch.setattr(_boot_clock, "_SYSCTL", ("/bin/echo", "A-B-C"))
    _boot_clock._boot_id.cache_clear()
    clock = _boot_clock.BootClock()
    assert (clock._clock, clock.boot_id) == (time.CLOCK_MONOTONIC, "A-B-C")
    assert clock.now() > 0
    # Where it cannot be read, none is sent, and the validity counts from before the client's own calls (S21).
    monkeypatch.setattr(_boot_clock, "_SYSCTL", ("/nowhere/sysctl",))
    _boot_clock._boot_id.cache_clear()
    assert _boot_clock.BootClock().boot_id == ""
    _boot_clock._boot_id.cache_clear()


def on_windows_a_client_says_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(leasehold.PlatformError, match="Leasehold's client needs Linux or macOS"):
        leasehold.Client()


def the_version_is_that_of_the_package() -> None:
    assert leasehold.__version__ == metadata.version("leasehold")
