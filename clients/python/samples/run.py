"""Hold a lock while a command runs: `python run.py FUNCTION -- COMMAND…`.

The command is killed when the lock is lost (exit code 76). Its exit code is passed on; 75 if the lock is busy.
"""

import asyncio
import os
import signal
import sys

import leasehold

BUSY = 75
LOST = 76


async def run(function: str, command: list[str]) -> int:
    """Run `command` under the lock of `function`; give its exit code."""
    async with leasehold.AsyncClient() as client:
        try:
            async with client.hold(function) as hold:
                environment = {**os.environ, "LEASEHOLD_FENCING_TOKEN": str(hold.fencing_token)}
                process = await asyncio.create_subprocess_exec(*command, env=environment, process_group=0)
                try:
                    code = await process.wait()
                finally:
                    if process.returncode is None:
                        os.killpg(process.pid, signal.SIGKILL)
                return code if code >= 0 else 128 - code
        except leasehold.BusyError as error:
            print(error, file=sys.stderr)
            return BUSY
        except leasehold.LostError as error:
            print(error, file=sys.stderr)
            return LOST


if __name__ == "__main__":
    _, function, dashes, *command = sys.argv
    if dashes != "--" or not command:
        sys.exit("usage: run.py FUNCTION -- COMMAND…")
    sys.exit(asyncio.run(run(function, command)))
