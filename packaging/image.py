"""The image as an archive of the Open Container Initiative: what Containerfile describes, written without an engine.

There is nothing to run while it is built: two files from scratch and a configuration. So neither root nor podman is needed, and
the bytes are the same everywhere. `podman load`, `docker load` (25 or newer), `ctr images import` and `skopeo` read it.
"""

import hashlib
import json
import pathlib
import re
import time

from archives import Entry, compressed, file, tar
from project import ROOT, TOOLS, PackagingError, architecture, epoch, revision, run, version

NAME = "localhost/leasehold"
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIGURATION = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def digest(data):
    """How OCI names a blob."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def document(content):
    """JSON, with keys in order."""
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def created():
    """The date of the commit, as OCI writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch()))


def settings(containerfile):
    """The image's configuration as the Containerfile has it: what stands there is not repeated here."""
    lines = re.sub(r"\\\n\s*", "", containerfile).splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    values = {"VERSION": version(), "REVISION": revision(), "CREATED": created()}
    found = {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}
    copied = []
    for line in lines:
        word, rest = line.split(" ", 1)
        match word:
            case "LABEL":
                labels = re.findall(r'([\w.]+)="([^"]*)"', rest)
                found["Labels"] = {name: re.sub(r"\$\{(\w+)\}", lambda name: values[name[1]], text) for name, text in labels}
            case "USER":
                found["User"] = rest
            case "ENTRYPOINT" | "CMD":
                found["Entrypoint" if word == "ENTRYPOINT" else "Cmd"] = json.loads(rest)
            case "COPY":
                copied.append(rest.split()[-1])
            case "FROM" if rest == "scratch":
                pass
            case "ARG":
                pass
            case _:
                raise PackagingError(f"Containerfile: packaging/image.py does not know `{line}`; teach it, or leave that out")
    return found, copied


def _certifi(expression):
    run("sh", "tests/tools/install-python.sh")
    return run(TOOLS / "python/bin/python", "-c", f"import certifi; print(certifi.{expression})").strip()


def certificate_authorities():
    """Those of Mozilla, as the package certifi has them: tests/tools/requirements.txt pins it."""
    return pathlib.Path(_certifi("where()"))


def certifi():
    """The version of that package."""
    return _certifi("__version__")


def archive(program):
    """The archive with the program in it."""
    configuration, copied = settings((ROOT / "Containerfile").read_text())
    sources = {
        "/etc/ssl/certs/ca-certificates.crt": lambda name: file(name, certificate_authorities(), 0o444),
        "/leasehold": lambda name: file(name, program, 0o555),
    }
    if sorted(copied) != sorted(sources):
        raise PackagingError(f"Containerfile copies {copied}, and packaging/image.py {list(sources)}: make them agree")
    layers = [tar([sources[name](name.lstrip("/"))]) for name in copied]
    blobs = [compressed(layer) for layer in layers]
    config = document({
        "architecture": architecture().debian,
        "os": "linux",
        "created": created(),
        "config": configuration,
        "rootfs": {"type": "layers", "diff_ids": [digest(layer) for layer in layers]},
        "history": [{"created": created(), "created_by": f"COPY {name}"} for name in copied],
    })
    manifest = document({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": CONFIGURATION, "digest": digest(config), "size": len(config)},
        "layers": [{"mediaType": LAYER, "digest": digest(blob), "size": len(blob)} for blob in blobs],
    })
    name = f"{NAME}:{version()}"
    index = document({
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [{
            "mediaType": MANIFEST,
            "digest": digest(manifest),
            "size": len(manifest),
            "platform": {"os": "linux", "architecture": architecture().debian},
            # The first name is read by podman and skopeo, the second by containerd and Docker.
            "annotations": {"org.opencontainers.image.ref.name": name, "io.containerd.image.name": name},
        }],
    })
    entries = [Entry("oci-layout", document({"imageLayoutVersion": "1.0.0"})), Entry("index.json", index)]
    entries += [Entry(f"blobs/sha256/{digest(blob)[7:]}", blob) for blob in (manifest, config, *blobs)]
    return tar(entries)
