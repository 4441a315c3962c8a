"""What can go wrong, told apart by type, code and reason, never by text."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Self

import grpc
from google.protobuf.message import DecodeError

from leasehold._enums import LossReason, Reason
from leasehold._status.status_pb2 import BadRequest, ErrorInfo, RetryInfo, Status
from leasehold.v1.errors_pb2 import ErrorReason

_DOMAIN: Final = "leasehold.dev"
_DETAILS: Final = "grpc-status-details-bin"

ENDPOINT_VARIABLE: Final = "LEASEHOLD_ENDPOINT"
"""The environment variable that says where the sidecar is."""

_REFUSES_CERTIFICATE: Final = re.compile(
    # What gRPC makes of an alert after the handshake, where TLS 1.3 has a server look at the client's certificate.
    r"TSI_DATA_CORRUPTED"
    # What it makes of one within.
    r"|ALERT_(\w*CERTIFICATE\w*|UNKNOWN_CA|ACCESS_DENIED|HANDSHAKE_FAILURE)",
)
_ENDS_AT_ONCE: Final = re.compile("failed to connect to all addresses.*(Socket closed|Connection reset)")


def reason_name(number: int) -> str:
    """Give the name of a reason on the wire; the number itself, as text, if this version does not know it."""
    known = {int(value): name.removeprefix("ERROR_REASON_") for name, value in ErrorReason.items()}
    return known.get(number, str(number))


class LeaseholdError(Exception):
    """What this client raises; the base of all that follows. It can be pickled, as a pool of processes does."""

    def __reduce__(self) -> "tuple[Callable[..., LeaseholdError], tuple[object, ...]]":
        # Not by the arguments of __init__, which are not those of Exception.
        return _unpickled, (type(self), self.args, self.__dict__)


def _unpickled(kind: type[LeaseholdError], args: tuple[object, ...], fields: dict[str, object]) -> LeaseholdError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class PlatformError(LeaseholdError):
    """The client cannot work here: no clock that a holder could go by, or patched threads. Not worth repeating."""


class ArgumentError(LeaseholdError, ValueError):
    """An argument is invalid. Nothing was sent."""


class EndpointError(LeaseholdError, ValueError):
    """The endpoint, or an option that goes with it, is invalid. Not worth repeating."""

    def __init__(self, endpoint: str, problem: str) -> None:
        super().__init__(f"the endpoint {json.dumps(endpoint)} cannot be used: {problem}")
        self.endpoint: Final = endpoint
        """What was given."""


class ClosedError(LeaseholdError):
    """The client was closed, or belongs to another process or event loop than this one."""


class ProtocolError(LeaseholdError):
    """The sidecar answered what no sidecar of this API may, so it is a newer or a broken one."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the sidecar's answer is invalid: {problem}")


class ReleaseUnconfirmedError(LeaseholdError):
    """The release of the lock was not confirmed. What was done under the lock was done while it was held.

    The lock becomes available when its lease expires, if not before. The cause says what happened.
    """

    def __init__(self, lock_path: str, cause: BaseException) -> None:
        super().__init__(
            f"the release of the lock {lock_path} was not confirmed, and it becomes available when its lease expires, "
            f"if not before: {cause}",
        )


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """A field of a request that the sidecar refused (S19)."""

    field: str
    """The field's path, such as `spec.key.function`."""
    description: str
    """What is wrong with it, and the allowed range."""


class RefusedError(LeaseholdError):
    """The sidecar answered with an error, or the connection broke."""

    def __init__(self, code: grpc.StatusCode, message: str, details: Iterable[object] = ()) -> None:
        self.code: Final = code
        """The gRPC code."""
        self.message: Final = message
        """What to show to people."""
        self.reason_name: str | None = None
        """The reason as it is on the wire; None if the error did not come from a sidecar."""
        self.violations: tuple[FieldViolation, ...] = ()
        """The fields that were wrong, with reason INVALID_FIELD."""
        self.retry_after: float | None = None
        """When to try again: seconds, if that was said."""
        self.loss_reason: LossReason | None = None
        """Why the hold is lost; with reason HOLD_LOST only."""
        self._is_below_needs = False
        for detail in details:
            self._take_in(detail)
        super().__init__(self._text())

    def _take_in(self, detail: object) -> None:
        match detail:
            case ErrorInfo(domain=domain) if domain == _DOMAIN:
                self.reason_name = detail.reason
                self._is_below_needs = "needs" in detail.metadata
                if self.reason is Reason.HOLD_LOST:
                    name = dict(detail.metadata).get("loss_reason", "")
                    self.loss_reason = LossReason.__members__.get(name, LossReason.UNSPECIFIED)
            case BadRequest():
                self.violations = tuple(
                    FieldViolation(violation.field, violation.description) for violation in detail.field_violations
                )
            case RetryInfo():
                self.retry_after = detail.retry_delay.seconds + detail.retry_delay.nanos / 1e9
            case _:
                pass

    def _text(self) -> str:
        if not self.message:
            return self.code.name
        # The message names the first field at the most; the others must not stay unseen.
        unseen = [v for v in self.violations if v.field not in self.message]
        return "; ".join([self.message, *(f"{v.field}: {v.description}" for v in unseen)])

    @property
    def reason(self) -> Reason | None:
        """The reason that the sidecar gave; None if the error did not come from a sidecar."""
        return None if self.reason_name is None else Reason(self.reason_name)


class UnsupportedError(RefusedError):
    """The sidecar is older than what is asked: it lacks the call, or its revision is below what is needed (S37)."""

    @classmethod
    def lacking(cls, what: str) -> Self:
        """Give that of a sidecar without these calls."""
        message = f"the sidecar does not know {what}, because it is older than they are: update the sidecar"
        error = cls(grpc.StatusCode.UNIMPLEMENTED, message)
        error.reason_name = Reason.UNSUPPORTED.value
        return error


class CheckpointUnknownError(RefusedError):
    """No answer to a save came in time: the old checkpoint stands or the new one (S27).

    Nothing of it lands after somebody else is granted the lock. The cause says what happened.
    """

    def __init__(self, error: RefusedError) -> None:
        message = f"it is not known whether the checkpoint was saved; the next grant tells: {error.message}"
        super().__init__(error.code, message)
        self.reason_name = Reason.CHECKPOINT_UNKNOWN.value


class UnreachableError(RefusedError):
    """No sidecar answers there, or it refuses this client's certificate."""

    def __init__(self, endpoint: str, message: str) -> None:
        program = "start one with `leasehold serve`, which `pip install leasehold-sidecar` brings"
        where = f"{program}, or say where it is with {ENDPOINT_VARIABLE}"
        what = f"no sidecar answers at {endpoint}; {where}"
        trust = "it wants a client certificate that it trusts (tls)"
        if _REFUSES_CERTIFICATE.search(message):
            what = f"the sidecar at {endpoint} refuses the connection: {trust}"
        elif endpoint.startswith("https:") and _ENDS_AT_ONCE.search(message):
            what = f"the sidecar at {endpoint} ends connections at once: maybe {trust}"
        super().__init__(grpc.StatusCode.UNAVAILABLE, f"{what} ({message})")
        self.endpoint: Final = endpoint
        """Where it was looked for."""


def attach(error: LeaseholdError, exception: BaseException) -> None:
    """Have `exception`, which goes before, tell of `error`: as a note, and as its context if it has none."""
    exception.add_note(str(error))
    if exception.__context__ is None:
        exception.__context__ = error


def is_below_needs(error: RefusedError) -> bool:
    """Say whether another sidecar may serve what this one has refused, because it is older than the request (S37)."""
    return error._is_below_needs


_BREAKS: Final = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL}
"""What a stream ends with that something between the client and the sidecar has ended."""


def comes_back(error: RefusedError) -> bool:
    """Say whether it is the end of a connection or of a sidecar, which another may follow, and not an answer."""
    return error.reason is Reason.SHUTTING_DOWN or (error.reason_name is None and error.code in _BREAKS)


def is_unanswered(error: RefusedError) -> bool:
    """Say whether no sidecar has answered, so that the call may have been carried out."""
    return error.reason_name is None and (error.code is grpc.StatusCode.DEADLINE_EXCEEDED or comes_back(error))


_PASSES: Final = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.ABORTED,
}


def passes(error: RefusedError) -> bool:
    """Say whether it is what a sidecar, or its absence, says that may be otherwise later."""
    return error.code in _PASSES or comes_back(error)


def refused(error: grpc.aio.AioRpcError) -> RefusedError:
    """Give the typed error for one that came by gRPC."""
    details: list[object] = []
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS and isinstance(value, bytes):
            details.extend(_details(value))
    said = (error.code(), error.details() or "", details)
    typed = RefusedError(*said)
    return UnsupportedError(*said) if is_below_needs(typed) else typed


def _details(trailer: bytes) -> Iterable[object]:
    try:
        status = Status.FromString(trailer)
        for detail in status.details:
            kind = detail.type_url.rpartition("/")[2].removeprefix("google.rpc.")
            for known in (ErrorInfo, BadRequest, RetryInfo):
                if known.__name__ == kind:
                    yield known.FromString(detail.value)
    except DecodeError:
        # Without its details the error still has its code and its message.
        return


def named(kinds: Iterable[object]) -> None:
    """Have tracebacks name the errors among them as their users do."""
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, LeaseholdError):
            kind.__module__ = "leasehold"


named(list(globals().values()))
