"""What a release does with the packages, against stand-ins on this machine: `tests/dist/run --publish`."""

import base64
import contextlib
import hashlib
import http.server
import io
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.request
import zipfile
from unittest import mock

from trial import ROOT, VERSION, claim, clean_environment, end, must, said, step

sys.path.insert(0, str(ROOT / "packaging"))

import bills
import image
import npm

CRANE = ROOT / ".tools/bin/crane"
PUBLISH = ROOT / "packaging/publish"


def listed(folder):
    """Writes the SHA256SUMS of a folder, as `make dist` does."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "SHA256SUMS"]
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


def built(folder, machine):
    """A folder as `make dist` leaves it on such a machine, with a program that is none."""
    with mock.patch.object(platform, "machine", return_value=machine):
        folder.mkdir()
        program = folder.parent / "program"
        program.write_text(f"program for {machine}")
        name = folder / f"leasehold-{VERSION}-linux-{machine}"
        pathlib.Path(f"{name}-image.tar").write_bytes(image.archive(program))
        pathlib.Path(f"{name}-image.cdx.json").write_text("{}")
        (folder / "npm").mkdir()
        (folder / "npm" / npm.file_name("@leasehold/sidecar")).write_bytes(npm.launcher())
        of_platform = npm.platform_name(npm.architecture().node)
        (folder / "npm" / npm.file_name(of_platform)).write_bytes(npm.platform(program, bills.third_party(), "{}"))
    listed(folder)


def notes(folder):
    """They are those of the version that the tag names."""
    step("The notes.")
    command = [ROOT / "packaging/notes", f"v{VERSION}", "--changelog", folder / "CHANGELOG.md"]
    log = "# Changelog\n\nWords.\n\n## [Unreleased]\n\nLater.\n\n## [{}]{}\n\n{}\n\n## [0.0.1] - 2025-01-01\n\nOlder.\n"
    (folder / "CHANGELOG.md").write_text(log.format(VERSION, " - 2026-01-31", "What is new.\n\n### Added\n\n- This."))
    claim(must(*command) == "What is new.\n\n### Added\n\n- This.", "they are the section of the version, without its heading")
    code, output = said(command[0], "v99.0.0", *command[2:])
    claim(code == 1 and "the tag has to be" in output, f"another tag is refused: {output}")
    wrong = {
        "has no section": log.format("99.0.0", " - 2026-01-31", "New."),
        "is not of the form": log.format(VERSION, "", "New."),
        "says nothing": log.format(VERSION, " - 2026-01-31", ""),
    }
    for words, text in wrong.items():
        (folder / "CHANGELOG.md").write_text(text)
        code, output = said(*command)
        claim(code == 1 and words in output, f"refused: {output}")


def assets(folder):
    """What two machines built is in one folder, and nothing else."""
    step("The assets of two machines.")
    built(folder / "x86_64", "x86_64")
    built(folder / "aarch64", "aarch64")
    must(ROOT / "packaging/dist", "--to", folder / "clients", "chart", "go", timeout=None)
    java = folder / "java"
    java.mkdir()
    for ending in (".jar", "-sources.jar", "-javadoc.jar"):
        (java / f"leasehold-client-{VERSION}{ending}").write_text(ending)
    shutil.copyfile(ROOT / "clients/java/pom.xml", java / f"leasehold-client-{VERSION}.pom")
    (java / f"leasehold-client-{VERSION}.tgz").write_bytes(client())
    listed(java)
    to = folder / "assets"
    command = [ROOT / "packaging/assets", "--to", to, *(folder / name for name in ("x86_64", "aarch64", "clients", "java"))]
    must(*command)
    must(*command)
    there = {path.name for path in to.iterdir()}
    claim(len(there) == 14 and all(path.is_file() for path in to.iterdir()), f"{len(there)} files: {sorted(there)}")
    code, output = said("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS", cwd=to)
    claim(code == 0, f"with the sums of SHA256SUMS {output}")
    launcher = folder / "aarch64/npm" / npm.file_name("@leasehold/sidecar")
    launcher.write_bytes(b"another")
    code, output = said(*command)
    claim(code == 1 and "is not what was built" in output, f"what was changed after the build is refused: {output}")
    listed(folder / "aarch64")
    code, output = said(*command)
    claim(code == 1 and "differs" in output, f"and so is what two machines built differently: {output}")
    code, output = said(*command[:3], folder)
    claim(code == 1 and "has no SHA256SUMS" in output, f"and what `make dist` did not make: {output}")
    return to


def client():
    """A package with the client's name."""
    content = json.dumps({"name": "leasehold-client", "version": VERSION})
    return npm.compressed(npm.tar([npm.text("package/package.json", content)], folders=False))


@contextlib.contextmanager
def registry(folder):
    """A registry for images and charts, in memory."""
    log = folder / "registry"
    with log.open("wb") as errors:
        process = subprocess.Popen([CRANE, "registry", "serve", "--address", "127.0.0.1:0"], stderr=subprocess.PIPE)
        try:
            port = next(found[1] for line in process.stderr if (found := re.search(rb"port (\d+)", line)))
            threading.Thread(target=lambda: errors.writelines(process.stderr), daemon=True).start()
            yield f"127.0.0.1:{int(port)}"
        finally:
            process.kill()
            process.wait()


def lines_of(output):
    """NAME=VALUE."""
    return dict(line.split("=", 1) for line in output.splitlines())


def image_and_chart(to, folder):
    """A puller gets the image of its architecture by one name, and the chart."""
    step("The image and the chart, in a registry.")
    with registry(folder) as address:
        place = f"{address}/leasehold"
        said_of = lines_of(must(PUBLISH, "--from", to, "image", place))
        name = f"{place}/leasehold:{VERSION}"
        claim(must(CRANE, "digest", name) == said_of["image"], f"the index has the digest {said_of['image']}")
        for architecture, machine in (("amd64", "x86_64"), ("arm64", "aarch64")):
            wanted = ["--platform", f"linux/{architecture}", name]
            claim(must(CRANE, "digest", *wanted) == said_of[architecture], f"{architecture} has the digest {said_of[architecture]}")
            claim(pathlib.Path(said_of[f"{architecture}_bill"]).is_file(), "and a bill of materials")
            pulled = folder / f"{architecture}.tar"
            must(CRANE, "export", *wanted, pulled)
            program = must("tar", "--extract", "--to-stdout", "--file", pulled, "leasehold")
            claim(program == f"program for {machine}", f"and a {program}")
        must(CRANE, "validate", "--remote", name)
        annotations = json.loads(must(CRANE, "manifest", name))["annotations"]
        claim(annotations["org.opencontainers.image.version"] == VERSION, f"the index says what it is: {sorted(annotations)}")

        chart = lines_of(must(PUBLISH, "--from", to, "chart", place))["chart"]
        claim(must(CRANE, "digest", f"{place}/charts/leasehold:{VERSION}") == chart, f"the chart has the digest {chart}")
        helm = [ROOT / ".tools/bin/helm", "pull", f"oci://{place}/charts/leasehold", "--version", VERSION, "--plain-http"]
        must(*helm, "--destination", folder)
        same = (folder / f"leasehold-{VERSION}.tgz").read_bytes() == (to / f"leasehold-{VERSION}.tgz").read_bytes()
        claim(same, "and helm pulls what was pushed")
    empty = folder / "empty"
    empty.mkdir()
    for kind in ("image", "chart"):
        code, output = said(PUBLISH, "--from", empty, kind, "127.0.0.1:1/nobody")
        claim(code == 1 and "run `make dist`" in output, f"without one: {output}")


@contextlib.contextmanager
def server(answer):
    """An HTTP server; `answer` makes status and body of method, path, headers and body."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def handle_any(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, text = answer(self.command, self.path, self.headers, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_PUT = handle_any

        def log_message(self, *_arguments):
            pass

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{listening.server_port}"
    finally:
        listening.shutdown()


def packages_of_npm(to, folder):
    """Each once, those that others want first."""
    step("The packages of npm.")
    published = {}

    def answer(method, path, _headers, body):
        name = urllib.request.unquote(path.lstrip("/"))
        if method == "PUT":
            published[name] = json.loads(body)
            return 201, "{}"
        if name in published:
            return 200, json.dumps(published[name])
        return 404, '{"error": "not found"}'

    with server(answer) as address:
        (folder / "npmrc").write_text(f"registry=http://{address}/\n//{address}/:_authToken=word\n")
        environment = clean_environment(npm_config_userconfig=str(folder / "npmrc"), npm_config_cache=str(folder / "cache"))
        must(PUBLISH, "--from", to, "npm", env=environment)
        order = ["@leasehold/sidecar-linux-arm64", "@leasehold/sidecar-linux-x64", "@leasehold/sidecar", "leasehold-client"]
        claim(list(published) == order, f"they are published in this order: {list(published)}")
        claim({one["access"] for one in published.values()} == {"public"}, "for everybody")
        files = {path.read_bytes() for path in to.glob("*.tgz")}
        sent = [base64.b64decode(data["data"]) for one in published.values() for data in one["_attachments"].values()]
        claim(len(sent) == 4 and set(sent) <= files, "as they were built")
        del published["leasehold-client"]
        output = must(PUBLISH, "--from", to, "npm", env=environment)
        claim(output.count("=published before") == 3 and "leasehold-client" in published, "a second attempt publishes what is missing")


def key(folder):
    """A key for signatures, and its environment's folder."""
    home = folder / "gpg"
    home.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", home, "--batch", "--pinentry-mode", "loopback", "--passphrase", "word"]
    must(*gpg, "--quick-generate-key", "tests@leasehold.example", "ed25519", "sign")
    return home, must(*gpg, "--armor", "--export-secret-keys")


def maven(to, folder):
    """The portal gets what Maven Central wants of a release, and its answer counts."""
    step("The Java client, to a portal.")
    home, armoured = key(folder)
    states, uploads = [], []

    def answer(_method, path, headers, body):
        if headers["Authorization"] != "Bearer " + base64.b64encode(b"user:word").decode():
            return 401, "who are you?"
        if "/upload" in path:
            uploads.append((path, body))
            return 201, "0815"
        state = states.pop(0)
        return 200, json.dumps({"deploymentState": state, "errors": {"pom": ["no developers"]} if state == "FAILED" else {}})

    with server(answer) as address:
        environment = clean_environment(
            CENTRAL_USERNAME="user", CENTRAL_PASSWORD="word", SIGNING_KEY=armoured, SIGNING_PASSPHRASE="word"
        )
        command = [PUBLISH, "--from", to, "maven", f"http://{address}"]
        states[:] = ["PUBLISHING"]
        claim(must(*command, env=environment) == "deployment=0815", "it is uploaded and accepted")
        path, body = uploads[0]
        claim(f"name=leasehold-client-{VERSION}" in path and "publishingType=AUTOMATIC" in path, path)
        archive = body[body.index(b"PK\x03\x04") :]
        with zipfile.ZipFile(io.BytesIO(archive)) as bundle:
            names = bundle.namelist()
            bundle.extractall(folder / "bundle")
        claim(len(names) == 16 and all(one.startswith(f"dev/leasehold/leasehold-client/{VERSION}/") for one in names), f"{len(names)} files")
        for signature in (folder / "bundle").rglob("*.asc"):
            file = signature.with_suffix("")
            code, output = said("gpg", "--homedir", home, "--verify", signature, file)
            claim(code == 0, f"{file.name} is signed {output if code else ''}")
            sum_of = pathlib.Path(f"{file}.sha1").read_text()
            claim(sum_of == hashlib.sha1(file.read_bytes()).hexdigest(), "and has its sum")
        states[:] = ["FAILED"]
        code, output = said(*command, env=environment)
        claim(code == 1 and "no developers" in output, f"a refusal is one: {output}")
        code, output = said(*command, env=environment | {"CENTRAL_PASSWORD": "other"})
        claim(code == 1 and "401 who are you?" in output and "other" not in output, f"and so is a wrong password: {output}")
        code, output = said(*command, env=environment | {"SIGNING_KEY": ""})
        claim(code == 1 and "SIGNING_KEY is not set" in output, f"and a key that is missing: {output}")
    must("gpgconf", "--homedir", home, "--kill", "gpg-agent")


def main():
    """From what was built to what others can get."""
    if not shutil.which("gpg"):
        sys.exit("gpg is not installed; install it (Debian: apt-get install gnupg)")
    must("sh", "tests/tools/install-go.sh", "crane", cwd=ROOT, timeout=None)
    os.environ.pop("SOURCE_DATE_EPOCH", None)
    with tempfile.TemporaryDirectory(prefix="publish-") as name:
        folder = pathlib.Path(name)
        notes(folder)
        to = assets(folder)
        image_and_chart(to, folder)
        packages_of_npm(to, folder)
        maven(to, folder)
    end()


main()
