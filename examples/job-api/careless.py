"""The job API with something left out, for the negative controls: `python careless.py {no-lock|no-token}`."""

import asyncio
import sys
import time
from typing import LiteralString
from uuid import UUID

from app import Instance, main
from jobs import Jobs
from worker import Worker

CHECK = "AND fencing_token <= %(token)s"


class WithoutLock(Worker):
    """Runs what messages name, and trusts that each comes once."""

    async def run_alone(self, job_id: UUID) -> None:
        """Run the job at once."""
        await asyncio.to_thread(self.perform, job_id, time.time_ns(), lambda: None)


class WithoutToken(Jobs):
    """Believes every writer."""

    BEGIN: LiteralString = Jobs.BEGIN.replace(CHECK, "")
    CHANGE: LiteralString = Jobs.CHANGE.replace(CHECK, "")


if __name__ == "__main__":
    _, left_out = sys.argv
    main(Instance(WithoutLock if left_out == "no-lock" else Worker, WithoutToken))
