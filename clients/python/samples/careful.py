import asyncio

import leasehold


def on_event(event: leasehold.HoldEvent) -> None:
    match event:
        case leasehold.Waiting(position=position):
            print(f"number {position} in the queue")
        case leasehold.AtRisk(detail=detail):
            print(f"may be lost soon: {detail}")


async def main() -> None:
    async with leasehold.AsyncClient() as client:
        try:
            async with client.hold("nightly-report", on_event=on_event) as hold:
                print(f"writing the report with token {hold.fencing_token}")
        except leasehold.BusyError as error:
            print(f"not now: {error}")
        except leasehold.LostError as error:
            print(f"stopped: {error.loss.reason.name}")
        except leasehold.RefusedError as error:
            print(f"{error.code.name} {error.reason_name}: {error}")


asyncio.run(main())
