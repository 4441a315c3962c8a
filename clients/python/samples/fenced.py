"""A resource that refuses late writes: a row of a database keeps the fencing token of its last write."""

import sqlite3

UPDATE = "UPDATE report SET body = ?1, fencing_token = ?2 WHERE id = ?3 AND fencing_token <= ?2"


class LateWriteError(Exception):
    """Somebody else has acquired the lock since, and has written: stop."""


def write(database: sqlite3.Connection, report: int, body: str, fencing_token: int) -> None:
    """Replace a report, unless a holder with a greater fencing token has written it."""
    with database:
        written = database.execute(UPDATE, (body, fencing_token, report))
    if written.rowcount == 0:
        raise LateWriteError
