"""Folders of files with their sums, in SHA256SUMS: made anew each time, and in place of none that was not made so."""

import contextlib
import hashlib
import pathlib
import shutil
import tempfile

SUMS = "SHA256SUMS"


def digest(path):
    """The sum that SHA256SUMS has."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def has_other_files(folder):
    """Whether something is in it that would be lost."""
    return folder.exists() and any(folder.iterdir()) and not (folder / SUMS).is_file()


@contextlib.contextmanager
def made_anew(to):
    """An empty folder, which takes the place of the former one with its sums when all is there."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to.parent, prefix=f".{to.name}-") as folder:
        building = pathlib.Path(folder, to.name)
        building.mkdir()
        building.chmod(0o755)
        yield building
        files = sorted(path for path in building.rglob("*") if path.is_file())
        (building / SUMS).write_text("".join(f"{digest(path)}  {path.relative_to(building)}\n" for path in files))
        if to.exists():
            shutil.rmtree(to)
        building.rename(to)
