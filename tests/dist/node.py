"""The npm packages of the program, as a person with Node.js only installs them."""

import os
import platform
import signal

from trial import ROOT, VERSION, claim, holds_a_lock, must, said, step

NODE = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
NEWER = ROOT / f".tools/node/node_modules/node-linux-{NODE}/bin/node"
COMMON_JS = "console.log(require('@leasehold/sidecar').programPath())"
MODULE = "import { programPath } from '@leasehold/sidecar'; console.log(programPath())"


def packages(dist):
    """The launcher's and this platform's."""
    return [dist / f"npm/leasehold-sidecar-{VERSION}.tgz", dist / f"npm/leasehold-sidecar-linux-{NODE}-{VERSION}.tgz"]


def check(dist, folder):
    """An empty folder, without a registry."""
    step("With Node.js only: npm install, and npx")
    launcher, program = packages(dist)
    project = folder / "project"
    project.mkdir()
    (project / "package.json").write_text('{ "private": true }\n')
    install = ["npm", "install", "--offline", "--no-audit", "--no-fund", "--loglevel=error"]
    must(*install, launcher, program, cwd=project)
    command = project / "node_modules/.bin/leasehold"
    claim(must(command, "--version") == f"leasehold {VERSION}", "npm installs the program")
    holds_a_lock([command], folder)
    claim(NEWER.is_file(), "a newer Node.js is there, whose place the program takes")
    holds_a_lock([NEWER, command], folder)
    for node in ("node", str(NEWER)):
        code, _ = said(node, command, "probe", "--wait", "0s", "--endpoint", "unix:///nowhere")
        claim(code == 69, f"a failure's exit code comes through {node}: {code}")

    path = str(project / f"node_modules/@leasehold/sidecar-linux-{NODE}/bin/leasehold")
    claim(must("node", "-e", COMMON_JS, cwd=project) == path, "require: programPath() finds it")
    claim(must("node", "--input-type=module", "-e", MODULE, cwd=project) == path, "import: programPath() finds it")

    empty = folder / "empty"
    empty.mkdir()
    npx = ["npx", "--offline", "--yes", "--package", launcher, "--package", program, "leasehold"]
    claim(must(*npx, "--version", cwd=empty) == f"leasehold {VERSION}", "npx runs it")
    holds_a_lock(npx, empty, terminate=terminate_program, cwd=empty)

    alone = folder / "alone"
    alone.mkdir()
    (alone / "package.json").write_text('{ "private": true }\n')
    must(*install, "--omit=optional", launcher, cwd=alone)
    code, output = said(alone / "node_modules/.bin/leasehold", "--version")
    claim(code == 78 and "without --omit=optional" in output, f"without the platform's package: {code}, {output}")
    claim(os.stat(path).st_mode & 0o777 == 0o755, "everybody may execute the program")


def terminate_program(npx):
    """Tells the program itself to end: npx ends at once when it is told, and leaves its command behind."""
    os.kill(int(must("pgrep", "--session", str(npx.pid), "--exact", "leasehold")), signal.SIGTERM)
