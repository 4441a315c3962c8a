"""The archive, the Debian and the RPM package: what is inside, whose it is, and that it runs."""

import subprocess
import tarfile

from trial import ROOT, VERSION, claim, holds_a_lock, must, said, step

# The exposure that systemd computes, from 0 to 10: below 2 is "OK", its second best word. The rest is needed: the network, above all.
EXPOSURE = 20

FILES = {
    "/etc/leasehold/leasehold.toml": 0o644,
    "/usr/bin/leasehold": 0o755,
    "/usr/lib/systemd/system/leasehold.service": 0o644,
    "/usr/share/bash-completion/completions/leasehold": 0o644,
    "/usr/share/doc/leasehold/THIRD-PARTY-LICENSES.txt.gz": 0o644,
    "/usr/share/doc/leasehold/copyright": 0o644,
    "/usr/share/fish/vendor_completions.d/leasehold.fish": 0o644,
    "/usr/share/man/man1/leasehold-run.1.gz": 0o644,
    "/usr/share/man/man1/leasehold.1.gz": 0o644,
}


def one(dist, pattern):
    """The file of this name."""
    (found,) = dist.glob(pattern)
    return found


def check(dist, folder):
    """All three, and the unit."""
    archive(dist, folder)
    debian(dist, folder)
    rpm(dist)
    unit(folder)


def archive(dist, folder):
    """The .tar.gz."""
    step("The archive.")
    path = one(dist, f"leasehold-{VERSION}-linux-*.tar.gz")
    must("tar", "--extract", "--file", path, "--directory", folder)
    top = folder / path.name.removesuffix(".tar.gz")
    program = top / "bin/leasehold"
    claim(must(program, "--version") == f"leasehold {VERSION}", "its program runs")
    holds_a_lock([program], folder)
    for name in ("LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY-LICENSES.txt", "man/leasehold-serve.1", "completions/_leasehold"):
        claim((top / name).stat().st_size > 500, f"it has {name}")
    licences = (top / "THIRD-PARTY-LICENSES.txt").read_text()
    names = ("tokio", "rustls", "libsqlite3-sys", "glibc")
    claim(all(name in licences for name in names) and "proptest" not in licences, "licences are those of what is linked, and of nothing else")
    with tarfile.open(path) as tar:
        claim(all((member.uid, member.gid) == (0, 0) for member in tar), "everything is root's")


def debian(dist, folder):
    """The .deb."""
    step("The Debian package.")
    path = one(dist, "leasehold_*.deb")
    unpacked = folder / "deb"
    must("dpkg-deb", "--raw-extract", path, unpacked)
    for name, mode in FILES.items():
        found = (unpacked / name.lstrip("/")).stat().st_mode & 0o777
        claim(found == mode, f"{name} has mode {found:o}")
    conffiles = (unpacked / "DEBIAN/conffiles").read_text().split()
    claim(conffiles == ["/etc/leasehold/leasehold.toml"], f"configuration that is kept at an upgrade: {conffiles}")
    listing = must("dpkg-deb", "--contents", path).splitlines()
    claim(all(line.split()[1] in ("root/root", "0/0") for line in listing), "everything is root's")
    fields = must("dpkg-deb", "--field", path)
    claim(f"Version: {VERSION}-1" in fields and "Depends:" not in fields, "it needs no other package")
    claim(must(unpacked / "usr/bin/leasehold", "--version") == f"leasehold {VERSION}", "its program runs")
    for script in ("postinst", "prerm", "postrm"):
        claim(said("sh", "-n", unpacked / "DEBIAN" / script)[0] == 0, f"{script} is a script")
        # Here is no systemd to be told.
        claim(said(unpacked / "DEBIAN" / script, "configure", "", env={"PATH": "/nowhere"})[0] == 0, f"{script} does nothing without systemd")
    configuration = unpacked / "etc/leasehold/leasehold.toml"
    code, output = said(unpacked / "usr/bin/leasehold", "serve", "--config", configuration, "--print-config")
    claim(code == 0, f"its configuration is valid {output if code else ''}")
    examples(unpacked / "usr/bin/leasehold", configuration.read_text(), folder / "leasehold.toml")


def examples(program, configuration, file):
    """What the configuration has as examples is valid once it is no comment any more."""
    lines = configuration.splitlines()
    used = [line.removeprefix("# ") if " = " in line and "run`" not in line else line for line in lines]
    # Of the two ways to sign in, a user takes one.
    file.write_text("\n".join(line for line in used if not line.startswith("connection_string_file")))
    code, output = said(program, "serve", "--config", file, "--print-config")
    claim(code == 0 and "ordersprod" in output, f"its examples are valid: {code} {output if code else ''}")
    file.write_text("\n".join(used))
    code, output = said(program, "serve", "--config", file, "--print-config")
    claim(code == 78 and "there is no setting" not in output, f"both ways to sign in at once are refused: {code}")


def rpm(dist):
    """The .rpm."""
    step("The RPM package.")
    path = one(dist, "leasehold-*.rpm")
    listed = {}
    for line in must("rpm", "--query", "--package", "--queryformat", r"[%{FILENAMES} %{FILEMODES:octal} %{FILEUSERNAME}\n]", path).splitlines():
        name, mode, user = line.split()
        listed[name] = (int(mode, 8) & 0o777, user)
    for name, mode in FILES.items():
        claim(listed.get(name) == (mode, "root"), f"{name}: {listed.get(name)}")
    configuration = must("rpm", "--query", "--package", "--configfiles", path).split()
    claim(configuration == ["/etc/leasehold/leasehold.toml"], f"configuration that is kept at an upgrade: {configuration}")
    code, output = said("rpm", "--checksig", "--nosignature", path)
    claim(code == 0, f"its digests are right: {output.rsplit(':', 1)[-1]}")
    claim(must("rpm", "--query", "--package", path).startswith(f"leasehold-{VERSION}-1."), "its name has the version")


def unit(folder):
    """leasehold.service: what systemd says of it."""
    step("The unit.")
    root = folder / "deb"
    verified = must("systemd-analyze", "verify", "--recursive-errors=no", "--man=no", f"--root={root}", "leasehold.service")
    claim("leasehold" not in verified, f"systemd finds no mistake in it {verified}")
    path = root / "usr/lib/systemd/system/leasehold.service"
    exposure = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE}", "--no-pager"]
    claim("LimitCORE=0" in path.read_text().splitlines(), "a crash leaves no file with its secrets")
    code, output = said(*exposure, f"--root={root}", "leasehold.service")
    claim(code == 0, f"{output.splitlines()[-1]}, of at most {EXPOSURE / 10}")
    weaker = folder / "weaker/usr/lib/systemd/system"
    weaker.mkdir(parents=True)
    (weaker / path.name).write_text(path.read_text().replace("DynamicUser=yes\n", "").replace("CapabilityBoundingSet=\n", ""))
    code, _ = said(*exposure, f"--root={folder / 'weaker'}", "leasehold.service")
    claim(code != 0, "and would find it weaker without its user")
    claim(subprocess.run(["cmp", path, ROOT / "packaging/linux/leasehold.service"], check=False).returncode == 0, "it is the one of the sources")
