"""What docs/kubernetes.md says to type, and the plain manifest: tests that `static.py` runs with its own."""

import json
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

import yaml

import refusals
from rendering import CHART, ROOT, documents, helm, render

PAGE = ROOT / "docs/kubernetes.md"
MANIFEST = ROOT / "docs/samples/kubernetes.yaml"
# A job on a schedule, beside a stand-alone Leasehold.
SCHEDULED = ROOT / "docs/samples/scheduled.yaml"
# What people put in for themselves.
VARIABLES = {"$CLIENT_ID": "00000000-0000-0000-0000-000000000001"}
# The same for the chart as the manifest says by itself.
VALUES = {
    "fullnameOverride": '"keeper"',
    "hostType": '"Keeper"',
    "image.repository": '"localhost/leasehold"',
    "store": '{"kind": "azure", "azure": {"signIn": "connection_string",'
    ' "existingSecret": {"name": "storage", "key": "connection-string"}}}',
    "app.replicas": "3",
    "app.image": '"docker.io/library/busybox:1.37"',
    "app.installProgram.enabled": "true",
    "app.command": '["/opt/leasehold/leasehold", "run", "--function", "nightly", "--wait", "forever", "--"]',
    "app.args": json.dumps(["sh", "-c", 'while true; do echo "working with token $LEASEHOLD_FENCING_TOKEN"; sleep 5; done']),
}


def blocks(language):
    """The code blocks of a language, without their indentation."""
    found = re.findall(rf"(?ms)^( *)```{language}\n(.*?)^ *```$", PAGE.read_text(encoding="utf-8"))
    return ["".join(line.removeprefix(indent) for line in text.splitlines(True)) for indent, text in found]


def here(word, folder):
    """A word of a command, with the paths and variables of this test."""
    if word == "helm/leasehold" or word.startswith("helm/leasehold/"):
        return str(CHART) + word.removeprefix("helm/leasehold")
    if word.endswith(".yaml"):
        return str(pathlib.Path(folder) / word)
    for name, value in VARIABLES.items():
        word = word.replace(name, value)
    return word


class Documentation(unittest.TestCase):
    """What stands there can be done."""

    def commands(self):
        """The installations, as words."""
        lines = "\n".join(blocks("sh")).replace("\\\n", " ").splitlines()
        found = [shlex.split(line, comments=True) for line in lines]
        return [words for words in found if words[:2] in (["helm", "install"], ["helm", "upgrade"])]

    def test_every_installation_renders(self):
        self.assertGreaterEqual(len(self.commands()), 6)
        with tempfile.TemporaryDirectory() as folder:
            for block in blocks("yaml"):
                named = re.match(r"# (\w+\.yaml)\n", block)
                if named:
                    (pathlib.Path(folder) / named[1]).write_text(block, encoding="utf-8")
            for words in self.commands():
                arguments = [here(word, folder) for word in words[2:] if word != "--install"]
                with self.subTest(" ".join(words)):
                    kinds = {document["kind"] for document in documents(helm("template", *arguments))}
                    self.assertIn("Deployment", kinds)

    def test_the_first_example_needs_no_image_of_the_reader_s(self):
        first = self.commands()[0]
        self.assertIn("helm/leasehold/ci/try-out-values.yaml", first)
        text = render(CHART / "ci/try-out-values.yaml")
        images = set(re.findall(r'image: "?([^"\n]+)', text))
        version = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"]
        built = f"localhost/leasehold:{version}"
        self.assertEqual({"docker.io/library/busybox:1.37", built}, images)
        self.assertIn(["sh", "tests/tools/build-image.sh", built], [shlex.split(line) for line in blocks("sh")[0].splitlines()])
        # A name of the deployment that is asked for the log and the rollout.
        self.assertIn("name: keeper-a-leasehold\n", text)


def defaults():
    """The program's own, by variable, as docs/configuration.md has them."""
    page = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| `([a-z_.]+)` \|.*\| `([^`|]*)`[^|]*\|$", page)
    return {f"LEASEHOLD_{name.replace('.', '_').upper()}": value for name, value in rows}


class Manifest(unittest.TestCase):
    """The manifest without Helm is what the chart installs."""

    maxDiff = None

    def comparable(self, document):
        """Without what Helm adds, and with variables by their names."""
        metadata = document["metadata"]
        metadata.pop("labels", None)
        metadata.pop("namespace", None)
        template = document.get("spec", {}).get("template")
        if template:
            for container in template["spec"]["initContainers"] + template["spec"]["containers"]:
                variables = {entry.pop("name"): entry for entry in container.get("env", [])}
                own = defaults() if container["name"] == "leasehold" else {}
                container["env"] = {n: e for n, e in variables.items() if "value" not in e or own.get(n) != e["value"]}
        return document

    def test_it_is_the_chart_s(self):
        manifest = [self.comparable(one) for one in documents(MANIFEST.read_text(encoding="utf-8"))]
        rendered = [self.comparable(one) for one in documents(render(VALUES, release="keeper"))]
        rendered = [one for one in rendered if one["kind"] != "Pod"]
        self.assertEqual([one["kind"] for one in manifest], [one["kind"] for one in rendered])
        for ours, charts in zip(manifest, rendered):
            self.assertEqual(charts, ours)

    def test_kubernetes_takes_it(self):
        schemas = str(ROOT / "tests/chart/schemas/{{.ResourceKind}}{{.KindSuffix}}.json")
        command = [ROOT / ".tools/bin/kubeconform", "-strict", "-schema-location", schemas, str(MANIFEST), str(SCHEDULED)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual((0, ""), (done.returncode, done.stdout), done.stderr)

    def test_the_scheduled_one_calls_the_stand_alone_one(self):
        (manifest,) = documents(SCHEDULED.read_text(encoding="utf-8"))
        command = manifest["spec"]["template"]["spec"]["containers"][0]["command"]
        endpoint = command[command.index("--endpoint") + 1]
        values = {**refusals.BASE, **refusals.STANDALONE, "fullnameOverride": '""'}
        service = next(one for one in documents(render(values, release="locks")) if one["kind"] == "Service")
        port = service["spec"]["ports"][0]["port"]
        self.assertEqual(f"https://{service['metadata']['name']}.NAMESPACE.svc:{port}", endpoint)
        # The same schedule as the chart's own example.
        (block,) = (text for text in blocks("yaml") if text.startswith("# report.yaml\n"))
        app = yaml.safe_load(block)["app"]
        self.assertEqual(app["schedule"]["expression"], command[2])
        self.assertEqual(app["schedule"]["function"], command[command.index("--function") + 1])
        self.assertEqual(app["command"], command[command.index("--") + 1 :])

    def test_the_rule_for_its_client_is_taken(self):
        (block,) = (text for text in blocks("yaml") if text.startswith("# access.yaml\n"))
        access = json.dumps(yaml.safe_load(block)["standalone"]["access"])
        self.assertIn("nightly-report", render({**refusals.BASE, **refusals.STANDALONE, "standalone.access": access}))
