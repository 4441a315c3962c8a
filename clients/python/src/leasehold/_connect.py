"""Where the sidecar is, and how to get there."""

import os
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import grpc
import grpc.aio

from leasehold._errors import EndpointError

DEFAULT_ENDPOINT: Final = "http://127.0.0.1:50951"
"""Where a sidecar listens unless told otherwise."""

ENDPOINT_VARIABLE: Final = "LEASEHOLD_ENDPOINT"
"""The environment variable that says where the sidecar is."""

_OPTIONS: Final = (
    # A broken connection is made anew as fast as a hold is resumed (S16), and given up after 5 s.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    # Nothing is tried again behind the caller's back.
    ("grpc.enable_retries", 0),
    # No keep-alive of our own: an unanswered one would close the connection, which the sidecar on the same machine
    # reads as the holder being gone (S13, S14).
    ("grpc.keepalive_time_ms", 2**31 - 1),
    # The sidecar is a neighbour, whatever proxy the environment names.
    ("grpc.enable_http_proxy", 0),
    # One client's connections are its own: another's end must not be theirs.
    ("grpc.use_local_subchannel_pool", 1),
)


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


class Connector:
    """Makes channels to one endpoint."""

    def __init__(self, endpoint: str | None, tls: Tls | None, bearer_token: str | None) -> None:
        """Take `endpoint`, else what LEASEHOLD_ENDPOINT says, else the default; connects to nothing yet."""
        self.endpoint: Final = endpoint or os.environ.get(ENDPOINT_VARIABLE) or DEFAULT_ENDPOINT
        self._target, secure = _target(self.endpoint)
        self._options: tuple[tuple[str, str | int], ...] = _OPTIONS
        if self._target.startswith("unix:"):
            # gRPC would name the socket's path, in a form that HTTP/2 servers refuse.
            self._options += (("grpc.default_authority", "localhost"),)
        self._credentials: grpc.ChannelCredentials | None = None
        if secure:
            if tls is None:
                raise EndpointError(self.endpoint, "https needs the certificate authority to trust (tls)")
            self._secure(tls)
        elif tls is not None:
            raise EndpointError(self.endpoint, "certificates were given, and only https:// makes use of them")
        self.metadata: Final = self._metadata(bearer_token)

    def _secure(self, tls: Tls) -> None:
        if (tls.client_certificate is None) != (tls.client_key is None):
            raise EndpointError(self.endpoint, "a client certificate and its key go together")
        self._credentials = grpc.ssl_channel_credentials(
            root_certificates=tls.ca_certificate,
            private_key=tls.client_key,
            certificate_chain=tls.client_certificate,
        )
        if tls.server_name is not None:
            self._options += (("grpc.ssl_target_name_override", tls.server_name),)

    def _metadata(self, bearer_token: str | None) -> tuple[tuple[str, str], ...]:
        if bearer_token is None:
            return ()
        token = bearer_token.strip()
        if not token or not token.isascii() or not token.isprintable():
            # S20: the token itself is not shown.
            raise EndpointError(self.endpoint, "the bearer token is empty or has characters that cannot be sent")
        return (("authorization", f"Bearer {token}"),)

    def channel(self) -> grpc.aio.Channel:
        """Make a channel, which connects when it is used."""
        if self._credentials is None:
            return grpc.aio.insecure_channel(self._target, options=self._options)
        return grpc.aio.secure_channel(self._target, self._credentials, options=self._options)


def _target(endpoint: str) -> tuple[str, bool]:
    """Give gRPC's name of the endpoint, and whether it is secure."""
    right = "it must be unix:///path, http://host:port or https://host:port"
    try:
        parts = urlsplit(endpoint)
        port = parts.port
    except ValueError as error:
        raise EndpointError(endpoint, f"{right} ({error})") from None
    if parts.scheme == "unix" and not parts.netloc and len(parts.path) > 1:
        return f"unix:{parts.path}", False
    host = parts.hostname
    beside = parts.path.strip("/") or parts.query or parts.fragment or parts.username
    if parts.scheme not in ("http", "https") or not host or beside or not _printable(host):
        raise EndpointError(endpoint, right)
    secure = parts.scheme == "https"
    if port is None:
        port = 443 if secure else 80
    return f"dns:///[{host}]:{port}" if ":" in host else f"dns:///{host}:{port}", secure


def _printable(host: str) -> bool:
    return host.isprintable() and " " not in host
