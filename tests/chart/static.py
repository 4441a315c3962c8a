#!/usr/bin/env python3
"""What can be said about the chart without running it: `tests/chart/run static`.

LEASEHOLD_TEST_UPDATE=1 writes the snapshots anew.
"""

import difflib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

import refusals
from beside import Component, OwnChart, Policy  # noqa: F401  (tests of their own)
from dashboard import Dashboard, Queries  # noqa: F401  (tests of their own)
from documentation import Documentation, Manifest  # noqa: F401  (tests of their own)
from installed import Identity, Network, Rules, Schedule, Sharing, Test, Upgrades, Users  # noqa: F401  (tests of their own)
from rendering import CHART, ROOT, Refused, cases, containers, documents, helm, including_chart, notes, pod_specification, render

SNAPSHOTS = ROOT / "tests/chart/snapshots"
SCHEMAS = str(ROOT / "tests/chart/schemas/{{.ResourceKind}}{{.KindSuffix}}.json")
KUBECONFORM = ROOT / ".tools/bin/kubeconform"

# What the policy checker may find, and why that is as it has to be: check, kinds it is left open for, reason.
EXCEPTIONS = [
    ("CKV_K8S_11", ".*", "a limit on CPU throttles the sidecar, which then renews late; the application's is its own"),
    ("CKV_K8S_15", ".*", "images are pulled once; who moves tags sets pullPolicy, who does not gives digests"),
    ("CKV_K8S_35", r"\w+\.jobs\.keeper-a-leasehold(-test)?", "headers of traces, which are no setting that has a file"),
    ("CKV_K8S_43", ".*", "digests are values; the default is the chart's own version"),
    ("CKV_K8S_8", ".*", "the application's own probe; the checker does not see native sidecars'"),
    ("CKV_K8S_9", ".*", "the application's own probe; the checker does not see native sidecars'"),
]


class Snapshots(unittest.TestCase):
    """What is rendered is what was looked at."""

    maxDiff = None

    def compare(self, name, text):
        """Compares with the snapshot of this name, or writes it."""
        file = SNAPSHOTS / f"{name}.yaml"
        if os.environ.get("LEASEHOLD_TEST_UPDATE"):
            file.write_text(text, encoding="utf-8")
        known = file.read_text(encoding="utf-8") if file.exists() else ""
        difference = "\n".join(difflib.unified_diff(known.splitlines(), text.splitlines(), str(file), "rendered", lineterm=""))
        self.assertEqual("", difference, "look at it, then run with LEASEHOLD_TEST_UPDATE=1")

    def test_each_example_renders_its_snapshot(self):
        self.assertGreaterEqual(len(cases()), 6)
        for name, file in cases():
            with self.subTest(name):
                self.compare(name, render(file))

    def test_a_chart_that_includes_the_templates_renders_its_snapshot(self):
        with tempfile.TemporaryDirectory() as folder:
            text = render({}, chart=including_chart(folder))
        self.assertEqual(["Deployment"], [document["kind"] for document in documents(text)])
        self.compare("including", text)

    def test_no_snapshot_is_left_over(self):
        names = {name for name, _ in cases()} | {"including"}
        self.assertEqual(names, {file.stem for file in SNAPSHOTS.glob("*.yaml")})


class Checkers(unittest.TestCase):
    """What others' tools say."""

    def test_lint_has_nothing_to_say(self):
        for name, file in cases():
            with self.subTest(name):
                helm("lint", "--strict", str(CHART), "--values", str(file))

    def test_the_objects_are_what_kubernetes_takes(self):
        for name, file in cases():
            with self.subTest(name):
                command = [KUBECONFORM, "-strict", "-summary", "-output", "json", "-schema-location", SCHEMAS, "-"]
                done = subprocess.run(command, input=render(file), capture_output=True, text=True, check=False)
                self.assertEqual(0, done.returncode, done.stdout + done.stderr)
                summary = json.loads(done.stdout)["summary"]
                self.assertGreater(summary["valid"], 2)
                self.assertEqual((0, 0, 0), (summary["invalid"], summary["errors"], summary["skipped"]))

    def test_the_policy_checker_finds_reasoned_exceptions_only(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, file in cases():
                (pathlib.Path(folder) / f"{name}.yaml").write_text(render(file), encoding="utf-8")
            checkov = ROOT / ".tools/checkov/bin/checkov"
            command = [checkov, "--directory", folder, "--framework", "kubernetes", "--output", "json", "--soft-fail", "--quiet"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        report = json.loads(done.stdout)
        self.assertGreater(report["summary"]["passed"], 500)
        self.assertEqual(0, report["summary"]["parsing_errors"])
        found = {(check["check_id"], check["resource"], check["check_name"]) for check in report["results"]["failed_checks"]}

        def excused(check, resource):
            return any(check == known and re.fullmatch(kinds, resource) for known, kinds, _ in EXCEPTIONS)

        self.assertEqual([], sorted(finding for finding in found if not excused(finding[0], finding[1])))
        stale = [exception for exception in EXCEPTIONS if exception[0] not in {check for check, _, _ in found}]
        self.assertEqual([], stale, "exceptions that nothing needs")


class Refusals(unittest.TestCase):
    """What is wrong is refused, with words that help."""

    def refused(self, table, mark):
        for values, words in table:
            with self.subTest(values=values):
                with self.assertRaises(Refused) as caught:
                    render({**refusals.BASE, **values})
                self.assertIn(mark, str(caught.exception))
                self.assertIn(words, str(caught.exception))

    def test_a_value_that_is_wrong_by_itself(self):
        self.refused(refusals.BY_SCHEMA, "values don't meet the specifications of the schema")

    def test_values_that_contradict_each_other(self):
        self.refused(refusals.BY_TEMPLATE, "contradict each other")

    def test_all_contradictions_are_told_at_once(self):
        with self.assertRaises(Refused) as caught:
            render({"app.replicas": "3", "drain.period": '"10m"', "hostId.provider": '"static"'})
        self.assertEqual(4, str(caught.exception).count("\n  - "))

    def test_what_they_are_made_from_is_taken(self):
        for base in ({}, refusals.AZURE, refusals.SECRET, refusals.SCHEDULE, refusals.STANDALONE):
            render({**refusals.BASE, **base})


class Pods(unittest.TestCase):
    """What holds for every pod that the chart makes."""

    def each(self):
        """Name, pod and sidecar of every pod of every example."""
        for name, file in cases():
            for document in documents(render(file)):
                pod = pod_specification(document)
                if pod:
                    with self.subTest(example=name, kind=document["kind"]):
                        yield name, pod, containers(pod)

    def test_no_container_may_do_anything(self):
        for _, pod, all_containers in self.each():
            self.assertIs(False, pod["automountServiceAccountToken"])
            self.assertEqual("RuntimeDefault", pod["securityContext"]["seccompProfile"]["type"])
            self.assertIs(True, pod["securityContext"]["runAsNonRoot"])
            for container in all_containers.values():
                context = container["securityContext"]
                self.assertIs(True, context["readOnlyRootFilesystem"])
                self.assertIs(False, context["allowPrivilegeEscalation"])
                self.assertEqual(["ALL"], context["capabilities"]["drop"])

    def test_liveness_and_start_never_depend_on_the_store(self):
        for _, _, all_containers in self.each():
            if "leasehold" not in all_containers:
                continue
            for probe in ("livenessProbe", "startupProbe"):
                command = all_containers["leasehold"][probe]["exec"]["command"]
                self.assertEqual(["/leasehold", "probe", "--live"], command[:3])
            if "readinessProbe" in all_containers["leasehold"]:
                self.assertEqual("probe", all_containers["leasehold"]["readinessProbe"]["exec"]["command"][1])

    def test_what_serves_stays_in_its_services_during_an_outage_of_the_store(self):
        for name, file in cases():
            serves = bool(yaml.safe_load(pathlib.Path(file).read_text(encoding="utf-8")).get("app", {}).get("ports"))
            for pod in filter(None, map(pod_specification, documents(render(file)))):
                sidecar = containers(pod).get("leasehold")
                if sidecar:
                    self.assertEqual(not serves, "readinessProbe" in sidecar, name)

    def test_the_application_is_told_where_the_sidecar_is(self):
        for _, _, all_containers in self.each():
            if "app" not in all_containers:
                continue
            endpoint = next(e["value"] for e in all_containers["app"]["env"] if e["name"] == "LEASEHOLD_ENDPOINT")
            settings = {e["name"]: e.get("value") for e in all_containers["leasehold"]["env"]}
            listens = [f"unix://{settings.get('LEASEHOLD_LISTEN_UNIX')}", f"http://{settings['LEASEHOLD_LISTEN_TCP']}"]
            self.assertIn(endpoint, listens)
            mounted = {mount["mountPath"] for mount in all_containers["app"].get("volumeMounts", [])}
            self.assertEqual(endpoint.startswith("unix:"), "/run/leasehold" in mounted)

    def test_only_the_sidecar_gets_the_store_s_secret(self):
        for _, pod, all_containers in self.each():
            for container in all_containers.values():
                mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
                # The pod of `helm test` asks the store itself.
                if container["name"] not in ("leasehold", "test"):
                    self.assertFalse(mounted & {"leasehold-credentials", "leasehold-state", "leasehold-tls"})
            names = {volume["name"] for volume in pod.get("volumes", [])}
            used = {mount["name"] for c in all_containers.values() for mount in c.get("volumeMounts", [])}
            self.assertEqual(names, used)

    def test_the_sidecar_is_native_unless_told_otherwise(self):
        for name, pod, _ in self.each():
            initial = pod.get("initContainers", [])
            native = [container["name"] for container in initial if container.get("restartPolicy") == "Always"]
            plain = name == "standalone" or (name == "connection-string" and pod.get("restartPolicy") != "Never")
            self.assertEqual([] if plain else ["leasehold"], native)

    def test_s15_a_sidecar_that_is_started_again_hands_its_holds_over(self):
        for name, pod, all_containers in self.each():
            # The pod of `helm test` has the sidecar of the application's pod, and no holder but its test.
            if "leasehold" not in all_containers or "test" in all_containers:
                continue
            sidecar = all_containers["leasehold"]
            settings = {e["name"]: e.get("value") for e in sidecar["env"]}
            # A plain one in a pod that ends is stopped together with its holders, and nothing follows.
            follows = sidecar.get("restartPolicy") == "Always" or name == "standalone"
            self.assertEqual("true" if follows else None, settings.get("LEASEHOLD_DRAIN_HAND_OVER"))

    def test_a_plain_sidecar_answers_before_the_application_starts(self):
        for name, pod, _ in self.each():
            if name == "connection-string" and pod.get("restartPolicy") != "Never":
                # The kubelet starts containers in their order, each after the postStart of the one before it.
                self.assertEqual(["leasehold", "app"], [container["name"] for container in pod["containers"]])
                started = pod["containers"][0]["lifecycle"]["postStart"]["exec"]["command"]
                self.assertEqual(["/leasehold", "probe", "--live", "--wait", "30s"], started[:5])


class Words(unittest.TestCase):
    """What is written beside the chart is true."""

    def test_every_value_is_described_and_known_to_the_schema(self):
        schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
        values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))

        def compare(value, part, path):
            if "properties" not in part:
                return
            self.assertIs(False, part.get("additionalProperties"), path)
            self.assertEqual(set(part["properties"]), set(value), path)
            for name, inner in part["properties"].items():
                compare(value[name], inner, f"{path}.{name}")

        compare(values, schema, "values")

    def test_every_alert_is_explained(self):
        rules = (CHART / "templates/prometheus-rule.yaml").read_text(encoding="utf-8")
        page = (ROOT / "docs/kubernetes.md").read_text(encoding="utf-8")
        for alert in re.findall(r"alert: (\w+)", rules):
            self.assertIn(f"| `{alert}` |", page)

    def test_the_notes_say_that_the_embedded_store_is_for_trying_out(self):
        said = notes(refusals.BASE)
        self.assertIn("FOR TRYING OUT ONLY", said)
        self.assertIn("helm test keeper-a", said)
        self.assertNotIn("FOR TRYING OUT ONLY", notes({**refusals.BASE, **refusals.AZURE}))

    def test_the_schedule_is_in_the_notes(self):
        said = notes({**refusals.BASE, **refusals.SCHEDULE})
        self.assertIn("30 2 * * *, UTC, as nightly", said)
        self.assertIn("/leasehold schedule show -f nightly --endpoint unix:///run/leasehold/leasehold.sock", said)
        self.assertNotIn("schedule", notes(refusals.BASE))

    def test_the_chart_has_the_version_of_the_program(self):
        described = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
        cargo = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
        self.assertIn(f'\nversion = "{described["appVersion"]}"', cargo)


if __name__ == "__main__":
    unittest.main(verbosity=2)
    sys.exit()
