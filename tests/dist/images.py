"""The image's archive, as podman takes it."""

import json
import shutil
import tarfile

from trial import ROOT, VERSION, claim, clean_environment, must, step

CONTAINERS = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
"""


def podman(folder):
    """podman's environment with a storage of its own, which is thrown away."""
    (folder / "storage.conf").write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n')
    runtime = 'runtime = "runc"\n' if shutil.which("runc") and not shutil.which("crun") else ""
    (folder / "containers.conf").write_text(f'{CONTAINERS}tmp_dir = "{folder}/tmp"\n{runtime}')
    return clean_environment(
        CONTAINERS_CONF=str(folder / "containers.conf"), CONTAINERS_STORAGE_CONF=str(folder / "storage.conf")
    )


def check(dist, folder):
    """It is loaded, is what Containerfile describes, and runs."""
    step("The image: podman load")
    environment = podman(folder)
    (archive,) = dist.glob("leasehold-*-image.tar")
    name = f"localhost/leasehold:{VERSION}"
    loaded = must("podman", "load", "--quiet", "--input", archive, env=environment)
    claim(name in loaded, f"podman loads it: {loaded}")
    (found,) = json.loads(must("podman", "image", "inspect", name, env=environment))
    config = found["Config"]
    claim((config["User"], config["Entrypoint"], config["Cmd"]) == ("65532:65532", ["/leasehold"], ["serve"]), "user, entry point and command")
    labels = {key.removeprefix("org.opencontainers.image."): value for key, value in config["Labels"].items()}
    claim(labels["version"] == VERSION and labels["title"] == "Leasehold" and len(labels) == 9, f"its labels: {sorted(labels)}")

    # The same by podman from Containerfile, of the same program.
    program, tag = folder / "program", "localhost/leasehold:by-containerfile"
    packed = files(name, folder, environment)
    program.write_bytes(packed["leasehold"][-1])
    program.chmod(0o755)
    given = environment | {"LEASEHOLD_IMAGE_PROGRAM": str(program)}
    must("sh", "tests/tools/build-image.sh", tag, cwd=ROOT, env=given, timeout=None)
    (other,) = json.loads(must("podman", "image", "inspect", tag, env=environment))
    same = ("User", "Entrypoint", "Cmd", "Labels", "Env")
    theirs = {key: other["Config"].get(key) for key in same}
    theirs["Labels"] = {key: value for key, value in theirs["Labels"].items() if not key.startswith("io.buildah.")}
    ours = {key: config.get(key) for key in same}
    claim(ours == theirs, f"podman builds the same from Containerfile {'' if ours == theirs else (ours, theirs)}")
    claim(len(packed) == 2 and packed == files(tag, folder, environment), f"with the same files: {sorted(packed)}")
    run = ["podman", "run", "--rm", "--network=none", name, "--version"]
    claim(must(*run, env=environment) == f"leasehold {VERSION}", "and its program runs in a container")


def files(image, folder, environment):
    """Every file of an image: its mode, whose it is, and what is in it."""
    container = must("podman", "create", image, env=environment)
    exported = folder / "exported.tar"
    must("podman", "export", "--output", exported, container, env=environment)
    must("podman", "rm", container, env=environment)
    with tarfile.open(exported) as tar:
        regular = [member for member in tar if member.isfile() and member.size]
        return {one.name: (one.mode, one.uid, one.gid, tar.extractfile(one).read()) for one in regular}
