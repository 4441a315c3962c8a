"""The table of jobs. What writes to a job's row brings the fencing token of the job's lock, and is refused if late."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import LiteralString
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row
from psycopg_pool import ConnectionPool


class LateWriteError(Exception):
    """Somebody else was granted the job's lock since: stop."""


@dataclass(frozen=True)
class Job:
    """A job as its row says."""

    id: UUID
    pages: int
    status: str
    pages_done: int


class Jobs:
    """The jobs in the database. The calls block, so call them in a thread."""

    # The comparison and the write are one statement: nobody comes between them.
    BEGIN: LiteralString = """
        UPDATE job SET status = 'running', fencing_token = %(token)s
         WHERE id = %(id)s AND status <> 'done' AND fencing_token <= %(token)s
        RETURNING id, pages, status, pages_done"""
    CHANGE: LiteralString = """
        UPDATE job SET status = %(status)s, pages_done = %(pages_done)s, fencing_token = %(token)s
         WHERE id = %(id)s AND fencing_token <= %(token)s"""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    def create(self, job_id: UUID, pages: int) -> None:
        """Add a job; nothing happens if it is there."""
        with self._pool.connection() as connection:
            connection.execute("INSERT INTO job (id, pages) VALUES (%s, %s) ON CONFLICT DO NOTHING", (job_id, pages))

    def find(self, job_id: UUID) -> Job | None:
        """Look at a job."""
        with self._pool.connection() as connection, connection.cursor(row_factory=class_row(Job)) as cursor:
            return cursor.execute("SELECT id, pages, status, pages_done FROM job WHERE id = %s", (job_id,)).fetchone()

    def begin(self, job_id: UUID, token: int) -> Job | None:
        """Mark the job as running; None if it is done already."""
        with self._pool.connection() as connection, connection.cursor(row_factory=class_row(Job)) as cursor:
            return cursor.execute(self.BEGIN, {"id": job_id, "token": token}).fetchone()

    def save_page(self, job_id: UUID, token: int, pages_done: int) -> None:
        """Record how far the job is. Raises LateWriteError."""
        with self._pool.connection() as connection:
            self._change(connection, job_id, token, "running", pages_done)

    def finish(self, job: Job, token: int, body: str) -> None:
        """Record the result, and that the job is done, in one transaction. Raises LateWriteError."""
        with self._pool.connection() as connection:
            self._change(connection, job.id, token, "done", job.pages)
            connection.execute(
                "INSERT INTO result (job_id, fencing_token, body) VALUES (%s, %s, %s)", (job.id, token, body)
            )

    def _change(self, connection: Connection, job_id: UUID, token: int, status: str, pages_done: int) -> None:
        values = {"id": job_id, "token": token, "status": status, "pages_done": pages_done}
        changed = connection.execute(self.CHANGE, values)
        if changed.rowcount == 0:
            raise LateWriteError(f"job {job_id}: {status} with token {token} comes late")

    def unfinished(self, sent_before: timedelta) -> list[UUID]:
        """Find the jobs that are not done, and whose last message was sent so long ago."""
        with self._pool.connection() as connection:
            rows = connection.execute(
                "SELECT id FROM job WHERE status <> 'done' AND sent_at < now() - %s ORDER BY sent_at LIMIT 1000",
                (sent_before,),
            )
            return [job_id for (job_id,) in rows]

    def sending(self, job_ids: Sequence[UUID]) -> None:
        """Record that messages are sent for these jobs."""
        with self._pool.connection() as connection:
            connection.execute("UPDATE job SET sent_at = now() WHERE id = ANY(%s)", (list(job_ids),))
