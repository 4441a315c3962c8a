"""The dashboard and the alerts use what the sidecar has: tests that `static.py` runs with its own."""

import json
import re
import unittest

import refusals
from rendering import CHART, ROOT, documents, render

OPERATIONS = ROOT / "docs/operations.md"
# What Prometheus adds to each metric: by itself, its Kubernetes discovery, and the chart's PodMonitor.
OF_THE_TARGET = {"job", "instance", "namespace", "pod", "app_kubernetes_io_instance", "app_kubernetes_io_name"}
# Prometheus' own metric of alerts, with the labels that the rules give them.
ALERTS = {"ALERTS": {"alertname": None, "alertstate": {"firing", "pending"}, "severity": None}}
# What every query of the dashboard is narrowed by, so that its variables change every panel.
CHOSEN = ["namespace", "job", "app_kubernetes_io_instance", "pod"]


def known():
    """Each metric's labels with their values, from the table that a test of the sidecar compares with its code."""
    found = dict(ALERTS)
    for name, kind, labels in re.findall(r"(?m)^\| `(\w+)` \| (\w+) \| ([^|]*) \|", OPERATIONS.read_text(encoding="utf-8")):
        if kind not in ("counter", "gauge", "histogram", "info"):
            continue
        parts = [part.split(":", 1) for part in labels.split(";") if part.strip()]
        own = {label.strip(" `"): set(re.findall(r"`([^`]+)`", values)) for label, values in parts}
        if kind == "info":
            own = dict.fromkeys(own)
        if re.match(r"leasehold_schedule_\w+_timestamp_seconds", name):
            own["schedule"] = None
        found[name] = own
        if kind == "histogram":
            found |= {f"{name}_bucket": {**own, "le": None}, f"{name}_sum": own, f"{name}_count": own}
    return found


def series(expression):
    """The metrics of a PromQL expression, each with its matchers as label, operator and value."""
    for name, matchers in re.findall(r"\b((?:leasehold|process)_\w+|ALERTS)\b(?:\{([^}]*)\})?", expression):
        yield name, re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', matchers)


def unknown(expression):
    """What an expression uses that the sidecar does not have."""
    metrics = known()
    own = {}
    for name, matchers in series(expression):
        if name not in metrics:
            yield name
            continue
        own |= metrics[name]
        for label, _, value in matchers:
            if label in OF_THE_TARGET:
                continue
            if label not in metrics[name]:
                yield f"{name}: {label}"
            elif metrics[name][label] is not None:
                yield from (f"{name}: {label}={one}" for one in value.split("|") if one not in metrics[name][label])
    grouped = re.findall(r"\b(?:by|without|on)\s*\(([^)]*)\)", expression)
    for label in {label.strip() for labels in grouped for label in labels.split(",")}:
        if label not in OF_THE_TARGET and label not in own:
            yield f"by {label}"


def anchors(page):
    """The headings of a page, as links name them."""
    headings = re.findall(r"(?m)^#+ (.*)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Queries(unittest.TestCase):
    """Every metric, every label and every value of a label is there."""

    def test_a_mistake_of_each_kind_is_found(self):
        for expression, found in (
            ("leasehold_holds", []),
            ('sum by (reason) (leasehold_losses_total{reason=~"taken|broken",pod="a"})', []),
            ("leasehold_hold", ["leasehold_hold"]),
            ('leasehold_losses_total{why="taken"}', ["leasehold_losses_total: why"]),
            ('leasehold_losses_total{reason=~"taken|stolen"}', ["leasehold_losses_total: reason=stolen"]),
            ("sum by (lock) (leasehold_holds)", ["by lock"]),
            ("histogram_quantile(0.5, sum by (le) (leasehold_renewal_latency_seconds_bucket))", []),
            ("sum by (le) (leasehold_renewal_latency_seconds_sum)", ["by le"]),
        ):
            self.assertEqual(found, list(unknown(expression)), expression)

    def test_alerts_use_what_there_is(self):
        values = {**refusals.BASE, "metrics.enabled": "true", "metrics.podMonitor.enabled": "true", "metrics.rules.enabled": "true"}
        groups = next(one for one in documents(render(values)) if one["kind"] == "PrometheusRule")["spec"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        self.assertGreater(len(rules), 14)
        for rule in rules:
            self.assertEqual([], list(unknown(rule["expr"])), rule["alert"])


class Dashboard(unittest.TestCase):
    """The file that is installed by the chart, or imported into Grafana as it is."""

    @classmethod
    def setUpClass(cls):
        cls.text = (CHART / "dashboards/leasehold.json").read_text(encoding="utf-8")
        cls.board = json.loads(cls.text)
        nested = [panel for row in cls.board["panels"] for panel in row.get("panels", [])]
        cls.panels = {panel["id"]: panel for panel in cls.board["panels"] + nested if panel["type"] != "row"}
        cls.variables = {variable["name"]: variable for variable in cls.board["templating"]["list"]}

    def queries(self):
        """Where, PromQL expression and legend of every query."""
        for annotation in self.board["annotations"]["list"]:
            yield annotation["name"], annotation["expr"], annotation["titleFormat"] + annotation["textFormat"]
        for panel in self.panels.values():
            if panel["datasource"]["type"] == "prometheus":
                for target in panel["targets"]:
                    yield panel["title"], target["expr"], target.get("legendFormat", "")
        for name, variable in self.variables.items():
            if variable["type"] == "query":
                query, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
                yield name, f"sum by ({label}) ({query})", ""

    def test_it_uses_what_there_is(self):
        for where, expression, legend in self.queries():
            with self.subTest(where):
                self.assertEqual([], list(unknown(expression)))
                kept = set(re.findall(r"\w+", " ".join(re.findall(r"\bby \(([^)]*)\)", expression)))) or OF_THE_TARGET
                self.assertEqual(set(), set(re.findall(r"{{(\w+)}}", legend)) - kept)

    def test_every_panel_and_annotation_follows_the_variables(self):
        for where, expression, _ in self.queries():
            if where in self.variables:
                continue
            for name, matchers in series(expression):
                if name != "ALERTS":
                    labels = [label for label, operator, value in matchers if operator == "=~" and value.startswith("$")]
                    self.assertEqual(CHOSEN, labels[:4], f"{where}: {name}")
        self.assertEqual({"namespace", "job", "release", "pod", "lock"}, {n for n, v in self.variables.items() if v["type"] == "query"})
        for name, variable in self.variables.items():
            if variable["type"] == "query":
                # Also where a label is missing: outside Kubernetes, or with metrics that the chart's PodMonitor does not read.
                self.assertEqual(".*", variable["allValue"], name)
                self.assertEqual(["$__all"], variable["current"]["value"], name)
            self.assertRegex(self.text, rf"\$\{{?{name}\b")
        used = set(re.findall(r"\$\{?(\w+)", self.text))
        self.assertEqual({"__all", "__rate_interval", "__url_time_range", "__all_variables"}, used - set(self.variables))

    def test_it_can_be_imported_as_it_is(self):
        # An exported one asks for data sources by `__inputs`; this one has variables for them.
        self.assertEqual({"prometheus", "loki"}, {v["query"] for v in self.variables.values() if v["type"] == "datasource"})
        of = {"prometheus": "${datasource}", "loki": "${logs}"}
        sources = re.findall(r'"datasource": \{"type": "(\w+)", "uid": "([^"]*)"\}', self.text)
        self.assertEqual(self.text.count('"datasource": '), len(sources))
        self.assertEqual(set(of.items()), set(sources))
        self.assertNotIn("__inputs", self.board)
        self.assertNotIn("id", self.board)

    def test_links_lead_somewhere(self):
        links = list(self.board["links"])
        for panel in self.panels.values():
            links += panel.get("links", []) + panel.get("fieldConfig", {}).get("defaults", {}).get("links", [])
        self.assertGreater(len(links), 30)
        for link in links:
            runbook = re.fullmatch(r"\$\{runbooks:raw\}#(.+)", link["url"])
            panel = re.fullmatch(r"/d/leasehold\?\$\{__url_time_range\}&\$\{__all_variables\}&viewPanel=(\d+)", link["url"])
            self.assertTrue(runbook or panel, link["url"])
            if runbook:
                self.assertIn(runbook[1], anchors(OPERATIONS))
            else:
                self.assertIn(int(panel[1]), self.panels)
        self.assertEqual("leasehold", self.board["uid"])

    def test_losses_breaks_and_starts_are_marked(self):
        self.assertEqual(["Losses", "Breaks", "Starts"], [one["name"] for one in self.board["annotations"]["list"]])

    def test_states_are_words(self):
        for panel in self.panels.values():
            if panel["type"] in ("stat", "state-timeline"):
                defaults = panel["fieldConfig"]["defaults"]
                self.assertTrue("mappings" in defaults or "unit" in defaults, panel["title"])
            if panel["type"] == "stat":
                self.assertIn("noValue", panel["fieldConfig"]["defaults"], panel["title"])
            # What a series is renamed from is a value of the label that it is named by.
            named = {o["matcher"]["options"] for o in panel.get("fieldConfig", {}).get("overrides", []) if o["matcher"]["id"] == "byName"}
            values = {value for t in panel["targets"] for name, _ in series(t["expr"]) for v in known().get(name, {}).values() for value in v or ()}
            self.assertEqual(set(), named - values, panel["title"])

    def test_panels_are_told_apart_and_explained(self):
        taken = set()
        for panel in self.board["panels"]:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24)
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
            self.assertEqual(set(), cells & taken, panel["title"])
            taken |= cells
        for panel in self.panels.values():
            self.assertRegex(panel["description"], r"\.$")
        for one in (self.board["panels"], list(self.panels.values())):
            self.assertEqual(len(one), len({panel["id"] for panel in one}))

    def test_the_chart_installs_it_with_its_own_runbooks(self):
        values = {**refusals.BASE, "metrics.enabled": "true", "metrics.dashboard.enabled": "true"}

        def installed(more):
            return next(one for one in documents(render({**values, **more})) if "leasehold.json" in one.get("data", {}))["data"]["leasehold.json"]

        self.assertEqual(self.board, json.loads(installed({})))
        mine = json.loads(installed({"metrics.rules.runbooks": '"https://wiki.example/locks"'}))
        self.assertIn("https://wiki.example/locks", [variable["query"] for variable in mine["templating"]["list"]])
        self.assertNotIn("github.com", json.dumps(mine))
