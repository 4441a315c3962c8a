"""Finds the program `leasehold` that this package has brought."""

import importlib.metadata
import os
import pathlib

__all__ = ["find_program"]


def find_program() -> str:
    """The path of the program.

    Raises FileNotFoundError when it is not where pip has put it.
    """
    installed = importlib.metadata.distribution("leasehold-sidecar").files or ()
    places = [pathlib.Path(os.path.normpath(file.locate())) for file in installed if file.name == "leasehold"]
    # `pip install --target FOLDER` moves it after that list is written.
    places.append(pathlib.Path(__file__).resolve().parent.parent / "bin" / "leasehold")
    for program in places:
        if program.is_file() and os.access(program, os.X_OK):
            return str(program)
    message = (
        f"the program leasehold is not at {' nor at '.join(map(str, places))}: it was removed or moved; "
        "install the package again: pip install --force-reinstall leasehold-sidecar"
    )
    raise FileNotFoundError(message)
