"""The packages of a build, used as their users would: `tests/dist/run`."""

import json
import pathlib
import subprocess
import sys
import tempfile

import clients
import images
import linux
import node
import python
from trial import ROOT, claim, end, must, said, step


def sums(dist, folder):
    """SHA256SUMS is right, complete, and finds a file that was changed."""
    step("The check sums.")
    code, _ = said("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS", cwd=dist)
    claim(code == 0, "every file has the sum of SHA256SUMS")
    listed = {line.split("  ", 1)[1] for line in (dist / "SHA256SUMS").read_text().splitlines()}
    there = {str(path.relative_to(dist)) for path in dist.rglob("*") if path.is_file()} - {"SHA256SUMS"}
    claim(listed == there, f"every one of {len(there)} files is listed {sorted(listed ^ there)}")
    changed = folder / "changed"
    subprocess.run(["cp", "-r", str(dist), str(changed)], check=True)
    first = changed / sorted(there)[0]
    first.write_bytes(first.read_bytes() + b"\n")
    code, output = said("sha256sum", "--check", "--quiet", "SHA256SUMS", cwd=changed)
    claim(code != 0 and first.name in output, "a file that was changed is found")


def bill(dist):
    """The bill of materials names what is inside in C, too."""
    step("The bill of materials.")
    for path in dist.glob("*.cdx.json"):
        content = json.loads(path.read_text())
        versions = {component["name"]: component["version"] for component in content["components"]}
        for library in ("SQLite", "mimalloc", "BoringSSL (parts)", "fiat-crypto (parts)", "glibc", "rustls", "rusqlite"):
            claim(versions.get(library), f"{path.name} names {library} {versions.get(library)}")
        # What signs a bill wants it.
        claim(content["serialNumber"].startswith("urn:uuid:"), f"its serial number is {content['serialNumber']}")


def main():
    """Builds, and tries one package after the other."""
    with tempfile.TemporaryDirectory(prefix="dist-") as name:
        folder = pathlib.Path(name)
        dist = ROOT / ".tools/dist"
        step("The build.")
        must(ROOT / "packaging/dist", "--to", dist, *sys.argv[1:], timeout=None)
        claim(True, "everything is built")
        sums(dist, folder)
        bill(dist)
        for part in (linux, python, node, clients, images):
            place = folder / part.__name__
            place.mkdir()
            part.check(dist, place)
    end()


main()
