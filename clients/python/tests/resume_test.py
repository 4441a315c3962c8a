"""S16: a stream that broke is resumed within the validity."""

import grpc
from fake import OURS, Refusal, bench, grant, granted, validity

import leasehold
from leasehold.v1 import lease_service_pb2 as wire

GONE = Refusal(grpc.StatusCode.UNAVAILABLE)


async def s16_a_hold_survives_a_restart_of_the_sidecar() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        await made.kill()
        assert isinstance(await made.event(), leasehold.Interrupted)
        assert holder.hold.is_valid(), "the hold is still valid"
        await made.start()
        call = await made.sidecar.hold()
        assert call.request.resume.resume_token == "resume-1"
        assert call.request.resume.told_valid_until == validity(OURS, 1_058, 58).valid_until
        made.clock.advance(10)
        call.tell(grant(validity(OURS, 1_068, 58)))
        assert await made.event() == leasehold.Resumed(1_068)
        assert holder.hold.remaining() == 58
        holder.leave.set()
        await holder.task
        await call.ended()


def resumed(generation: int) -> wire.HoldLeaseResponse:
    answer = grant(validity(OURS, 1_058, 58))
    answer.granted.generation = generation
    return answer
