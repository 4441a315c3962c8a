"""The packages of the clients and the chart: complete, and usable from where they lie."""

import json
import pathlib
import tarfile
import zipfile

from trial import ROOT, VERSION, claim, clean_environment, must, step

GO_MODULE = "github.com/leasehold/leasehold/clients/go"
GO_PROGRAM = """package main

import (
	"context"

	leasehold "github.com/leasehold/leasehold/clients/go"
	"github.com/leasehold/leasehold/clients/go/leaseholdotel"
)

func main() {
	if client, err := leasehold.Connect(context.Background(), leaseholdotel.WithTraceContext()); err == nil {
		client.Close()
	}
}
"""


def check(dist, folder):
    """One after the other."""
    step("The clients' packages.")
    rust(dist)
    go(dist, folder)
    python(dist, folder)
    typescript(dist)
    java(dist)
    chart(dist, folder)


def rust(dist):
    """The crate."""
    top = f"leasehold-client-{VERSION}"
    with tarfile.open(dist / f"rust/{top}.crate") as crate:
        names = set(crate.getnames())
    wanted = {f"{top}/{name}" for name in ("Cargo.toml", "README.md", "LICENSE-APACHE", "LICENSE-MIT", "src/lib.rs")}
    claim(wanted <= names, f"Rust: the crate has {len(names)} files {sorted(wanted - names)}")
    drivers = [name for name in names if name.startswith((f"{top}/driver/", f"{top}/scenarios/"))]
    claim(not drivers, f"Rust: and none that only tests use {drivers}")


def go(dist, folder):
    """The modules, got by Go itself from the folder, which checks their form; and a program that uses both."""
    ours, modules = f"file://{dist / 'go'}", folder / "modules"
    cache = {"GONOSUMDB": f"{GO_MODULE},{GO_MODULE}/*", "GOFLAGS": "-modcacherw", "GOMODCACHE": str(modules), "GOWORK": "off"}
    environment = clean_environment(GOPROXY=ours, **cache)
    for module, wanted in ((GO_MODULE, {"client.go", "gen/leasehold/v1/lock.pb.go"}), (f"{GO_MODULE}/leaseholdotel", {"trace.go"})):
        got = json.loads(must("go", "mod", "download", "-json", f"{module}@v{VERSION}", cwd=folder, env=environment))
        place = pathlib.Path(got["Dir"])
        names = {str(path.relative_to(place)) for path in place.rglob("*.go")}
        claim(wanted <= names, f"Go: {module.rsplit('/', 1)[-1]} has {len(names)} files")
        claim(not any((path / "go.mod").exists() for path in place.iterdir()), "Go: without other modules")
    program = folder / "program"
    program.mkdir()
    (program / "main.go").write_text(GO_PROGRAM)
    # What the client's own checks have downloaded is not downloaded again.
    known = f"file://{must('go', 'env', 'GOMODCACHE')}/cache/download"
    environment = clean_environment(GOPROXY=f"{ours},{known},{must('go', 'env', 'GOPROXY')}", **cache)
    must("go", "mod", "init", "example.test/program", cwd=program, env=environment)
    must("go", "get", f"{GO_MODULE}/leaseholdotel@v{VERSION}", cwd=program, env=environment)
    must("go", "build", ".", cwd=program, env=environment)
    claim((program / "program").exists(), "Go: a program with traces is built")


def python(dist, folder):
    """The wheel, beside the dependencies that the client's own checks have."""
    place = folder / "python"
    wheels = list(dist.glob(f"leasehold-{VERSION}-py3-none-any.whl"))
    interpreter = ROOT / "clients/python/.venv/bin/python"
    must(interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target", place, *wheels)
    code = "import leasehold; print(leasehold.__version__, leasehold.__file__)"
    version, path = must(interpreter, "-c", code, env=clean_environment(PYTHONPATH=str(place))).split()
    claim((version, path.startswith(str(place))) == (VERSION, True), f"Python: the wheel is {version}")
    with tarfile.open(dist / f"leasehold-{VERSION}.tar.gz") as source:
        claim(f"leasehold-{VERSION}/src/leasehold/__init__.py" in source.getnames(), "Python: the source distribution has its sources")


def typescript(dist):
    """The npm package."""
    with tarfile.open(dist / f"npm/leasehold-client-{VERSION}.tgz") as package:
        names = set(package.getnames())
        manifest = json.load(package.extractfile("package/package.json"))
    exported = {f"package/{path.removeprefix('./')}" for entry in manifest["exports"].values() for path in entry.values()}
    claim(manifest["version"] == VERSION and exported <= names, f"TypeScript: the package has what it exports {sorted(exported - names)}")


def java(dist):
    """The jars and the pom."""
    name = f"java/leasehold-client-{VERSION}"
    wanted = {"": "LeaseholdClient.class", "-sources": "LeaseholdClient.java", "-javadoc": "LeaseholdClient.html"}
    for kind, file in wanted.items():
        with zipfile.ZipFile(dist / f"{name}{kind}.jar") as jar:
            claim(f"dev/leasehold/client/{file}" in jar.namelist(), f"Java: {name}{kind}.jar has {file}")
    claim(f"<version>{VERSION}</version>" in (dist / f"{name}.pom").read_text(), "Java: the pom has the version")


def chart(dist, folder):
    """The chart renders as its folder does."""
    helm = ROOT / ".tools/bin/helm"
    values = ROOT / "helm/leasehold/ci/try-out-values.yaml"
    environment = clean_environment(HELM_CACHE_HOME=str(folder / "helm"), HELM_CONFIG_HOME=str(folder / "helm"))
    packed, plain = (
        must(helm, "template", "keeper", path, "--values", values, "--kube-version", "1.34.0", env=environment)
        for path in (dist / f"chart/leasehold-{VERSION}.tgz", ROOT / "helm/leasehold")
    )
    claim(packed == plain and "kind: Deployment" in packed, "Helm: the chart renders as its folder does")
