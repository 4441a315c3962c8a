"""Find the program `leasehold`."""

import os
import shutil
from pathlib import Path
from typing import Final

PROGRAM_VARIABLE: Final = "LEASEHOLD_PROGRAM"
"""Names the program that test support starts; no setting of the sidecar."""

_WAYS: Final = (
    "install it by `pip install leasehold-sidecar` (on Linux), put `leasehold` into a folder of PATH, "
    f"or set {PROGRAM_VARIABLE} to its path"
)


class ProgramNotFoundError(Exception):
    """There is no program `leasehold`; the message says where it was looked for, and how to install it."""


def find_program() -> str:
    """Give the path of `leasehold`: what LEASEHOLD_PROGRAM names, else the package leasehold-sidecar's, else PATH's.

    Raises ProgramNotFoundError.
    """
    named = os.environ.get(PROGRAM_VARIABLE)
    if named:
        if not (Path(named).is_file() and os.access(named, os.X_OK)):
            raise ProgramNotFoundError(
                f"{PROGRAM_VARIABLE} names {named}, which is not an executable file: correct it, or unset it to use "
                "the package leasehold-sidecar or PATH"
            )
        return str(Path(named).absolute())
    packaged = _packaged()
    if packaged is not None:
        return packaged
    found = shutil.which("leasehold")
    if found is not None:
        return str(Path(found).absolute())
    path = os.environ.get("PATH", "")
    raise ProgramNotFoundError(
        f"there is no program `leasehold` to start a sidecar with. Looked at: {PROGRAM_VARIABLE} (not set), the "
        f"package leasehold-sidecar (not installed), PATH (not in {path or 'an empty one'}). To go on, {_WAYS}"
    )


def _packaged() -> str | None:
    try:
        import leasehold_sidecar  # noqa: PLC0415 # a package of its own, which need not be there
    except ModuleNotFoundError:
        return None
    return str(leasehold_sidecar.find_program())
