"""What docs/moving.md shows."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

import leasehold


class Cursor(Protocol):
    """Stands for psycopg's."""

    @property
    def rowcount(self) -> int: ...


class Connection(Protocol):
    """Stands for psycopg's."""

    def transaction(self) -> AbstractContextManager[object]: ...

    def execute(self, query: str, parameters: Mapping[str, int], /) -> Cursor: ...


def import_parts(parts: Iterable[str]) -> None:
    with leasehold.Client() as client, client.hold("import") as hold:
        for part in parts:
            hold.check()  # raises an error if the lock was lost
            load(part, token=hold.fencing_token)


def update_totals(connection: Connection) -> None:
    with leasehold.Client() as client, client.hold("totals") as hold, connection.transaction():
        fence = "UPDATE fence SET fencing_token = %(token)s WHERE lock_name = 'totals' AND fencing_token <= %(token)s"
        if connection.execute(fence, {"token": hold.fencing_token}).rowcount != 1:
            raise RuntimeError("another replica has acquired the lock since")
        write_totals(connection)


def write_totals(connection: Connection) -> None:
    connection.execute("UPDATE totals SET day = %(day)s", {"day": 1})


def load(part: str, token: int) -> None:
    print(f"loaded {part} with token {token}")


if __name__ == "__main__":
    import_parts(["one", "two"])
