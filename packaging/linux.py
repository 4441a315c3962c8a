"""The program for Linux: an archive, a Debian package and an RPM package, with manual pages and completions."""

import pathlib
import subprocess
import time

from archives import compressed, file, tar, text
from project import LICENCES, REPOSITORY, ROOT, TOOLS, PackagingError, architecture, epoch, run, version

HERE = ROOT / "packaging/linux"
COMPLETIONS = {"bash": "leasehold.bash", "fish": "leasehold.fish", "zsh": "_leasehold"}


def extras(program, folder):
    """Writes what the program, of this machine, says of itself: man/ and completions/."""
    manual, completions = folder / "man", folder / "completions"
    manual.mkdir(parents=True)
    completions.mkdir()
    run(program, "man", manual)
    for shell, name in COMPLETIONS.items():
        script = subprocess.run([program, "completions", shell], capture_output=True, check=True).stdout
        (completions / name).write_bytes(script)
    return sorted(manual.iterdir()), sorted(completions.iterdir())


def archive(program, stage, third_party, bill):
    """The .tar.gz: everything in one folder, for any Linux."""
    top = f"leasehold-{version()}-linux-{architecture().machine}"
    entries = [file(f"{top}/bin/leasehold", program, 0o755)]
    entries += [file(f"{top}/man/{path.name}", path) for path in sorted((stage / "man").iterdir())]
    entries += [file(f"{top}/completions/{path.name}", path) for path in sorted((stage / "completions").iterdir())]
    entries += [file(f"{top}/systemd/{name}", HERE / name) for name in ("leasehold.service", "leasehold.toml")]
    entries += [file(f"{top}/{name}", ROOT / name) for name in (*LICENCES, "CHANGELOG.md")]
    entries += [text(f"{top}/THIRD-PARTY-LICENSES.txt", third_party), text(f"{top}/leasehold.cdx.json", bill)]
    return compressed(tar(entries))


def copyright_file():
    """What Debian wants to know of each package."""
    texts = "\n\n".join((ROOT / name).read_text().strip() for name in ("LICENSE", "LICENSE-MIT", "LICENSE-APACHE"))
    return f"Source: {REPOSITORY}\nCopyright: The Leasehold authors\n\nLibraries in the program: THIRD-PARTY-LICENSES.txt.gz beside this.\n\n{texts}\n"


def stage_packages(program, stage, third_party, bill):
    """What nfpm.yaml takes from STAGE, beside man/ and completions/, with pages compressed as Debian wants them."""
    for page in sorted((stage / "man").iterdir()):
        page.with_name(f"{page.name}.gz").write_bytes(compressed(page.read_bytes()))
        page.unlink()
    documents = stage / "doc"
    documents.mkdir()
    (documents / "copyright").write_text(copyright_file())
    (documents / "changelog.gz").write_bytes(compressed((ROOT / "CHANGELOG.md").read_bytes()))
    (documents / "THIRD-PARTY-LICENSES.txt.gz").write_bytes(compressed(third_party.encode()))
    (documents / "leasehold.cdx.json.gz").write_bytes(compressed(bill.encode()))
    (stage / "leasehold").write_bytes(program.read_bytes())
    for path in stage.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def packages(stage, to):
    """The .deb and the .rpm."""
    run("sh", "tests/tools/install-nfpm.sh")
    settings = {
        "ARCH": architecture().debian,
        "VERSION": version(),
        "STAGE": str(stage),
        "MTIME": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch())),
    }
    # nfpm sets no variables where `src` and `dst` are.
    described = (HERE / "nfpm.yaml").read_text()
    for name, value in settings.items():
        described = described.replace(f"${{{name}}}", value)
    if "${" in described:
        raise PackagingError("packaging/linux/nfpm.yaml: a variable is not set; packaging/linux.py sets " + ", ".join(settings))
    configuration = stage / "nfpm.yaml"
    configuration.write_text(described)
    for kind in ("deb", "rpm"):
        run(TOOLS / "bin/nfpm", "package", "--config", configuration, "--packager", kind, "--target", to)


def build(program, speaker, to, stage, third_party, bill):
    """All three. `speaker` is a program that runs here, if `program` does not."""
    stage = pathlib.Path(stage)
    extras(speaker, stage)
    name = f"leasehold-{version()}-linux-{architecture().machine}.tar.gz"
    (to / name).write_bytes(archive(program, stage, third_party, bill))
    stage_packages(program, stage, third_party, bill)
    packages(stage, to)
