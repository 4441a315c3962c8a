"""What a sidecar says, as messages, and what it is asked, in the words of proto/vectors."""

import re
from typing import Any, Final

import grpc
import grpc.aio

from leasehold._convert import duration
from leasehold._status.status_pb2 import BadRequest, ErrorInfo, Status
from leasehold.v1 import hold_pb2, schedule_pb2
from leasehold.v1 import lease_service_pb2 as wire
from leasehold.v1 import schedule_service_pb2 as schedules

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
Context = grpc.aio.ServicerContext[Any, Any]


class Refusal(Exception):  # noqa: N818 - what a call is refused with
    """An error for a fake sidecar to answer with."""

    def __init__(self, code: grpc.StatusCode, reason: str = "", *, domain: str = "leasehold.dev", **more: str) -> None:
        super().__init__(code)
        self.code = code
        self.message = more.pop("message", "no")
        status = Status(code=code.value[0], message=self.message)
        field = more.pop("field", None)
        if reason:
            info = ErrorInfo(reason=reason, domain=domain, metadata=more)
            status.details.add(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=info.SerializeToString())
        if field is not None:
            bad = BadRequest(field_violations=[BadRequest.FieldViolation(field=field, description="is wrong")])
            status.details.add(type_url="type.googleapis.com/google.rpc.BadRequest", value=bad.SerializeToString())
        self.trailer = status.SerializeToString()

    async def abort(self, context: Context) -> None:
        await context.abort(self.code, self.message, (("grpc-status-details-bin", self.trailer),))


def error_of(said: Said) -> grpc.aio.AioRpcError:
    more: dict[str, str] = {name: str(said[name]) for name in ("needs", "revision") if name in said}
    if "loss" in said:
        more["loss_reason"] = said["loss"]
    refusal = Refusal(grpc.StatusCode[said["code"]], said.get("reason", ""), **more)
    trailer = grpc.aio.Metadata(("grpc-status-details-bin", refusal.trailer))
    return grpc.aio.AioRpcError(refusal.code, grpc.aio.Metadata(), trailer, refusal.message)


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

    def event(self, kind: type[Any], name: str, said: Said) -> Any:
        """An event of a stream of these."""
        event = kind()
        message = getattr(event, name)
        message.SetInParent()
        if name in ("granted", "run"):
            said = _GRANT | said
        if name == "run":
            message.scheduled_at.FromSeconds(1_800)
        self._fill(message, {"run_id": "run-1"} | said)
        return event

    def answer(self, name: str, said: Said) -> Any:
        """An answer to a call."""
        if name == "get_hold":
            said = {"state": "HELD"} | said
        return self._fill(_ANSWERS[name](), said)


_ANSWERS: Final[dict[str, Any]] = {
    "release": wire.ReleaseLeaseResponse,
    "get_hold": wire.GetHoldResponse,
    "report_progress": wire.ReportProgressResponse,
    "extend_lease": wire.ExtendLeaseResponse,
    "save_checkpoint": wire.SaveCheckpointResponse,
    "complete_run": schedules.CompleteRunResponse,
}


def call_of(request: Any) -> str:
    """A call about a hold or a run."""
    name = re.sub(r"\B(?=[A-Z])", "_", type(request).__name__.removesuffix("Request")).lower()
    said = f"{'release' if name == 'release_lease' else name} {request.generation}"
    match request:
        case wire.ExtendLeaseRequest():
            return f"{said} {duration(request.max_hold) // MILLISECOND}"
        case wire.SaveCheckpointRequest():
            return f"{said} {request.value.decode()}"
        case schedules.CompleteRunRequest():
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
        if isinstance(request, wire.HoldLeaseRequest):
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
    return "hold" + said + (" yields" if spec.yields else "") + (f" share {spec.share}" if spec.share else "")
