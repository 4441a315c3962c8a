"""Add one to the number in a file many times, under a lock, among others that do the same.

No increment may be lost, and the fencing tokens must grow: `python contend.py FILE TIMES`.
"""

import asyncio
import sys
from pathlib import Path

import leasehold


async def contend(client: leasehold.AsyncClient, file: Path, times: int) -> list[int]:
    """Increment the number `times` times; give the tokens of the holds."""
    newest = file.with_name(file.name + ".token")
    tokens = []
    for _ in range(times):
        async with client.hold("contend", wait=leasehold.FOREVER) as hold:
            number = read_number(file)
            if hold.fencing_token <= read_number(newest):
                raise SystemExit(f"token {hold.fencing_token} is not greater than the one before")
            hold.check()
            newest.write_text(f"{hold.fencing_token}\n")
            file.write_text(f"{number + 1}\n")
            tokens.append(hold.fencing_token)
    return tokens


def read_number(file: Path) -> int:
    """Give the number in a file; 0 if it is not there yet."""
    return int(file.read_text()) if file.exists() else 0


async def main() -> None:
    """Contend with others."""
    _, file, times = sys.argv
    async with leasehold.AsyncClient() as client:
        await contend(client, Path(file), int(times))


if __name__ == "__main__":
    asyncio.run(main())
