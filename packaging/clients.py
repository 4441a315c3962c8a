"""The packages of the clients and the chart, each made by its own language's tool."""

import json
import pathlib
import shutil
import tempfile

from archives import Entry, dated_alike, zipped
from project import ROOT, TOOLS, PackagingError, epoch, git, run, version

GO_MODULES = ("github.com/leasehold/leasehold/clients/go", "github.com/leasehold/leasehold/clients/go/leaseholdotel")


def rust(to):
    """The crate. cargo does not build it again here: `make test` has."""
    with tempfile.TemporaryDirectory() as folder:
        run("cargo", "package", "--package", "leasehold-client", "--locked", "--no-verify", "--allow-dirty", "--quiet",
            "--target-dir", folder)
        name = f"leasehold-client-{version()}.crate"
        shutil.copyfile(pathlib.Path(folder, "package", name), to / name)


def _go_files(folder):
    """The files of the module in this folder: what is in the repository, without modules of their own below."""
    listed = [name.removeprefix(f"{folder}/") for name in git("ls-files", folder).splitlines()]
    modules = [name.removesuffix("go.mod") for name in listed if name.endswith("/go.mod")]
    if not listed:
        raise PackagingError(f"git lists no file of {folder}: build from a clone of the repository")
    return [(name, ROOT / folder / name) for name in sorted(listed) if not name.startswith(tuple(modules) or ("\0",))]


def go(to):
    """The modules as a folder of the form that GOPROXY reads: where the repository can be reached, `go get` needs none."""
    name = f"v{version()}"
    for module in GO_MODULES:
        folder = module.removeprefix("github.com/leasehold/leasehold/")
        versions = to / module / "@v"
        versions.mkdir(parents=True)
        entries = [Entry(f"{module}@{name}/{inside}", path.read_bytes()) for inside, path in _go_files(folder)]
        (versions / f"{name}.zip").write_bytes(zipped(entries))
        (versions / f"{name}.mod").write_bytes((ROOT / folder / "go.mod").read_bytes())
        (versions / f"{name}.info").write_text(json.dumps({"Version": name}) + "\n")
        (versions / "list").write_text(f"{name}\n")


def python(to):
    """Wheel and source distribution."""
    home = ROOT / "clients/python"
    run(home / "prepare")
    run(home / ".venv/bin/python", "-m", "build", "--no-isolation", "--quiet", "--outdir", to, cwd=home)


def typescript(to):
    """The npm package, of what its own sources compile to: in a folder of its own, away from tests that run meanwhile."""
    home = ROOT / "clients/typescript"
    installed = home / "node_modules/.package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < (home / "package-lock.json").stat().st_mtime:
        run("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", cwd=home)
    with tempfile.TemporaryDirectory() as folder:
        # Without the tests, which import the package by its name, and so from where it is usually built.
        options = {"rootDir": str(home), "outDir": f"{folder}/dist", "typeRoots": [str(home / "node_modules/@types")]}
        config = {"extends": str(home / "tsconfig.json"), "compilerOptions": options, "include": [f"{home}/src", f"{home}/gen"]}
        pathlib.Path(folder, "tsconfig.json").write_text(json.dumps(config))
        run("node_modules/.bin/tsc", "--project", folder, cwd=home)
        for name in ("package.json", "README.md", "LICENSE-APACHE", "LICENSE-MIT"):
            shutil.copyfile(home / name, pathlib.Path(folder, name))
        run("npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", to, cwd=folder)


def java(to):
    """The jars of the library, its sources and its documentation, and the pom."""
    home = ROOT / "clients/java"
    run(home / "maven", "--quiet", "package", "-DskipTests")
    name = f"leasehold-client-{version()}"
    for kind in ("", "-sources", "-javadoc"):
        shutil.copyfile(home / f"target/{name}{kind}.jar", to / f"{name}{kind}.jar")
    shutil.copyfile(home / "pom.xml", to / f"{name}.pom")


def chart(to):
    """The chart, as `helm package` makes it, with the date of the commit."""
    run("sh", "tests/tools/install-helm.sh", "helm")
    with tempfile.TemporaryDirectory() as folder:
        run(TOOLS / "bin/helm", "package", "helm/leasehold", "--destination", folder)
        name = f"leasehold-{version()}.tgz"
        (to / name).write_bytes(dated_alike(pathlib.Path(folder, name).read_bytes()))


# The part, the folder below dist/ and the function. Of Python it is dist/ itself, where pip looks for both wheels.
PARTS = {
    "rust": ("rust", rust),
    "go": ("go", go),
    "python": ("", python),
    "typescript": ("npm", typescript),
    "java": ("java", java),
    "chart": ("chart", chart),
}


def build(part, to):
    """One of PARTS."""
    folder, function = PARTS[part]
    (to / folder).mkdir(exist_ok=True)
    function(to / folder)
