"""What all packages have in common: the version, its date, the architecture that they are for."""

import dataclasses
import os
import pathlib
import platform
import re
import subprocess
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"
REPOSITORY = "https://github.com/leasehold/leasehold"
SUMMARY = "Singleton locks for replicated jobs: a gRPC sidecar backed by Azure blob leases"
LICENCES = ("LICENSE", "LICENSE-APACHE", "LICENSE-MIT")


@dataclasses.dataclass(frozen=True)
class Architecture:
    """One architecture, as everybody calls it."""

    machine: str  # the kernel, RPM and Python
    debian: str  # Debian, Go and OCI
    node: str  # Node.js


ARCHITECTURES = {
    "x86_64": Architecture("x86_64", "amd64", "x64"),
    "aarch64": Architecture("aarch64", "arm64", "arm64"),
}


class PackagingError(Exception):
    """A package cannot be built; the message says why, and what to do."""


# The architecture that is built for, if it is another one than this machine's; packaging/program reads it, too.
MACHINE = "LEASEHOLD_MACHINE"


def architecture():
    """That of the program that is built: this machine's, unless MACHINE names another."""
    machine = os.environ.get(MACHINE) or platform.machine()
    try:
        return ARCHITECTURES[machine]
    except KeyError:
        raise PackagingError(f"there are packages for {', '.join(ARCHITECTURES)}; this is {machine}") from None


def is_cross():
    """Whether it is another one than this machine's, whose programs do not run here."""
    return architecture().machine != platform.machine()


def version():
    """The version of everything: it stands in Cargo.toml alone, and tests/tidy compares the manifests of the clients."""
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    # What all of Debian, RPM, Python, npm and Helm order alike.
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise PackagingError(f"Cargo.toml: the version {version} is not of the form 1.2.3, and Python and Debian would not order it alike")
    return version


def git(*arguments):
    """What git says; nothing outside of a clone."""
    result = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else ""


def revision():
    """The commit."""
    return git("rev-parse", "HEAD") or "unknown"


def epoch():
    """The date of everything, in seconds since 1970: that of the commit, unless SOURCE_DATE_EPOCH gives it."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct") or 0)


def run(*command, cwd=ROOT, shown=False, **environment):
    """What a command prints. What it says beside that is of interest only if it fails, unless it takes long and is to be shown."""
    words = [str(part) for part in command]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch()), **environment}
    errors = None if shown else subprocess.PIPE
    try:
        result = subprocess.run(words, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=errors, check=False)
    except FileNotFoundError as error:
        raise PackagingError(f"{error.filename} is not installed; CONTRIBUTING.md lists what is needed") from None
    if result.returncode != 0:
        said = (result.stdout + (result.stderr or b"")).decode(errors="replace")
        raise PackagingError(f"`{' '.join(words)}` failed with exit code {result.returncode} in {cwd}:\n{said}")
    return result.stdout.decode()
