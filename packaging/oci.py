"""The image and the chart in a registry of the Open Container Initiative."""

import json
import pathlib
import re
import tarfile
import tempfile

from image import INDEX, document, settings
from project import ARCHITECTURES, ROOT, TOOLS, PackagingError, run, version


def _archives(assets):
    """The archive of each architecture that was built, by what OCI calls it."""
    found = {one.debian: assets / f"leasehold-{version()}-linux-{one.machine}-image.tar" for one in ARCHITECTURES.values()}
    found = {name: path for name, path in found.items() if path.is_file()}
    if not found:
        raise PackagingError(f"{assets} has no leasehold-{version()}-linux-*-image.tar: run `make dist`, then `make assets`")
    return found


def _joined(archives, layout):
    """One layout with the images of all archives; the digest of each image."""
    manifests = []
    for path in archives.values():
        with tarfile.open(path) as archive:
            (manifest,) = json.load(archive.extractfile("index.json"))["manifests"]
            archive.extractall(layout, filter="data")
        # Their names are those that the engines of one machine give them.
        manifests.append({key: value for key, value in manifest.items() if key != "annotations"})
    configuration, _ = settings((ROOT / "Containerfile").read_text())
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests, "annotations": configuration["Labels"]}
    (layout / "index.json").write_bytes(document(index))
    return [manifest["digest"] for manifest in manifests]


def image(assets, registry):
    """Pushes one index with an image for each architecture. Its digest, and those of the images with their bills of materials."""
    archives = _archives(assets)
    run("sh", "tests/tools/install-go.sh", "crane")
    with tempfile.TemporaryDirectory() as folder:
        digests = _joined(archives, pathlib.Path(folder))
        pushed = run(TOOLS / "bin/crane", "push", "--index", folder, f"{registry}/leasehold:{version()}")
    lines = {"image": pushed.strip().rpartition("@")[2]}
    for (name, path), digest in zip(archives.items(), digests, strict=True):
        lines |= {name: digest, f"{name}_bill": path.with_suffix(".cdx.json")}
    return lines


def chart(assets, registry):
    """Pushes the chart; its digest."""
    path = assets / f"leasehold-{version()}.tgz"
    if not path.is_file():
        raise PackagingError(f"{assets} has no {path.name}: run `make dist`, then `make assets`")
    run("sh", "tests/tools/install-helm.sh", "helm")
    # A registry on this machine is one for tests.
    plain = ["--plain-http"] if registry.startswith(("localhost:", "127.0.0.1:")) else []
    # helm says it where errors are said.
    script = 'exec "$@" 2>&1'
    said = run("sh", "-c", script, "sh", TOOLS / "bin/helm", "push", path, f"oci://{registry}/charts", *plain)
    digest = re.search(r"sha256:[0-9a-f]{64}", said)
    if not digest:
        raise PackagingError(f"helm names no digest: {said}")
    return {"chart": digest[0]}
