"""What docs/moving.md shows."""

from collections.abc import Iterable

import leasehold


def import_parts(parts: Iterable[str]) -> None:
    with leasehold.Client() as client, client.hold("import") as hold:
        for part in parts:
            hold.check()  # raises an error if the lock was lost
            load(part, token=hold.fencing_token)


def load(part: str, token: int) -> None:
    print(f"loaded {part} with token {token}")


if __name__ == "__main__":
    import_parts(["one", "two"])
