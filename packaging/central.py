"""The Java client on Maven Central, by the API of its portal: each file signed, all in one archive."""

import base64
import hashlib
import json
import os
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from xml.etree import ElementTree

from archives import Entry, zipped
from project import PackagingError, version

URL = "https://central.sonatype.com"
NAME = "leasehold-client"
FOLDER = f"dev/leasehold/{NAME}"
# Until it says whether it accepts what it was sent. Becoming visible takes longer, and needs nobody to wait.
POLLS, SECONDS = 120, 15


def _needed(name):
    if not os.environ.get(name):
        raise PackagingError(f"{name} is not set; `packaging/publish --help` says what it is")
    return os.environ[name]


def _gpg(home, *arguments, given=b""):
    command = ["gpg", "--homedir", home, "--batch", "--quiet", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    if done.returncode != 0:
        raise PackagingError(f"`gpg {arguments[0]}` failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def _signatures(paths):
    """A detached signature for each file, by a key that is kept for as long as that takes."""
    passphrase = os.environ.get("SIGNING_PASSPHRASE", "").encode()
    with tempfile.TemporaryDirectory() as home:
        _gpg(home, "--import", given=_needed("SIGNING_KEY").encode())
        sign = ("--pinentry-mode", "loopback", "--passphrase-fd", "0", "--armor", "--detach-sign", "--output", "-")
        try:
            return [_gpg(home, *sign, path, given=passphrase) for path in paths]
        finally:
            subprocess.run(["gpgconf", "--homedir", home, "--kill", "gpg-agent"], capture_output=True, check=False)


# What the portal wants to be told of a package: https://central.sonatype.org/publish/requirements/
NEEDED = (
    "groupId", "artifactId", "version", "name", "description", "url", "licenses/license/name", "licenses/license/url",
    "developers/developer/name", "scm/connection", "scm/developerConnection", "scm/url",
)


def lacking(pom):
    """What a pom does not say of it, and the dependencies on what is no release."""
    space = "{http://maven.apache.org/POM/4.0.0}"
    project = ElementTree.fromstring(pom)
    found = [path for path in NEEDED if not (project.findtext("/".join(space + part for part in path.split("/"))) or "").strip()]
    return found + [one.text for one in project.iter(f"{space}version") if (one.text or "").endswith("-SNAPSHOT")]


def bundle(assets):
    """The archive that the portal takes."""
    names = [f"{NAME}-{version()}{ending}" for ending in (".jar", "-sources.jar", "-javadoc.jar", ".pom")]
    paths = [assets / name for name in names]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise PackagingError(f"{assets} lacks {', '.join(missing)}: run `make dist`, then `make assets`")
    if missing := lacking(paths[-1].read_bytes()):
        raise PackagingError(f"{paths[-1].name} says nothing of what Maven Central needs: {', '.join(missing)}")
    entries = []
    for path, signature in zip(paths, _signatures(paths), strict=True):
        place, data = f"{FOLDER}/{version()}/{path.name}", path.read_bytes()
        entries += [
            Entry(place, data),
            Entry(f"{place}.asc", signature),
            Entry(f"{place}.md5", hashlib.md5(data, usedforsecurity=False).hexdigest().encode()),
            Entry(f"{place}.sha1", hashlib.sha1(data, usedforsecurity=False).hexdigest().encode()),
        ]
    return zipped(entries)


def _post(url, data=b"", **headers):
    token = base64.b64encode(f"{_needed('CENTRAL_USERNAME')}:{_needed('CENTRAL_PASSWORD')}".encode()).decode()
    headers = {name.replace("_", "-"): value for name, value in headers.items()} | {"Authorization": f"Bearer {token}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method="POST"), timeout=300) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        raise PackagingError(f"{url}: {error.code} {error.read().decode(errors='replace')}") from None
    except urllib.error.URLError as error:
        raise PackagingError(f"{url}: {error.reason}") from None


def publish(assets, url):
    """Uploads, and waits until the portal has checked it, after which it publishes by itself."""
    archive = bundle(assets)
    edge = hashlib.sha256(archive).hexdigest()
    head = f'--{edge}\r\nContent-Disposition: form-data; name="bundle"; filename="{NAME}-{version()}.zip"\r\n'
    body = f"{head}Content-Type: application/octet-stream\r\n\r\n".encode() + archive + f"\r\n--{edge}--\r\n".encode()
    query = f"name={NAME}-{version()}&publishingType=AUTOMATIC"
    kind = f"multipart/form-data; boundary={edge}"
    deployment = _post(f"{url}/api/v1/publisher/upload?{query}", body, Content_Type=kind).strip()
    for _ in range(POLLS):
        status = json.loads(_post(f"{url}/api/v1/publisher/status?id={deployment}"))
        match status["deploymentState"]:
            case "PUBLISHING" | "PUBLISHED":
                return {"deployment": deployment}
            case "FAILED":
                raise PackagingError(f"Maven Central refuses deployment {deployment}: {json.dumps(status.get('errors'))}")
        time.sleep(SECONDS)
    raise PackagingError(f"Maven Central has not checked deployment {deployment} after {POLLS * SECONDS} s; look at {url}")
