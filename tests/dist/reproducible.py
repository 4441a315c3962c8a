"""Builds everything twice, from two folders, and compares every byte: `tests/dist/run --reproducible`."""

import os
import pathlib
import shutil
import subprocess
import tempfile

from trial import ROOT, claim, clean_environment, end, must, step

# What is installed there at pinned versions, and is shared: it is slow to install, and ends up in no package.
INSTALLED = (".tools", "clients/java/.tools", "clients/python/.venv", "clients/typescript/node_modules")

PROFILE = os.environ.get("LEASEHOLD_PROFILE") or "release"


def copy(to):
    """A clone of this repository with what is not committed yet."""
    must("git", "clone", "--quiet", "--no-hardlinks", ROOT, to, timeout=None)
    revision = must("git", "rev-parse", "HEAD", cwd=ROOT)
    must("git", "checkout", "--quiet", "--detach", revision, cwd=to)
    changed = must("git", "ls-files", "-z", "--modified", "--others", "--exclude-standard", cwd=ROOT).split("\0")
    for name in filter(None, changed):
        source, target = ROOT / name, to / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
        else:
            target.unlink(missing_ok=True)
    for name in INSTALLED:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).mkdir(exist_ok=True)
        (to / name).symlink_to(ROOT / name)


def prepare():
    """Installs what both share, so that the first build does not write it while it is shared."""
    for command in ("clients/python/prepare", "clients/java/prepare"):
        must(ROOT / command, timeout=None)
    must("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", cwd=ROOT / "clients/typescript", timeout=None)


def build(folder):
    """Builds all, showing what cargo says; the sums."""
    environment = clean_environment(LEASEHOLD_PROFILE=PROFILE)
    subprocess.run([folder / "packaging/dist"], cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    lines = (folder / "dist/SHA256SUMS").read_text().splitlines()
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}


def main():
    """Two builds, and what differs."""
    prepare()
    with tempfile.TemporaryDirectory(prefix="reproducible-") as name:
        first, second = pathlib.Path(name, "a"), pathlib.Path(name, "somewhere/else/with-a-longer-name")
        sums = []
        for folder in (first, second):
            copy(folder)
            step(f"A build in {folder}")
            sums.append(build(folder))
        step("What was built.")
        claim(sums[0].keys() == sums[1].keys() and len(sums[0]) > 20, f"{len(sums[0])} files, of the same names")
        for file in sorted(sums[0]):
            claim(sums[0][file] == sums[1].get(file), f"{file} is the same")
        programs = [next(folder.glob(f"target/*/{PROFILE}/leasehold")).read_bytes() for folder in (first, second)]
        claim(programs[0] == programs[1], f"the program is the same to the byte, {len(programs[0])} bytes")
        claim(name.encode() not in programs[0], "and does not say where it was built")
    end()


main()
