"""What a vector's sidecar says, as messages, for vectors_test.py."""

from typing import Any, Final

import grpc
import grpc.aio
from fake import ELSEWHERE, OURS, Refusal

from leasehold.v1 import hold_pb2
from leasehold.v1 import lease_service_pb2 as wire

MILLISECOND: Final = 1_000_000

BASES: Final = {"ours": 1_000_000, "elsewhere": 5_000_000, "ahead": 3_000_000, "behind": 500_000}
"""What the clocks of the kernels read when a vector begins, in milliseconds. Two have our boot id, and are not ours."""

Said = dict[str, Any]

_NAMES: Final = {"resume_token": "token", "broken_by": "by", "loss_reason": "loss"}
_ANSWERS: Final[dict[str, Any]] = {
    "release": wire.ReleaseLeaseResponse,
    "get_hold": wire.GetHoldResponse,
    "report_progress": wire.ReportProgressResponse,
    "extend_lease": wire.ExtendLeaseResponse,
    "save_checkpoint": wire.SaveCheckpointResponse,
}


def error_of(said: Said) -> grpc.aio.AioRpcError:
    more: dict[str, str] = {name: str(said[name]) for name in ("needs", "revision") if name in said}
    if "loss" in said:
        more["loss_reason"] = said["loss"]
    refusal = Refusal(grpc.StatusCode[said["code"]], said.get("reason", ""), **more)
    trailer = grpc.aio.Metadata(("grpc-status-details-bin", refusal.trailer))
    return grpc.aio.AioRpcError(refusal.code, grpc.aio.Metadata(), trailer, refusal.message)


class Messages:
    """Messages on the clock of a kernel."""

    def __init__(self, kernel: str) -> None:
        self._kernel: Final = kernel

    def _reading(self, at: int) -> hold_pb2.BootTime:
        reading = hold_pb2.BootTime(boot_id=ELSEWHERE if self._kernel == "elsewhere" else OURS)
        reading.since_boot.FromMilliseconds(BASES[self._kernel] + at)
        return reading

    def _fill(self, message: Any, said: Said) -> Any:
        """Set the fields of which something is said."""
        for field in message.DESCRIPTOR.fields:
            name = _NAMES.get(field.name, field.name)
            if field.name == "validity" and "for" in said:
                message.validity.valid_until.CopyFrom(self._reading(said["until"]))
                message.validity.valid_for.FromMilliseconds(said["for"])
            elif field.name == "max_hold_ends" and "max_hold" in said:
                message.max_hold_ends.at.CopyFrom(self._reading(said["max_hold"]["at"]))
                message.max_hold_ends.after.FromMilliseconds(said["max_hold"]["after"])
            elif field.name == "time_left":
                message.time_left.FromMilliseconds(said["left"])
            elif field.name in ("result", "break_note"):
                self._fill(getattr(message, field.name), said)
            elif field.enum_type is not None and name in said:
                prefix = field.enum_type.values[0].name.removesuffix("UNSPECIFIED")
                setattr(message, field.name, field.enum_type.values_by_name[prefix + said[name]].number)
            elif name in said:
                setattr(message, field.name, said[name])
        return message

    def event(self, name: str, said: Said) -> wire.HoldLeaseResponse:
        """An event of a stream."""
        event = wire.HoldLeaseResponse()
        message = getattr(event, name)
        message.SetInParent()
        if name == "granted":
            said = {"token": "resume-1", "fencing_token": 65_536, "generation": 1, **said}
            message.lease_id, message.lock_path = "lease-1", "locks/p/h/f/s/FUNCTION"
        self._fill(message, said)
        return event

    def answer(self, name: str, said: Said) -> object:
        """An answer to a call."""
        if name == "get_hold":
            said = {"state": "HELD", **said}
        return self._fill(_ANSWERS[name](), said)
