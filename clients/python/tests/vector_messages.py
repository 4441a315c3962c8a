"""What a vector's sidecar says, as messages, for vectors_test.py."""

from collections.abc import Callable
from typing import Any, Final

import grpc
import grpc.aio
from fake import ELSEWHERE, OURS, Refusal
from google.protobuf import duration_pb2

from leasehold.v1 import errors_pb2, hold_pb2, lock_pb2
from leasehold.v1 import lease_service_pb2 as wire

MILLISECOND: Final = 1_000_000

BASES: Final = {"ours": 1_000_000, "elsewhere": 5_000_000, "ahead": 3_000_000, "behind": 500_000}
"""What the clocks of the kernels read when a vector begins, in milliseconds. Two have our boot id, and are not ours."""

Said = dict[str, Any]


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

    def _times(self, said: Said) -> dict[str, Any]:
        """The validity and the end of max_hold, as far as they are said."""
        times: dict[str, Any] = {}
        if "for" in said:
            validity = hold_pb2.Validity(valid_until=self._reading(said["until"]))
            validity.valid_for.FromMilliseconds(said["for"])
            times["validity"] = validity
        if "max_hold" in said:
            deadline = hold_pb2.Deadline(at=self._reading(said["max_hold"]["at"]))
            deadline.after.FromMilliseconds(said["max_hold"]["after"])
            times["max_hold_ends"] = deadline
        return times

    def event(self, name: str, said: Said) -> wire.HoldLeaseResponse:
        """An event of a stream."""
        times = self._times(said)
        events: dict[str, Callable[[], Any]] = {
            "granted": lambda: hold_pb2.Grant(
                lease_id="lease-1",
                resume_token=said.get("token", "resume-1"),
                lock_path="locks/p/h/f/s/FUNCTION",
                fencing_token=said.get("fencing_token", 65_536),
                generation=said.get("generation", 1),
                **times,
            ),
            "waiting": lambda: hold_pb2.Waiting(position=said["position"]),
            "busy": lambda: hold_pb2.Busy(reason=hold_pb2.BusyReason.Value(f"BUSY_REASON_{said['reason']}")),
            "renewed": lambda: hold_pb2.Renewed(resume_token=said.get("token", ""), **times),
            "at_risk": lambda: hold_pb2.AtRisk(
                cause=errors_pb2.ErrorReason.Value(f"ERROR_REASON_{said['cause']}"), **times
            ),
            "recovered": lambda: hold_pb2.Recovered(**times),
            "draining": lambda: hold_pb2.Draining(time_left=span(said["left"])),
            "revoked": lambda: hold_pb2.Revoked(break_note=lock_pb2.BreakNote(broken_by=said["by"]), **times),
            "lost": lambda: hold_pb2.Lost(reason=hold_pb2.LossReason.Value(f"LOSS_REASON_{said['reason']}")),
            "released": lambda: hold_pb2.Released(result=result_of(said)),
        }
        return wire.HoldLeaseResponse(**{name: events[name]()})

    def answer(self, name: str, said: Said) -> object:
        """An answer to a call."""
        times = self._times(said)
        answers: dict[str, Callable[[], Any]] = {
            "release": lambda: wire.ReleaseLeaseResponse(result=result_of(said)),
            "get_hold": lambda: wire.GetHoldResponse(
                state=wire.HoldState.Value(f"HOLD_STATE_{said.get('state', 'HELD')}"),
                break_note=lock_pb2.BreakNote(broken_by=said["by"]) if "by" in said else None,
                **times,
            ),
            "report_progress": lambda: wire.ReportProgressResponse(**times),
            "extend_lease": lambda: wire.ExtendLeaseResponse(resume_token=said.get("token", ""), **times),
            "save_checkpoint": lambda: wire.SaveCheckpointResponse(version=said["version"], **times),
        }
        return answers[name]()


def span(milliseconds: int) -> duration_pb2.Duration:
    told = duration_pb2.Duration()
    told.FromMilliseconds(milliseconds)
    return told


def result_of(said: Said) -> hold_pb2.ReleaseResult:
    return hold_pb2.ReleaseResult(
        outcome=hold_pb2.ReleaseOutcome.Value(f"RELEASE_OUTCOME_{said['outcome']}"),
        loss_reason=hold_pb2.LossReason.Value(f"LOSS_REASON_{said.get('loss', 'UNSPECIFIED')}"),
    )
