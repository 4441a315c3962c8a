"""The sidecar in manifests that others write: by Kustomize, by a policy, in a chart of their own. `static.py` runs it."""

import copy
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

import refusals
from documentation import blocks
from rendering import CHART, HELM, ROOT, containers, documents, helm, pod_specification, render

COMPONENT = ROOT / "packaging/kustomize/sidecar"
POLICY = ROOT / "packaging/kustomize/injection"
SCHEMAS = str(ROOT / "tests/chart/schemas/{{.ResourceKind}}{{.KindSuffix}}.json")

# What a team has, before it knows of Leasehold.
POD = {
    "initContainers": [{"name": "migrate", "image": "registry.example/keeper:1.2.3", "args": ["--migrate"]}],
    "containers": [{"name": "keeper", "image": "registry.example/keeper:1.2.3", "ports": [{"containerPort": 8080}]}],
    "volumes": [{"name": "scratch", "emptyDir": {}}],
}
TEMPLATE = {"metadata": {"labels": {"app": "keeper"}}, "spec": POD}
SELECTOR = {"matchLabels": {"app": "keeper"}}
WORKLOADS = [
    {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "keeper"}, "spec": {"selector": SELECTOR, "template": TEMPLATE}},
    {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "stock"},
        "spec": {"serviceName": "stock", "selector": SELECTOR, "template": TEMPLATE},
    },
    {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "once"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": POD["containers"]}}},
    },
]


def kustomize(folder):
    """What `kubectl apply -k` would apply."""
    done = subprocess.run([ROOT / ".tools/bin/kustomize", "build", folder], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


def named(name):
    """The block of the page that is this file."""
    (block,) = (text for text in blocks("yaml") if text.startswith(f"# {name}\n"))
    return block


def taken(text):
    """What Kubernetes' schemas say against the objects of a text."""
    command = [ROOT / ".tools/bin/kubeconform", "-strict", "-schema-location", SCHEMAS, "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


def by_name(entries):
    """A list of Kubernetes, in which order means nothing, as a map."""
    return {entry["name"]: entry for entry in entries}


def charts_sidecar():
    """The same sidecar as the chart has it: container, and volumes by name."""
    store = yaml.safe_load(named("values.yaml"))["leasehold"]["store"]
    values = {**refusals.BASE, "store": json.dumps(store), "listen.kind": '"tcp"'}
    deployment = next(one for one in documents(render(values)) if one["kind"] == "Deployment")
    pod = pod_specification(deployment)
    return containers(pod)["leasehold"], by_name(pod["volumes"])


class Component(unittest.TestCase):
    """The page's kustomization beside workloads that know nothing of it."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "kustomization.yaml").write_text(named("kustomization.yaml"), encoding="utf-8")
            pathlib.Path(folder, "deployment.yaml").write_text(yaml.safe_dump_all(WORKLOADS), encoding="utf-8")
            shutil.copytree(COMPONENT, pathlib.Path(folder, "leasehold"))
            cls.text = kustomize(folder)
        cls.made = {document["kind"]: document for document in documents(cls.text)}

    def test_kubernetes_takes_it(self):
        self.assertEqual({"ConfigMap", "Deployment", "StatefulSet", "Job"}, set(self.made))
        self.assertEqual("", taken(self.text))

    def test_what_was_there_stays_as_it_was(self):
        for before in WORKLOADS:
            after = copy.deepcopy(self.made[before["kind"]])
            pod = pod_specification(after)
            for part in ("initContainers", "volumes"):
                pod[part] = [one for one in pod[part] if not one["name"].startswith("leasehold")]
                if not pod[part]:
                    del pod[part]
            self.assertEqual(before, after)

    def test_the_sidecar_is_the_chart_s(self):
        charts, volumes = charts_sidecar()
        for workload in WORKLOADS:
            pod = pod_specification(self.made[workload["kind"]])
            ours = containers(pod)["leasehold"]
            for part in ("args", "restartPolicy", "imagePullPolicy", "startupProbe", "livenessProbe", "resources", "securityContext"):
                self.assertEqual(charts[part], ours[part], part)
            self.assertEqual(set(charts) - set(ours), {"readinessProbe"})
            charts_env = by_name(charts["env"])
            self.assertIn("LEASEHOLD_DRAIN_HAND_OVER", by_name(ours["env"]))
            for name, entry in by_name(ours["env"]).items():
                self.assertEqual(charts_env[name], entry)
            self.assertEqual(volumes["leasehold-probes"], by_name(pod["volumes"])["leasehold-probes"])
            self.assertEqual({mount["name"] for mount in ours["volumeMounts"]}, {"leasehold-probes", "leasehold-store"})

    def test_clients_find_it_without_a_variable(self):
        rows = re.findall(r"(?m)^\| `listen.tcp` \|.*\| `([^`]*)` \|$", (ROOT / "docs/configuration.md").read_text(encoding="utf-8"))
        self.assertEqual(["127.0.0.1:50951"], rows)
        for workload in WORKLOADS:
            ours = containers(pod_specification(self.made[workload["kind"]]))["leasehold"]
            self.assertFalse({"LEASEHOLD_LISTEN_TCP", "LEASEHOLD_LISTEN_UNIX"} & set(by_name(ours["env"])))

    def test_its_settings_are_known_and_reach_it(self):
        settings = self.made["ConfigMap"]
        page = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
        known = {f"LEASEHOLD_{name.replace('.', '_').upper()}" for name in re.findall(r"(?m)^\| `([a-z_.]+)` \|", page)}
        self.assertEqual(set(), set(settings["data"]) - known)
        ours = containers(pod_specification(self.made["Deployment"]))["leasehold"]
        self.assertEqual([{"configMapRef": {"name": settings["metadata"]["name"]}}], ours["envFrom"])
        (mounted,) = (mount["mountPath"] for mount in ours["volumeMounts"] if mount["name"] == "leasehold-store")
        self.assertTrue(settings["data"]["LEASEHOLD_STORE_AZURE_CONNECTION_STRING_FILE"].startswith(f"{mounted}/"))
        self.assertEqual("registry.example/leasehold", ours["image"].rsplit(":", 1)[0])


def plain(expression):
    """The values of a JSON patch in CEL, whose literals are YAML without the names of their types."""
    untyped = re.sub(r"Object[.\w]*\{", "{", expression).replace('object.metadata.annotations["leasehold.dev/host-type"]', '"HOST-TYPE"')
    found = re.findall(r'JSONPatch\{op: "add", path: "/spec/([\w/-]+)", value: (\{.*?\n\})\}', re.sub(r"(?m)^  ", " ", untyped), re.S)
    return [(path, yaml.safe_load(value)) for path, value in found]


class Policy(unittest.TestCase):
    """The policy gives a pod what the component gives it."""

    maxDiff = None

    def setUp(self):
        self.text = kustomize(POLICY)
        self.policy = next(one for one in documents(self.text) if one["kind"] == "MutatingAdmissionPolicy")

    def test_kubernetes_takes_it(self):
        self.assertEqual("", taken(self.text))

    def test_it_adds_the_component_s_sidecar(self):
        pod = pod_specification(yaml.safe_load((COMPONENT / "sidecar.yaml").read_text(encoding="utf-8")))
        (mutation,) = self.policy["spec"]["mutations"]
        added = plain(mutation["jsonPatch"]["expression"])
        self.assertEqual(["volumes/-", "volumes/-", "initContainers/0"], [path for path, _ in added])
        self.assertEqual(pod["volumes"], [value for path, value in added if path == "volumes/-"])
        (sidecar,) = copy.deepcopy(pod["initContainers"])
        sidecar["env"].append({"name": "LEASEHOLD_HOST_ID_HOST_TYPE", "value": "HOST-TYPE"})
        self.assertEqual(sidecar, added[-1][1])

    def test_the_page_s_annotation_is_its_own(self):
        (condition,) = (one for one in self.policy["spec"]["matchConditions"] if one["name"] == "has-the-annotation")
        self.assertIn('"leasehold.dev/host-type" in object.metadata.annotations', condition["expression"])
        self.assertTrue(any('{"leasehold.dev/host-type": "keeper"}' in block for block in blocks("sh")))


class OwnChart(unittest.TestCase):
    """The three files of `In a chart of your own`, word for word."""

    def test_it_renders_and_kubernetes_takes_it(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(CHART, pathlib.Path(folder, "leasehold"))
            chart = pathlib.Path(folder, "keeper")
            for name in ("Chart.yaml", "values.yaml", "templates/deployment.yaml"):
                file = chart / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(named(name), encoding="utf-8")
            subprocess.run([HELM, "dependency", "update", chart], capture_output=True, check=True)
            text = helm("template", "keeper", str(chart))
        self.assertEqual("", taken(text))
        (deployment,) = documents(text)
        pod = pod_specification(deployment)
        sidecar = containers(pod)["leasehold"]
        self.assertEqual("registry.example/leasehold", sidecar["image"].rsplit(":", 1)[0])
        settings = {entry["name"]: entry.get("value") for entry in sidecar["env"]}
        self.assertEqual("azure", settings["LEASEHOLD_STORE_KIND"])
        # The Secret is for the group that the pod's security context gives to its volumes.
        secret = by_name(pod["volumes"])["leasehold-credentials"]["secret"]
        self.assertEqual((0o440, sidecar["securityContext"]["runAsGroup"]), (secret["defaultMode"], pod["securityContext"]["fsGroup"]))
        application = containers(pod)["keeper"]
        endpoint = by_name(application["env"])["LEASEHOLD_ENDPOINT"]["value"]
        self.assertEqual(f"unix://{settings['LEASEHOLD_LISTEN_UNIX']}", endpoint)
        self.assertEqual({"leasehold-socket", "leasehold-program"}, {mount["name"] for mount in application["volumeMounts"]})
