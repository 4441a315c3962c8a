"""Runs rendered pods in podman, and says what that changes about them.

podman 4 knows no native sidecars, no fsGroup, no probes without systemd and no Secrets as volumes. So:

- init containers become the first of the containers: they still start before the application, because each is
  started by itself, and one that is no sidecar has ended by then. They are stopped in the kubelet's order, too: a native
  sidecar when the other containers have ended;
- emptyDir and Secret volumes become folders of this machine, owned as `fsGroup` has it;
- the commands of the probes and of postStart are run by the demonstration itself;
- nobody restarts what died: the demonstration does what the kubelet would do, when it wants it;
- the pod's user and group are written into each container, for podman knows the pod's user only;
- resources are left out, for not every machine where this runs has cgroups for them.
"""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from datetime import datetime, timezone

import yaml

from rendering import documents, pod_specification, render

CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


def moment(text):
    """What a time in RFC 3339 is since the epoch."""
    day_and_time, fraction = text.rstrip("Z").split("+")[0].split(".")
    whole = datetime.fromisoformat(day_and_time).replace(tzinfo=timezone.utc).timestamp()
    return whole + float(f"0.{fraction}")


class Engine:
    """podman, with a storage of its own under a folder that can be thrown away."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        storage = f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
        (self.folder / "storage.conf").write_text(storage, encoding="utf-8")
        runtime = 'runtime = "runc"\n' if shutil.which("runc") and not shutil.which("crun") else ""
        # Nothing is shared with the podman of whoever runs this: neither its run-time folder nor its locks.
        own = f'tmp_dir = "{folder}/tmp"\nlock_type = "file"\n'
        (self.folder / "containers.conf").write_text(CONTAINERS_CONF + own + runtime, encoding="utf-8")
        self.environment = {
            **os.environ,
            "CONTAINERS_CONF": f"{folder}/containers.conf",
            "CONTAINERS_STORAGE_CONF": f"{folder}/storage.conf",
        }

    def run(self, *arguments, check=True, **options):
        """What podman, or with a path another program in podman's environment, prints."""
        command = arguments if arguments[0].startswith("/") or arguments[0] == "sh" else ("podman", *arguments)
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False, **options)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
        return done.stdout.strip() if check else done

    def logs(self):
        """What all containers wrote."""
        names = self.run("ps", "--all", "--format", "{{.Names}}", check=False).stdout.split()
        written = {name: self.run("logs", name, check=False) for name in names if not name.endswith("-infra")}
        return "\n".join(f"== {name}\n{done.stdout}{done.stderr}" for name, done in written.items())

    def close(self):
        """Ends and removes every pod and container of this storage; podman knows no others here."""
        self.run("pod", "rm", "--all", "--force", "--time", "1", check=False)
        self.run("rm", "--all", "--force", "--time", "1", check=False)
        if os.geteuid() != 0:
            # The images' folders belong to other users where podman runs without root.
            self.run("unshare", "rm", "-rf", f"{self.folder}/graph", check=False)


class Pod:
    """One pod of a release, as podman runs it."""

    def __init__(self, engine, release, values, secret, kind="Deployment"):
        self.engine, self.release, self.values = engine, release, values
        rendered = documents(render(values, release))
        workload = next(document for document in rendered if document["kind"] == kind)
        template = workload if kind == "Pod" else workload["spec"]["template"]
        self.name = f"{workload['metadata']['name']}-0"
        self.specification = pod_specification(workload)
        self.main = self.specification["containers"][-1]["name"]
        initial = self.specification.get("initContainers", [])
        self.preparing = [one["name"] for one in initial if one.get("restartPolicy") != "Always"]
        self.native = any(one["name"] == "leasehold" and one.get("restartPolicy") == "Always" for one in initial)
        self.group = self.specification["securityContext"]["fsGroup"]
        self.probes, self.post_start = {}, None
        manifest = {"apiVersion": "v1", "kind": "Pod"}
        manifest["metadata"] = {"name": self.name, "labels": template["metadata"]["labels"]}
        manifest["spec"] = self._for_podman(secret)
        self.file = engine.folder / f"{self.name}.yaml"
        self.file.write_text(yaml.safe_dump(manifest), encoding="utf-8")

    def _for_podman(self, secret):
        pod = self.specification
        containers = pod.get("initContainers", []) + pod["containers"]
        volumes = {volume["name"]: self._volume(volume, secret) for volume in pod["volumes"]}
        for container in containers:
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                if probe in container:
                    self.probes[probe] = container.pop(probe)["exec"]["command"]
            if "lifecycle" in container:
                self.post_start = container.pop("lifecycle")["postStart"]["exec"]["command"]
            container.pop("restartPolicy", None)
            container.pop("resources", None)
            for field in ("runAsUser", "runAsGroup"):
                container["securityContext"].setdefault(field, pod["securityContext"][field])
        return {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": pod["terminationGracePeriodSeconds"],
            "containers": containers,
            "volumes": list(volumes.values()),
        }

    def _volume(self, volume, secret):
        folder = self.engine.folder / "volumes" / self.name / volume["name"]
        folder.mkdir(parents=True)
        if "secret" in volume:
            (item,) = volume["secret"]["items"]
            (folder / item["path"]).write_text(secret, encoding="utf-8")
            (folder / item["path"]).chmod(volume["secret"]["defaultMode"])
            os.chown(folder / item["path"], 0, self.group)
        # As the kubelet makes it: the group of fsGroup, which what is made in it inherits.
        os.chown(folder, 0, self.group)
        folder.chmod(0o2770)
        return {"name": volume["name"], "hostPath": {"path": str(folder), "type": "Directory"}}

    def start(self):
        """Makes the pod; the sidecar is started first, the application when the sidecar's startup probe is content.

        Returns the seconds until /readyz said yes: from `podman start`, and from the start of the sidecar's process.
        """
        self.engine.run("kube", "play", "--network", "host", "--start=false", str(self.file))
        for name in self.preparing:
            self.start_container(name)
            if self.engine.run("wait", self.container(name)) != "0":
                raise RuntimeError(f"the init container {name} failed:\n" + "\n".join(self.log(name)))
        with concurrent.futures.ThreadPoolExecutor() as threads:
            ready = threads.submit(self.wait_until_ready)
            began = time.time()
            self.start_container("leasehold")
            # A plain sidecar's: the kubelet starts the next container when it has ended well.
            if self.post_start:
                self.engine.run("exec", self.container("leasehold"), *self.post_start)
            ready = ready.result()
        while self.probe("startupProbe") != 0:
            time.sleep(0.1)
        self.start_container(self.main)
        return ready - began, ready - self.process_start()

    def process_start(self):
        """When the sidecar's process started, to a hundredth of a second."""
        status = pathlib.Path(f"/proc/{self.inspect('leasehold')['State']['Pid']}/stat").read_text(encoding="utf-8")
        ticks = int(status.rsplit(")", 1)[1].split()[19])
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")

    def container(self, name):
        """podman's name of a container."""
        return f"{self.name}-{name}"

    def start_container(self, name):
        """Starts a container, or starts it again."""
        self.engine.run("start", self.container(name))

    def kill_container(self, name):
        """Kills a container as the kernel does that is short of memory."""
        self.engine.run("kill", "--signal", "KILL", self.container(name))

    def stop_container(self, name):
        """Stops a container as Kubernetes does: SIGTERM, and SIGKILL at the end of the grace period."""
        grace = str(self.specification["terminationGracePeriodSeconds"])
        self.engine.run("stop", "--time", grace, self.container(name))

    def stop(self):
        """Stops the pod in the kubelet's order: all at once, but a native sidecar last."""
        if self.native:
            self.stop_container(self.main)
            self.stop_container("leasehold")
        grace = str(self.specification["terminationGracePeriodSeconds"])
        self.engine.run("pod", "stop", "--time", grace, self.name)

    def inspect(self, name):
        """What podman says about a container."""
        return json.loads(self.engine.run("inspect", self.container(name)))[0]

    def log(self, name):
        """The lines that a container wrote."""
        done = self.engine.run("logs", self.container(name), check=False)
        return (done.stdout + done.stderr).splitlines()

    def events(self, message):
        """The sidecar's log lines of this message."""
        lines = [json.loads(line) for line in self.log("leasehold") if line.startswith("{")]
        return [line for line in lines if line["message"] == message]

    def probe(self, name):
        """The exit code of a probe's command in the sidecar's container."""
        return self.engine.run("exec", self.container("leasehold"), *self.probes[name], check=False).returncode

    def wait_until_ready(self):
        """When /readyz said yes, by the clock of this machine."""
        port = json.loads(self.values["admin.port"])
        end = time.time() + 60
        while time.time() < end:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1).close()
                return time.time()
            except (urllib.error.URLError, OSError):
                time.sleep(0.002)
        raise RuntimeError(f"{self.name} is not ready after 60 s:\n" + "\n".join(self.log("leasehold")))

    def resident(self):
        """The resident memory of the sidecar's process, in MiB."""
        status = pathlib.Path(f"/proc/{self.inspect('leasehold')['State']['Pid']}/status")
        line = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024
