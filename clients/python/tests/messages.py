"""What a sidecar says, as messages, and what it is asked, in the words of proto/vectors."""

import re
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.message_factory import GetMessageClass

from leasehold._convert import duration
from leasehold._status.status_pb2 import BadRequest, ErrorInfo, Status
from leasehold.v1 import hold_pb2, lease_service_pb2, schedule_pb2, schedule_service_pb2

OURS: Final = "kernel-a"
MILLISECOND: Final = 1_000_000

BASES: Final = {"ours": 1_000_000, "elsewhere": 5_000_000, "ahead": 3_000_000, "behind": 500_000, "unknown": 0}
"""What the clocks of the kernels read when a test begins, in milliseconds. Two have our boot id, and are not ours."""

_BOOT_IDS: Final = {"elsewhere": "kernel-b", "unknown": ""}
_NAMES: Final = {"resume_token": "token", "broken_by": "by", "loss_reason": "loss", "max_hold_ends": "max_hold"}
_GRANT: Final = {
    "lease_id": "lease-1",
    "lock_path": "locks/p/h/f/s/FUNCTION",
    "token": "resume-1",
    "fencing_token": 65_536,
    "generation": 1,
}

Said = dict[str, Any]


def words_of(method: str) -> str:
    """The name of a call."""
    words = re.sub(r"\B(?=[A-Z])", "_", method).lower()
    return "release" if words == "release_lease" else words


METHODS: Final = {
    words_of(method.name): method
    for file in (lease_service_pb2, schedule_service_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


def refusal(code: str, reason: str = "", **more: Any) -> grpc.aio.AioRpcError:
    """What a call is refused with; more is the metadata of its reason, or told apart here."""
    message = more.pop("message", "no")
    domain, field, details = more.pop("domain", "leasehold.dev"), more.pop("field", None), more.pop("details", None)
    status = Status(code=grpc.StatusCode[code].value[0], message=message)
    if reason:
        metadata = {"loss_reason" if name == "loss" else name: str(value) for name, value in more.items()}
        info = ErrorInfo(reason=reason, domain=domain, metadata=metadata)
        status.details.add(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=info.SerializeToString())
    if field is not None:
        bad = BadRequest(field_violations=[BadRequest.FieldViolation(field=field, description="is wrong")])
        status.details.add(type_url="type.googleapis.com/google.rpc.BadRequest", value=bad.SerializeToString())
    trailer = grpc.aio.Metadata(("grpc-status-details-bin", details or status.SerializeToString()))
    return grpc.aio.AioRpcError(grpc.StatusCode[code], grpc.aio.Metadata(), trailer, message)


class Messages:
    """Messages on the clock of a kernel. All of its moments and durations are milliseconds."""

    def __init__(self, kernel: str = "ours") -> None:
        self._kernel: Final = kernel

    def _reading(self, at: int) -> hold_pb2.BootTime:
        reading = hold_pb2.BootTime(boot_id=_BOOT_IDS.get(self._kernel, OURS))
        reading.since_boot.FromMilliseconds(BASES[self._kernel] + at)
        return reading

    def _fill(self, message: Any, said: Said) -> Any:
        """Set the fields of which something is said."""
        for field in message.DESCRIPTOR.fields:
            name = _NAMES.get(field.name, field.name)
            part = getattr(message, field.name)
            if field.name == "validity" and "for" in said:
                part.valid_until.CopyFrom(self._reading(said["until"]))
                part.valid_for.FromMilliseconds(said["for"])
            elif name in ("max_hold", "deadline") and name in said:
                part.at.CopyFrom(self._reading(said[name]["at"]))
                part.after.FromMilliseconds(said[name]["after"])
            elif field.name == "time_left" and "left" in said:
                part.FromMilliseconds(said["left"])
            elif field.message_type is not None and field.name in ("result", "break_note", "grant"):
                self._fill(part, said)
            elif name not in said:
                continue
            elif field.message_type is not None:
                part.SetInParent()
                self._fill(part, said[name] if isinstance(said[name], dict) else {})
            elif field.enum_type is not None:
                prefix = field.enum_type.values[0].name.removesuffix("UNSPECIFIED")
                known = field.enum_type.values_by_name.get(f"{prefix}{said[name]}")
                setattr(message, field.name, said[name] if known is None else known.number)
            else:
                setattr(message, field.name, said[name])
        return message

    def event(self, call: str, name: str, said: Said) -> Any:
        """An event of the stream of a call."""
        event = GetMessageClass(METHODS[call].output_type)()
        message = getattr(event, name)
        message.SetInParent()
        if name in ("granted", "run"):
            said = _GRANT | said
        if name == "run":
            message.scheduled_at.FromSeconds(1_800)
        self._fill(message, {"run_id": "run-1"} | said)
        return event

    def answer(self, call: str, said: Said) -> Any:
        """An answer to a call."""
        if call == "get_hold":
            said = {"state": "HELD"} | said
        return self._fill(GetMessageClass(METHODS[call].output_type)(), said)


def call_of(name: str, request: Any) -> str:
    """A call about a hold or a run."""
    said = f"{name} {request.generation}"
    match name:
        case "extend_lease":
            return f"{said} {duration(request.max_hold) // MILLISECOND}"
        case "save_checkpoint":
            return f"{said} {request.value.decode()}"
        case "complete_run":
            return f"{said} {schedule_pb2.RunOutcome.Name(request.outcome).removeprefix('RUN_OUTCOME_')}"
    return said


class Askings:
    """What streams are opened with."""

    def __init__(self, kernel: str) -> None:
        self._base: Final = BASES[kernel]
        self._attempts: Final[list[str]] = []

    def words(self, request: Any) -> str:
        if request.needs != 1:
            return "a request that does not need revision 1"
        resume = self._resume(request.resume) if request.HasField("resume") else ""
        if isinstance(request, lease_service_pb2.HoldLeaseRequest):
            return resume or _hold(request.spec)
        return " ".join(word for word in ("subscribe", "reconnected" * request.reconnected, resume) if word)

    def _resume(self, resume: hold_pb2.Resume) -> str:
        told = ""
        if resume.HasField("told_valid_until"):
            told = f" told {duration(resume.told_valid_until.since_boot) // MILLISECOND - self._base}"
        if resume.attempt_id not in self._attempts:
            self._attempts.append(resume.attempt_id)
        return f"resume {resume.resume_token}{told} attempt {self._attempts.index(resume.attempt_id) + 1}"


def _hold(spec: hold_pb2.LeaseSpec) -> str:
    wait = duration(spec.wait) // MILLISECOND
    parts = {"wait": wait, "permits": spec.permits if spec.permits > 1 else 0, "priority": spec.priority}
    said = "".join(f" {name} {value}" for name, value in parts.items() if value)
    said = " wait_without_end" * spec.wait_without_end + said
    return "hold" + said + (" yields" if spec.yields else "") + (f" share {spec.share}" if spec.share else "")
