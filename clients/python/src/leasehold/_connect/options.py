"""Where the sidecar is, and how to get there."""

import ipaddress
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypedDict
from urllib.parse import urlsplit

import grpc
import grpc.aio

from leasehold._constants import DEFAULT_KEEP_ALIVE, DEFAULT_RELEASE_TIMEOUT, PING_TIMEOUT, SHORTEST_KEEP_ALIVE
from leasehold._convert import SECOND, nanoseconds
from leasehold._errors.errors import ENDPOINT_VARIABLE, ArgumentError, EndpointError, RefusedError
from leasehold._hold.spec import Seconds

DEFAULT_ENDPOINT: Final = "http://127.0.0.1:50951"
"""Where a sidecar listens unless told otherwise."""

_OPTIONS: Final = (
    # A broken connection is made anew as fast as a hold is resumed (S16), and given up after 5 s.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    # Nothing is tried again behind the caller's back.
    ("grpc.enable_retries", 0),
    # The sidecar is a neighbour, whatever proxy the environment names.
    ("grpc.enable_http_proxy", 0),
    # One client's connections are its own: another's end must not be theirs.
    ("grpc.use_local_subchannel_pool", 1),
)

_MILLISECOND: Final = SECOND // 1_000
_NEVER: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Certificates for an `https` endpoint, all PEM."""

    ca_certificate: bytes
    """The certificate authorities to trust; the system's are not."""
    client_certificate: bytes | None = None
    """Shown to a sidecar that asks for one."""
    client_key: bytes | None = field(default=None, repr=False)
    """The private key of `client_certificate`."""
    server_name: str | None = None
    """The name that the sidecar's certificate must have. Default: the host of the endpoint."""


class ClientOptions(TypedDict, total=False):
    """What a client may be made with besides the endpoint."""

    tls: Tls | Callable[[], Tls]
    """The certificates for https. A function is called for each new connection, and when the client is made, so that
    renewed certificates are used without a restart; it must be quick."""
    bearer_token: str | Callable[[], str]
    """Sent with each call, to a sidecar that asks for a token. A function is called for each call, so that a renewed
    token is used without a restart; it must be quick."""
    keep_alive: Seconds | None
    """How often a connection on which calls wait is checked by an HTTP/2 ping: every 10 s or less often; None is never.
    A ping that is not answered within 10 s closes the connection. Default: 30 s, and never for a sidecar on this
    machine (a Unix socket or a loopback address), which would read a closed connection as the holder's end (S14, S21).
    """
    release_timeout: Seconds
    """How long a release waits for the sidecar's answer, also where a block ends and in `close`. After that the outcome
    is unknown, and the lock becomes available when its lease expires, if not before. Default: 10 s, because Kubernetes
    kills a pod 30 s after SIGTERM unless told otherwise."""
    interceptors: Sequence[grpc.aio.ClientInterceptor]
    """Interceptors of `grpc.aio`, for traces and metrics; the first is the outermost."""


class Connector:
    """Makes channels to one endpoint."""

    def __init__(self, endpoint: str | None, options: ClientOptions) -> None:
        """Take `endpoint`, else what LEASEHOLD_ENDPOINT says, else the default; connects to nothing yet."""
        self.endpoint: Final = endpoint or os.environ.get(ENDPOINT_VARIABLE) or DEFAULT_ENDPOINT
        self._target, self._secure, is_local = _target(self.endpoint)
        self._options: tuple[tuple[str, str | int], ...] = (*_OPTIONS, *_keep_alive(options, is_local=is_local))
        if self._target.startswith("unix:"):
            # gRPC would name the socket's path, in a form that HTTP/2 servers refuse.
            self._options += (("grpc.default_authority", "localhost"),)
        self._tls: Final = options.get("tls")
        self._bearer_token: Final = options.get("bearer_token")
        self._interceptors: Final = tuple(options.get("interceptors", ()))
        self.release_timeout: Final = _release_timeout(options)
        if self._secure and self._tls is None:
            raise EndpointError(self.endpoint, "https needs the certificate authority to trust (tls)")
        if not self._secure and self._tls is not None:
            raise EndpointError(self.endpoint, "certificates were given, and only https:// uses them")
        self.tls()
        if isinstance(self._bearer_token, str):
            self._authorization(self._bearer_token)

    @property
    def reloads(self) -> bool:
        """Whether the certificates may change."""
        return callable(self._tls)

    def tls(self) -> Tls | None:
        """Give the certificates as they are now."""
        tls = self._tls if not callable(self._tls) else self._loaded(self._tls)
        if tls is not None and (tls.client_certificate is None) != (tls.client_key is None):
            raise EndpointError(self.endpoint, "a client certificate and its key go together")
        return tls

    def _loaded(self, load: Callable[[], Tls]) -> Tls:
        try:
            return load()
        except Exception as error:
            # For a hold that is being resumed, the next try may have some.
            problem = f"the certificates cannot be loaded: {error}"
            raise RefusedError(grpc.StatusCode.UNAUTHENTICATED, problem) from error

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Give what a call carries besides its request."""
        if self._bearer_token is None:
            return ()
        if isinstance(self._bearer_token, str):
            return self._authorization(self._bearer_token)
        try:
            return self._authorization(self._bearer_token())
        except Exception as error:
            # For a hold that is being resumed, the next try may have one.
            problem = f"the bearer token cannot be loaded: {error}"
            raise RefusedError(grpc.StatusCode.UNAUTHENTICATED, problem) from error

    def _authorization(self, bearer_token: str) -> tuple[tuple[str, str], ...]:
        token = bearer_token.strip()
        if not token or not token.isascii() or not token.isprintable():
            # S20: the token itself is not shown.
            raise EndpointError(self.endpoint, "the bearer token is empty or has characters that cannot be sent")
        return (("authorization", f"Bearer {token}"),)

    def channel(self, tls: Tls | None) -> grpc.aio.Channel:
        """Make a channel, which connects when it is used."""
        if tls is None:
            return grpc.aio.insecure_channel(self._target, options=self._options, interceptors=self._interceptors)
        credentials = grpc.ssl_channel_credentials(
            root_certificates=tls.ca_certificate,
            private_key=tls.client_key,
            certificate_chain=tls.client_certificate,
        )
        options = self._options
        if tls.server_name is not None:
            options += (("grpc.ssl_target_name_override", tls.server_name),)
        return grpc.aio.secure_channel(self._target, credentials, options=options, interceptors=self._interceptors)


def _keep_alive(options: ClientOptions, *, is_local: bool) -> tuple[tuple[str, int], ...]:
    """Give the channel's options for pings."""
    asked = options.get("keep_alive", None if is_local else DEFAULT_KEEP_ALIVE)
    if asked is None:
        return (
            ("grpc.keepalive_time_ms", _NEVER),
            # Nor pings that measure the connection, which gRPC bounds as well.
            ("grpc.http2.bdp_probe", 0),
            ("grpc.http2.ping_timeout_ms", _NEVER),
        )
    interval = nanoseconds("keep_alive", asked)
    if interval < SHORTEST_KEEP_ALIVE * SECOND:
        raise ArgumentError(f"keep_alive is {asked}; it must be None (never) or at least 10 s")
    return (
        ("grpc.keepalive_time_ms", min(interval // _MILLISECOND, _NEVER)),
        ("grpc.keepalive_timeout_ms", int(PING_TIMEOUT * 1_000)),
        # This one, a minute by default, holds where another ping is on its way already.
        ("grpc.http2.ping_timeout_ms", int(PING_TIMEOUT * 1_000)),
        # A hold that nobody has words for is checked all the same.
        ("grpc.http2.max_pings_without_data", 0),
    )


def _release_timeout(options: ClientOptions) -> float:
    asked = options.get("release_timeout", DEFAULT_RELEASE_TIMEOUT)
    timeout = nanoseconds("release_timeout", asked) / SECOND
    if timeout <= 0:
        raise ArgumentError(f"release_timeout is {asked}; it must be more than 0")
    return timeout


def _target(endpoint: str) -> tuple[str, bool, bool]:
    """Give gRPC's name of the endpoint, whether it is secure, and whether it is on this machine for sure."""
    right = "it must be unix:///path, http://host:port or https://host:port"
    try:
        parts = urlsplit(endpoint)
        port = parts.port
    except ValueError as error:
        raise EndpointError(endpoint, f"{right} ({error})") from None
    if parts.scheme == "unix" and not parts.netloc and len(parts.path) > 1:
        return f"unix:{parts.path}", False, True
    host = parts.hostname
    beside = parts.path.strip("/") or parts.query or parts.fragment or parts.username
    if parts.scheme not in ("http", "https") or not host or beside or not _printable(host):
        raise EndpointError(endpoint, right)
    secure = parts.scheme == "https"
    if port is None:
        port = 443 if secure else 80
    target = f"dns:///[{host}]:{port}" if ":" in host else f"dns:///{host}:{port}"
    return target, secure, _is_local(host)


def _printable(host: str) -> bool:
    return host.isprintable() and " " not in host


def _is_local(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
