"""The program as a Python wheel, `leasehold-sidecar`, which pip puts where it puts commands."""

import base64
import hashlib

from archives import file, text, zipped
from project import LICENCES, REPOSITORY, ROOT, SUMMARY, architecture, version

NAME = "leasehold_sidecar"
HERE = ROOT / "packaging/wheel"
MODULE = ("__init__.py", "__main__.py", "py.typed")


def tags():
    """Where it runs: a static program needs no libc, so a machine with glibc or with musl will do."""
    machine = architecture().machine
    return [f"py3-none-manylinux_2_17_{machine}", f"py3-none-musllinux_1_1_{machine}"]


def file_name():
    """The name of the wheel."""
    platforms = ".".join(tag.removeprefix("py3-none-") for tag in tags())
    return f"{NAME}-{version()}-py3-none-{platforms}.whl"


def metadata():
    """What a package index shows."""
    head = [
        "Metadata-Version: 2.4",
        "Name: leasehold-sidecar",
        f"Version: {version()}",
        f"Summary: {SUMMARY}",
        "License-Expression: MIT OR Apache-2.0",
        *(f"License-File: {name}" for name in (*LICENCES, "THIRD-PARTY-LICENSES.txt")),
        "Requires-Python: >=3.9",
        f"Project-URL: Homepage, {REPOSITORY}",
        f"Project-URL: Documentation, {REPOSITORY}/blob/main/docs/install.md",
        f"Project-URL: Repository, {REPOSITORY}",
        f"Project-URL: Changelog, {REPOSITORY}/blob/main/CHANGELOG.md",
        f"Project-URL: Issues, {REPOSITORY}/issues",
        "Keywords: lock,lease,singleton,grpc,azure,sidecar",
        "Classifier: Environment :: Console",
        "Classifier: Operating System :: POSIX :: Linux",
        "Classifier: Topic :: System :: Distributed Computing",
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(head) + "\n\n" + (HERE / "README.md").read_text()


def wheel(program, third_party, bill):
    """The wheel's bytes: the program, the licences of what is linked into it, and its bill of materials (PEP 770)."""
    info = f"{NAME}-{version()}.dist-info"
    kind = ["Wheel-Version: 1.0", "Generator: leasehold", "Root-Is-Purelib: false", *(f"Tag: {tag}" for tag in tags())]
    entries = [file(f"{NAME}/{name}", HERE / NAME / name) for name in MODULE]
    entries += [
        file(f"{NAME}-{version()}.data/scripts/leasehold", program, 0o755),
        text(f"{info}/METADATA", metadata()),
        text(f"{info}/WHEEL", "\n".join(kind) + "\n"),
        *(file(f"{info}/licenses/{name}", ROOT / name) for name in LICENCES),
        text(f"{info}/licenses/THIRD-PARTY-LICENSES.txt", third_party),
        text(f"{info}/sboms/leasehold.cdx.json", bill),
    ]
    record = "".join(f"{entry.name},{_hash(entry.data)},{len(entry.data)}\n" for entry in entries)
    return zipped([*entries, text(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")])


def _hash(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
