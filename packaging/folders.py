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


def listed(folder):
    """What SHA256SUMS says of a folder: the sum of each file, by its path from there."""
    sums = folder / SUMS
    return dict(reversed(line.split("  ", 1)) for line in sums.read_text().splitlines()) if sums.is_file() else {}


def keep(former, building, is_kept):
    """Copies what the former folder has, the new one lacks and `is_kept` wants. Returns what is left out."""
    left_out = []
    for name, expected in listed(former).items():
        path, target = former / name, building / name
        if target.exists():
            continue
        if path.is_file() and digest(path) == expected and is_kept(name):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        else:
            left_out.append(name)
    return left_out


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
