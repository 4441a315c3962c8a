"""How a hold that has ended here is released at the sidecar."""

import asyncio
from typing import Final

from leasehold._constants import ANSWER_POLL
from leasehold._enums import LossReason, RunOutcome
from leasehold._errors.answers import LostError
from leasehold._errors.errors import LeaseholdError, ReleaseUnconfirmedError
from leasehold._hold.grants import Loss, ReleaseResult
from leasehold._hold.saving import Kept
from leasehold.v1 import hold_pb2

_UNANSWERED: Final = "the hold was being resumed, and no sidecar has answered yet"


async def release(
    keeper: Kept, limit: float, checkpoint: bytes | None = None, outcome: RunOutcome | None = None
) -> ReleaseResult:
    """Release the lock, with a last `checkpoint` if there is one, and wait `limit` seconds until the store has it.

    The hold has ended here before (S13).
    """
    try:
        async with asyncio.timeout(limit):
            if not await resume_answered(keeper):
                raise LeaseholdError(_UNANSWERED)
            if keeper.refused is not None:
                raise LostError(keeper.lock_path, keeper.refused)
            released = await keeper.release_there(checkpoint, 0 if outcome is None else outcome.value)
    except LostError:
        raise
    except (TimeoutError, LeaseholdError) as error:
        keeper.unheard()
        late = TimeoutError(f"the sidecar did not answer within {limit:g} s")
        cause = late if isinstance(error, TimeoutError) else error
        raise ReleaseUnconfirmedError(keeper.lock_path, cause) from cause
    finally:
        keeper.released()
    result = ReleaseResult._from_wire(released, checkpoint, outcome)
    loss = already_lost(released)
    if loss is not None:
        lost = LostError(keeper.lock_path, loss)
        if result.checkpoint is not None:
            lost.add_note(f"its checkpoint: {result.checkpoint}")
        raise lost
    return result


async def resume_answered(keeper: Kept) -> bool:
    """Wait until it is known which generation to release, as long as the lease can still be this hold's (S16).

    Says whether it is.

    A sidecar that has not noticed the break would hand the lock on while another takes the hold up.
    """
    until = keeper.state.valid_until
    while keeper.resuming:
        if keeper.state.now() >= until or keeper.is_unkept:
            return False
        await asyncio.sleep(ANSWER_POLL)
    return True


def already_lost(result: hold_pb2.ReleaseResult) -> Loss | None:
    """Give the loss that a release tells of, if it does: the lease was another's, or gone, before (S13)."""
    if result.outcome != hold_pb2.RELEASE_OUTCOME_ALREADY_LOST:
        return None
    return Loss(LossReason(result.loss_reason), "found when it was released")
