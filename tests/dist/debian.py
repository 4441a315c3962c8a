"""Installs the .deb of dist/ in a fresh Debian, as its administrator would: `tests/dist/run --debootstrap`.

Needs to be root, and debootstrap. The mirror is that of this machine's apt, or else debootstrap's own.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from trial import ROOT, VERSION, claim, end, holds_a_lock, must, said, step


def archive():
    """The release of Debian that apt uses here, and its mirror."""
    lines = must("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Origin: Debian").splitlines()
    for line in lines:
        uri, release = line.split()
        if not release.endswith(("-updates", "-security", "-backports")):
            return release, uri
    # Ubuntu, for one.
    return ("stable",)


def main():
    """From an empty folder to a lock that is held, and back."""
    if os.geteuid() != 0:
        sys.exit("a fresh Debian needs root: sudo tests/dist/run --debootstrap")
    if not shutil.which("debootstrap"):
        sys.exit("debootstrap is not installed; install it: apt-get install debootstrap")
    packages = list((ROOT / "dist").glob(f"leasehold_{VERSION}-1_*.deb"))
    if len(packages) != 1:
        sys.exit(f"dist/ has no leasehold_{VERSION}-1_*.deb; build it: make dist")
    with tempfile.TemporaryDirectory(prefix="debian-") as name:
        root = pathlib.Path(name)
        root.chmod(0o755)
        release, *mirror = archive()
        step(f"A fresh Debian, {release}.")
        must("debootstrap", "--variant=minbase", release, root, *mirror, timeout=None)
        claim(True, "debootstrap has made it")
        must("mount", "-t", "proc", "proc", root / "proc")
        try:
            install(root, packages[0])
        finally:
            subprocess.run(["umount", str(root / "proc")], check=True)
    end()


def install(root, package):
    """apt installs, a lock is held, apt removes."""
    step(f"apt-get install ./{package.name}")
    shutil.copy(package, root / "tmp")
    chroot = ["chroot", root]
    apt = [*chroot, "apt-get", "--yes", "--quiet", "--no-install-recommends"]
    must(*apt, "install", f"/tmp/{package.name}")
    claim(must(*chroot, "leasehold", "--version") == f"leasehold {VERSION}", "the program is installed")
    status = must(*chroot, "dpkg-query", "--show", "--showformat", "${Status} ${Version}", "leasehold")
    claim(status == f"install ok installed {VERSION}-1", f"dpkg says: {status}")
    claim(not list((root / "etc/systemd/system").rglob("leasehold*")), "the service is not enabled")
    claim(must(*chroot, "dpkg", "--verify", "leasehold") == "", "every file is as in the package")
    configuration = root / "etc/leasehold/leasehold.toml"
    shown = must(*chroot, "leasehold", "serve", "--config", "/etc/leasehold/leasehold.toml", "--print-config")
    claim("store.kind" in shown or "[store]" in shown, "its configuration is valid")

    step("A lock.")
    (root / "srv/lock").mkdir()
    holds_a_lock([*chroot, "leasehold"], root / "srv/lock", inside="/srv/lock")

    step("An upgrade keeps the configuration; removing the package, too, and purging it does not.")
    configuration.write_text('[host_id]\nhost_type = "orders-worker"\n')
    must(*apt, "install", "--reinstall", "-o", "Dpkg::Options::=--force-confdef", f"/tmp/{package.name}")
    claim("orders-worker" in configuration.read_text(), "an upgrade keeps what was changed")
    must(*apt, "remove", "leasehold")
    claim("orders-worker" in configuration.read_text() and not (root / "usr/bin/leasehold").exists(), "removing keeps it, too")
    must(*apt, "purge", "leasehold")
    claim(not configuration.exists(), "purging removes it")
    folders = ("etc", "usr", "var/lib", "var/cache")
    left = [path for folder in folders for path in (root / folder).rglob("*leasehold*")]
    code, _ = said(*chroot, "dpkg-query", "--status", "leasehold")
    claim(code == 1 and not left, f"nothing is left {left}")


main()
