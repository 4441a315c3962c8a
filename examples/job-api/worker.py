"""Runs jobs that messages name: a job in one instance at a time, and a limited number of jobs in all instances."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import UUID

import leasehold

import events
from jobs import Job, Jobs, LateWriteError

JOB = "job"
AT_ONCE = 8
PAGE_SECONDS = 0.5
LEASE = 15
RECOVER_EVERY = timedelta(seconds=10)

log = logging.getLogger(__name__)
Send = Callable[[UUID], Awaitable[None]]


class Worker:
    """What an instance does with messages."""

    def __init__(self, client: leasehold.AsyncClient, jobs: Jobs, send: Send, instance: str) -> None:
        self._client = client
        self._jobs = jobs
        self._send = send
        self._instance = instance

    async def handle(self, job_id: UUID) -> None:
        """Run the job of a message. Whatever goes wrong, the recovery sends the message again."""
        job = await asyncio.to_thread(self._jobs.find, job_id)
        if job is None or job.status == "done":
            return
        try:
            await self.run_alone(job_id)
        except leasehold.BusyError:
            log.info("job %s runs elsewhere", job_id)
        except (LateWriteError, leasehold.LeaseholdError) as error:
            log.warning("job %s was not finished here: %s", job_id, error)

    async def run_alone(self, job_id: UUID) -> None:
        """Run the job under its lock, which is tried once, and one of the permits for all jobs."""
        async with (
            self._client.hold(JOB, str(job_id), lease_duration=LEASE, max_hold=3600, labels={"kind": JOB}) as lock,
            self._client.hold("jobs-at-once", permits=AT_ONCE, lease_duration=LEASE, wait=leasehold.FOREVER) as permit,
        ):

            def check() -> None:
                lock.check()
                permit.check()

            # A loss cancels this block but no thread: it checks before each page, and the database refuses late writes.
            await asyncio.to_thread(self.perform, job_id, lock.fencing_token, check)

    def perform(self, job_id: UUID, token: int, check: Callable[[], None]) -> None:
        """Write the pages from where the last holder stopped."""
        job = self._jobs.begin(job_id, token)
        if job is None:
            return
        try:
            for page in range(job.pages_done, job.pages):
                self._checked(job, token, check)
                time.sleep(PAGE_SECONDS)  # the work
                self._jobs.save_page(job_id, token, page + 1)
            self._checked(job, token, check)
            self._jobs.finish(job, token, f"{job.pages} pages")
        except LateWriteError:
            events.say("refused", instance=self._instance, job=str(job_id), token=token)
            raise

    def _checked(self, job: Job, token: int, check: Callable[[], None]) -> None:
        """Check the locks, and tell that they were valid: at a moment before the check."""
        at = events.now()
        check()
        events.say("works", at=at, instance=self._instance, job=str(job.id), token=token)

    async def recover(self) -> None:
        """Send again, on a schedule in one of the instances, what is not done and runs nowhere."""
        await self._client.every(
            RECOVER_EVERY, self._recover, function="recover-jobs", lease_duration=LEASE, max_attempts=1
        )

    async def _recover(self, _: leasehold.AsyncRun) -> None:
        running = {
            record.key.scope
            async for record in self._client.list_locks(states=[leasehold.LockState.HELD], labels={"kind": JOB})
            if record.key
        }
        unfinished = await asyncio.to_thread(self._jobs.unfinished, RECOVER_EVERY)
        forgotten = [job_id for job_id in unfinished if str(job_id) not in running]
        await asyncio.to_thread(self._jobs.sending, forgotten)
        for job_id in forgotten:
            await self._send(job_id)
        events.say("recovers", instance=self._instance, jobs=len(forgotten))
