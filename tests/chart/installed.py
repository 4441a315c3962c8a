"""What holds for what is installed: tests that `static.py` runs with its own."""

import contextlib
import json
import pathlib
import re
import shutil
import tempfile
import unittest

import yaml

import refusals
from rendering import CHART, ROOT, cases, containers, documents, including_chart, pod_specification, render

KINDS = {
    "Deployment": {},
    "StatefulSet": {},
    "Job": {},
    "CronJob": {"app.cronJob.schedule": '"0 3 * * *"'},
}
MONITORED = {"metrics.enabled": "true", "metrics.podMonitor.enabled": "true", "metrics.rules.enabled": "true"}


def one(values, kind, name=None, **options):
    """The object of a kind, and of a name if there are several, that is installed with these values."""
    found = [document for document in documents(render(values, **options)) if document["kind"] == kind]
    return next(document for document in found if name in (None, document["metadata"]["name"]))


@contextlib.contextmanager
def next_version():
    """The chart, as its next version will be: of other numbers, and with the same image."""
    with tempfile.TemporaryDirectory() as folder:
        chart = pathlib.Path(folder) / "leasehold"
        shutil.copytree(CHART, chart)
        described = (chart / "Chart.yaml").read_text(encoding="utf-8")
        text = re.sub("(?m)^(version|appVersion): .*$", r"\1: 9.9.9", described)
        (chart / "Chart.yaml").write_text(text, encoding="utf-8")
        yield chart


def immutable(document):
    """The fields that the Kubernetes API does not let anybody change."""
    specification = document.get("spec", {})
    if document["kind"] == "Job":
        return {field: specification.get(field) for field in ("completions", "selector", "template")}
    if document["kind"] in ("Deployment", "StatefulSet"):
        return {field: specification.get(field) for field in ("selector", "serviceName")}
    return {}


class Upgrades(unittest.TestCase):
    """`helm upgrade` changes what it may change, and replaces the rest."""

    def assert_upgrades(self, before, after):
        """What keeps its name keeps what cannot be changed."""
        names = {(document["kind"], document["metadata"]["name"]): document for document in before}
        for document in after:
            old = names.get((document["kind"], document["metadata"]["name"]))
            if old:
                self.assertEqual(immutable(old), immutable(document))

    def test_to_the_next_version_of_the_chart(self):
        for kind, values in KINDS.items():
            values = {**refusals.BASE, **values, "app.kind": f'"{kind}"'}
            with self.subTest(kind=kind), next_version() as chart:
                before, after = documents(render(values)), documents(render(values, chart=chart))
                self.assert_upgrades(before, after)
                pinned = {**values, "image.tag": '"1.2.3"'}
                before, after = one(pinned, kind), one(pinned, kind, chart=chart)
                self.assertEqual(before["metadata"]["name"], after["metadata"]["name"])
                self.assertEqual(before["spec"], after["spec"], "the version alone replaces no pod")

    def test_to_other_names(self):
        renamed = [{"nameOverride": '"keeper"'}, {"fullnameOverride": '"guard"'}, {"commonLabels": '{"team": "orders"}'}]
        for kind, values in KINDS.items():
            values = {**refusals.BASE, **values, "app.kind": f'"{kind}"'}
            for base in ({}, {"fullnameOverride": '"guard"'}):
                for changed in renamed:
                    with self.subTest(kind=kind, base=base, changed=changed):
                        before = documents(render({**values, **base}))
                        self.assert_upgrades(before, documents(render({**values, **base, **changed})))

    def test_a_job_that_runs_something_else_is_another_job(self):
        values = {**refusals.BASE, "app.kind": '"Job"'}
        name = one(values, "Job")["metadata"]["name"]
        self.assertLessEqual(len(one(values, "Job", release="r" * 53)["metadata"]["name"]), 63)
        for changed in ({"app.image": '"keeper:2"'}, {"app.job.completions": "2"}, {"locks.leaseDuration": '"30s"'}):
            self.assertNotEqual(name, one({**values, **changed}, "Job")["metadata"]["name"], changed)
        for changed in ({"app.job.backoffLimit": "5"}, {"test.enabled": "false"}):
            self.assertEqual(name, one({**values, **changed}, "Job")["metadata"]["name"], changed)


class Users(unittest.TestCase):
    """Who the containers run as, and what they may use."""

    def test_the_sidecar_s_user_is_a_value_and_may_come_in(self):
        values = {**refusals.BASE, "sidecar.runAsUser": "4711", "sidecar.runAsGroup": "815"}
        sidecar = containers(pod_specification(one(values, "Deployment")))["leasehold"]
        self.assertEqual((4711, 815), tuple(sidecar["securityContext"][f"runAs{who}"] for who in ("User", "Group")))
        allowed = one({**values, "listen.allowedUids": "[10001]"}, "Deployment")
        settings = {e["name"]: e.get("value") for e in containers(pod_specification(allowed))["leasehold"]["env"]}
        self.assertEqual("4711,10001", settings["LEASEHOLD_LISTEN_UNIX_ALLOWED_UIDS"])
        # As OpenShift wants it: it gives each namespace its users.
        values = {**refusals.BASE, "sidecar.runAsUser": "null", "sidecar.runAsGroup": "null"}
        context = containers(pod_specification(one(values, "Deployment")))["leasehold"]["securityContext"]
        self.assertEqual((True, False), (context["runAsNonRoot"], "runAsUser" in context))

    def test_it_listens_at_the_addresses_that_pods_have(self):
        for mode, values in (("standalone", refusals.STANDALONE), ("app", {**refusals.BASE, "metrics.enabled": "true"})):
            for address in ("0.0.0.0", "[::]"):
                pod = pod_specification(one({**values, "listen.address": f'"{address}"', "metrics.enabled": "true"}, "Deployment"))
                settings = {e["name"]: e.get("value") for e in containers(pod)["leasehold"]["env"]}
                self.assertEqual(f"{address}:50952", settings["LEASEHOLD_ADMIN_LISTEN"])
                if mode == "standalone":
                    self.assertEqual(f"{address}:50951", settings["LEASEHOLD_LISTEN_TCP"])

    def test_only_the_application_s_pod_gets_an_api_token_and_only_if_asked_for(self):
        for wanted in (False, True):
            values = {**refusals.BASE, "serviceAccount.automountToken": str(wanted).lower()}
            self.assertIs(wanted, pod_specification(one(values, "Deployment"))["automountServiceAccountToken"])
            self.assertIs(wanted, one(values, "ServiceAccount")["automountServiceAccountToken"])
            self.assertIs(False, one(values, "Pod")["spec"]["automountServiceAccountToken"])

    def test_an_ordinary_image_may_write_to_tmp(self):
        def mounts(values):
            pod = pod_specification(one({**refusals.BASE, **values}, "Deployment"))
            mounted = containers(pod)["app"].get("volumeMounts", [])
            self.assertLessEqual({mount["name"] for mount in mounted}, {volume["name"] for volume in pod["volumes"]})
            return [mount["name"] for mount in mounted if mount["mountPath"] == "/tmp"]

        self.assertEqual(["app-tmp"], mounts({}))
        self.assertEqual([], mounts({"app.tmp.enabled": "false"}))
        own = {"app.volumes": '[{"name": "own", "emptyDir": {}}]', "app.volumeMounts": '[{"name": "own", "mountPath": "/tmp"}]'}
        self.assertEqual(["own"], mounts(own))

    def test_the_program_is_copied_before_the_application_starts(self):
        for native in ("true", "false"):
            values = {**refusals.BASE, "app.installProgram.enabled": "true", "sidecar.native": native}
            pod = pod_specification(one(values, "Deployment"))
            first = pod["initContainers"][0]
            folder = first["volumeMounts"][0]["mountPath"]
            self.assertEqual(["install", folder], first["args"])
            app = containers(pod)["app"]
            self.assertIn({"name": "leasehold-program", "mountPath": folder, "readOnly": True}, app["volumeMounts"])


class Identity(unittest.TestCase):
    """Who gets the workload identity's token."""

    ANNOTATION = "azure.workload.identity/skip-containers"

    def annotation(self, template):
        """The containers without the token."""
        return template["metadata"].get("annotations", {}).get(self.ANNOTATION)

    def test_only_the_sidecar_gets_it(self):
        values = {**refusals.BASE, **refusals.AZURE, "app.installProgram.enabled": "true"}
        pod = one(values, "Deployment")["spec"]["template"]
        self.assertEqual("app;leasehold-program", self.annotation(pod))
        shared = one({**values, "store.azure.shareIdentityWithApp": "true"}, "Deployment")["spec"]["template"]
        self.assertIsNone(self.annotation(shared))

    def test_in_a_chart_that_includes_the_templates_as_well(self):
        with tempfile.TemporaryDirectory() as folder:
            template = one({}, "Deployment", chart=including_chart(folder))["spec"]["template"]
        self.assertEqual("keeper;leasehold-program", self.annotation(template))


class Sharing(unittest.TestCase):
    """What the application is told of its place among others (S33 to S35)."""

    def told(self, values):
        """The variables of the application's container, but for the endpoint."""
        app = containers(pod_specification(one({**refusals.BASE, **values}, "Deployment")))["app"]
        return {each["name"]: each["value"] for each in app["env"] if each["name"] != "LEASEHOLD_ENDPOINT"}

    def test_the_release_is_the_share_and_its_revision_the_priority(self):
        self.assertEqual({}, self.told({}))
        told = self.told(refusals.SHARING)
        self.assertEqual(("1", "true", "false"), tuple(told[f"LEASEHOLD_{name}"] for name in ("PRIORITY", "YIELDS", "REBALANCE")))
        self.assertNotEqual("", told["LEASEHOLD_SHARE"])

    def test_every_value_is_a_variable(self):
        values = {"sharing.priority": "2147483647", "sharing.share": '"queues"', "sharing.yields": "false"}
        told = self.told({**refusals.SHARING, **values})
        expected = {"PRIORITY": "2147483647", "YIELDS": "false", "SHARE": "queues", "REBALANCE": "false"}
        self.assertEqual({f"LEASEHOLD_{name}": value for name, value in expected.items()}, told)


class Schedule(unittest.TestCase):
    """The application's command on a schedule."""

    def application(self, values):
        """The application's container."""
        return containers(pod_specification(one({**refusals.BASE, **values}, "Deployment")))["app"]

    def test_the_command_is_started_when_it_is_due(self):
        values = {**refusals.SCHEDULE, "app.args": '["--all"]'}
        flags = ["--catch-up", "latest", "--overlap", "follow", "--retry", "3", "--revision", "1"]
        app = self.application(values)
        every = ["every", "30 2 * * *", "--function", "nightly", *flags, "--", "/report"]
        self.assertEqual((["leasehold", *every], ["--all"]), (app["command"], app["args"]))
        installed = {**values, "app.installProgram.enabled": "true", "app.installProgram.folder": '"/opt/own"'}
        self.assertEqual(["/opt/own/leasehold", *every], self.application(installed)["command"])
        own = {**installed, "app.schedule.program": '"/bin/leasehold"'}
        self.assertEqual(["/bin/leasehold", *every], self.application(own)["command"])
        self.assertEqual(["/report"], self.application({"app.command": '["/report"]'})["command"])

    def test_every_value_is_a_flag(self):
        changed = {
            "scope": ("seven", "--scope"),
            "timeZone": ("Europe/Copenhagen", "--tz"),
            "catchUp": ("all:100", "--catch-up"),
            "catchUpWindow": ("2d", "--catch-up-window"),
            "grace": ("5m", "--grace"),
            "overlap": ("skip", "--overlap"),
            "retry": (7, "--retry"),
            "backoff": ("1m30s", "--backoff"),
            "timeout": ("none", "--timeout"),
            "progressTimeout": ("5m", "--progress-timeout"),
            "spread": ("30s", "--spread"),
            "first": ("now", "--first"),
            "revision": (1234567, "--revision"),
        }
        known = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["app"]["schedule"]
        self.assertEqual(set(known), set(changed) | {"expression", "function", "extraArgs", "program"})
        page = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
        for name, (value, flag) in changed.items():
            if name != "scope":
                self.assertIn(f"`{flag} ", page)
            command = self.application({**refusals.SCHEDULE, f"app.schedule.{name}": json.dumps(value)})["command"]
            self.assertEqual(1, command.count(flag))
            self.assertEqual(str(value), command[command.index(flag) + 1])
            self.assertLess(command.index(flag), command.index("--"))
        more = self.application({**refusals.SCHEDULE, "app.schedule.extraArgs": '["--kill-after", "30s"]'})["command"]
        self.assertEqual(["--kill-after", "30s", "--", "/report"], more[-4:])

    def test_expressions_of_all_kinds_are_taken(self):
        page = (ROOT / "docs/schedules.md").read_text(encoding="utf-8")
        listed = page.split("## Expressions")[1].split("###")[0]
        expressions = re.findall(r"(?m)^\| `([^`]+)` \|", listed)
        self.assertGreater(len(expressions), 20)
        for expression in [*expressions, "90s", "1h30m"]:
            with self.subTest(expression):
                values = {**refusals.SCHEDULE, "app.schedule.expression": json.dumps(expression)}
                self.assertEqual(expression, self.application(values)["command"][2])

    def test_t23_a_schedule_is_a_label_only_when_configured(self):
        def settings(values):
            sidecar = containers(pod_specification(one({**refusals.BASE, **values}, "Deployment")))["leasehold"]
            return {e["name"]: e.get("value") for e in sidecar["env"]}

        self.assertNotIn("LEASEHOLD_ADMIN_SCHEDULE_LABELS", settings({}))
        self.assertEqual("true", settings({"admin.scheduleLabels": "true"})["LEASEHOLD_ADMIN_SCHEDULE_LABELS"])


class Rules(unittest.TestCase):
    """The alerts."""

    def rules(self, values, **options):
        """The alerts, by name."""
        groups = one({**refusals.BASE, **MONITORED, **values}, "PrometheusRule", **options)["spec"]["groups"]
        return {rule["alert"]: rule for group in groups for rule in group["rules"]}

    def selected(self, rules):
        """All matchers of all alerts, with those on labels of the metrics themselves left out."""
        own = ("reason", "outcome", "why")
        found = re.findall(r"\{([^}]*)\}", " ".join(rule["expr"] for rule in rules.values()))
        return {tuple(m for m in matchers.split(",") if not m.startswith(own)) for matchers in found}

    def test_they_are_about_this_release_only(self):
        (matchers,) = self.selected(self.rules({}))
        monitor = one({**refusals.BASE, **MONITORED}, "PodMonitor")["spec"]

        def series(release):
            """The labels that the PodMonitor gives to the metrics of a release's pods."""
            pod = one({**refusals.BASE, **MONITORED}, "Deployment", release=release)
            labels = pod["spec"]["template"]["metadata"]["labels"]
            named = {re.sub("[^a-zA-Z0-9_]", "_", name): labels[name] for name in monitor.get("podTargetLabels", [])}
            return {"namespace": "jobs", "pod": f"{pod['metadata']['name']}-5d8f9c7b6-x2x4z", **named}

        def matches(labels):
            for matcher in matchers:
                name, operator, value = re.fullmatch(r'(\w+)(=~|=)"(.*)"', matcher).groups()
                pattern = value if operator == "=~" else re.escape(value)
                if not re.fullmatch(pattern, labels.get(name, "")):
                    return False
            return True

        self.assertTrue(matches(series("keeper-a")))
        # Both names begin with that of the release: keeper-a-leasehold.
        self.assertFalse(matches(series("keeper-a-leasehold-b")))
        self.assertFalse(matches({**series("keeper-a"), "namespace": "others"}))

    def test_t23_gauges_of_schedules_are_not_added_up(self):
        gauges = "late", "failing", "silent"
        rules = self.rules({})
        for gauge in gauges:
            expression = rules[f"LeaseholdSchedule{gauge.title()}"]["expr"]
            # Each sidecar with subscribers shows the same.
            self.assertRegex(expression, rf"^max by \(namespace, job\) \(leasehold_schedules_{gauge}\{{[^}}]*\}}\) > 0$")

    def test_a_schedule_of_the_chart_s_that_nobody_subscribes_to_is_silent(self):
        expression = self.rules(refusals.SCHEDULE)["LeaseholdScheduleSilent"]["expr"]
        self.assertRegex(expression, r" or absent\(leasehold_schedules\{[^}]*\} > 0\)$")
        self.assertNotIn("absent", self.rules({})["LeaseholdScheduleSilent"]["expr"])

    def test_the_page_has_them_too(self):
        page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
        (block,) = re.findall("(?ms)^```yaml\n(groups:.*?)^```$", page)
        written = {rule["alert"]: rule for rule in yaml.safe_load(block)["groups"][0]["rules"]}
        # Its threshold depends on the lease duration.
        rules = {name: rule for name, rule in self.rules({}).items() if name != "LeaseholdValidityLow"}
        ((*matchers,),) = self.selected(rules)
        release = ",".join(matchers)

        def plain(rule):
            """What it says, without the release that it is about."""
            text = " ".join(rule["expr"].split()).replace(release + ",", "").replace("{" + release + "}", "")
            return text, rule.get("for"), rule["labels"]

        self.assertEqual({name: plain(rule) for name, rule in rules.items()}, {n: plain(r) for n, r in written.items()})

    def test_their_selector_is_a_value(self):
        values = {"metrics.podMonitor.enabled": "false", "metrics.rules.selector": '"job=\\"locks\\""'}
        self.assertEqual({('job="locks"',)}, self.selected(self.rules(values)))

    def test_each_has_a_severity_that_is_a_value(self):
        known = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["metrics"]["rules"]["severities"]
        self.assertEqual(known, {name: rule["labels"]["severity"] for name, rule in self.rules({}).items()})
        page = (ROOT / "docs/kubernetes.md").read_text(encoding="utf-8")
        self.assertEqual(known, dict(re.findall(r"(?m)^\| `(Leasehold\w+)` \| (\w+) \|", page)))
        for name in known:
            changed = self.rules({f"metrics.rules.severities.{name}": '"urgent"'})
            self.assertEqual([name], [other for other, rule in changed.items() if rule["labels"]["severity"] == "urgent"])
        self.assertLessEqual(set(known.values()), {"critical", "warning", "info"}, "as kube-prometheus routes them")

    def test_each_has_a_runbook_that_is_there(self):
        page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
        headings = {heading.lower() for heading in re.findall("(?m)^### (.*)$", page)}
        for name, rule in self.rules({}).items():
            url, _, anchor = rule["annotations"]["runbook_url"].partition("#")
            self.assertTrue(url.endswith("/docs/operations.md"), name)
            self.assertIn(anchor, headings, name)
        moved = self.rules({"metrics.rules.runbooks": '"https://wiki.example/locks"'})
        url = moved["LeaseholdLockLost"]["annotations"]["runbook_url"]
        self.assertEqual("https://wiki.example/locks#leaseholdlocklost", url)


class Network(unittest.TestCase):
    """The network policy lets through what is needed."""

    ENABLED = {"networkPolicy.enabled": "true"}

    def policy(self, values):
        """The policy with these values."""
        return one({**refusals.BASE, **values, **self.ENABLED}, "NetworkPolicy")["spec"]

    def targets(self, policy, port):
        """All peers that may be reached at a port."""
        rules = [rule for rule in policy["egress"] if port in [one["port"] for one in rule["ports"]]]
        return [peer for rule in rules for peer in rule.get("to", ["anywhere"])]

    def test_it_covers_the_pod_of_helm_test(self):
        for values in ({}, refusals.STANDALONE):
            both = {**refusals.BASE, **values, **self.ENABLED}
            if values:
                both["standalone.testClientSecret"] = '"client"'
            policy, pod = one(both, "NetworkPolicy")["spec"], one(both, "Pod")
            labels = pod["metadata"]["labels"]
            selector = policy["podSelector"]
            self.assertLessEqual(selector["matchLabels"].items(), labels.items())
            for expression in selector.get("matchExpressions", []):
                self.assertIn(labels[expression["key"]], expression["values"])
            if values:
                callers = [peer for rule in policy["ingress"] for peer in rule["from"]]
                own = {name: labels[name] for name in ("app.kubernetes.io/name", "app.kubernetes.io/instance")}
                self.assertIn({"podSelector": {"matchLabels": own}}, callers)
                server = one(both, "Deployment")["spec"]["selector"]["matchLabels"]
                self.assertIn({"podSelector": {"matchLabels": server}}, self.targets(policy, "grpc"))

    def test_names_are_resolved_by_the_node_s_cache_too(self):
        self.assertIn({"ipBlock": {"cidr": "169.254.20.10/32"}}, self.targets(self.policy({}), 53))

    def test_workload_identity_can_sign_in(self):
        store, entra = ({"ipBlock": {"cidr": cidr}} for cidr in ("10.1.2.3/32", "20.190.128.0/18"))
        self.assertEqual(["anywhere"], self.targets(self.policy(refusals.AZURE), 443))
        narrow = {
            "networkPolicy.storeTo": '[{"ipBlock": {"cidr": "10.1.2.3/32"}}]',
            "networkPolicy.signInTo": '[{"ipBlock": {"cidr": "20.190.128.0/18"}}]',
        }
        self.assertEqual([store, entra], self.targets(self.policy({**refusals.AZURE, **narrow}), 443))
        managed = {**refusals.AZURE, "store.azure.clientId": '""', "store.azure.signIn": '"managed_identity"'}
        self.assertEqual([{"ipBlock": {"cidr": "169.254.169.254/32"}}], self.targets(self.policy(managed), 80))


class Test(unittest.TestCase):
    """The pod of `helm test`."""

    def pods(self):
        """Name of the example, and the pod."""
        for name, file in cases():
            for document in documents(render(file)):
                if document["kind"] == "Pod":
                    with self.subTest(example=name):
                        yield name, document

    def test_its_log_can_be_read_afterwards(self):
        for _, pod in self.pods():
            self.assertEqual("before-hook-creation", pod["metadata"]["annotations"]["helm.sh/hook-delete-policy"])
            # `helm test --logs` names no container: there may be one only.
            self.assertEqual(1, len(pod["spec"]["containers"]))

    def test_it_waits_for_a_sidecar_that_is_being_replaced(self):
        for _, pod in self.pods():
            self.assertIn("--wait=2m", pod["spec"]["containers"][0]["args"])
        values = {**refusals.BASE, **refusals.STANDALONE, "test.wait": '"90s"', "standalone.testClientSecret": '"client"'}
        made = documents(render(values))
        # The new pod is made when the old one has ended: until then nobody answers.
        self.assertEqual("Recreate", next(one for one in made if one["kind"] == "Deployment")["spec"]["strategy"]["type"])
        self.assertIn("--wait=90s", next(one for one in made if one["kind"] == "Pod")["spec"]["containers"][0]["args"])

    def test_it_asks_the_store_that_the_release_uses(self):
        for name, pod in self.pods():
            (test,) = pod["spec"]["containers"]
            self.assertEqual(["doctor", "--exclusion"], test["args"][:2])
            (main,) = (
                containers(pod_specification(document))["leasehold"]
                for document in documents(render(dict(cases())[name]))
                if pod_specification(document) and document["kind"] != "Pod"
            )
            ours, its = ({e["name"]: e.get("value") for e in one["env"]} for one in (test, main))
            wanted = ("LEASEHOLD_STORE_", "LEASEHOLD_HOST_ID_", "LEASEHOLD_PATHS_")
            self.assertEqual(
                {key: value for key, value in its.items() if key.startswith(wanted)},
                {key: value for key, value in ours.items() if key.startswith(wanted)},
            )
            mounted = {mount["mountPath"] for mount in test.get("volumeMounts", [])}
            self.assertLessEqual({m["mountPath"] for m in main["volumeMounts"]} - {"/etc/leasehold/tls", "/run/leasehold", "/run/leasehold-probes"}, mounted)
