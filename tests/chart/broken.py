#!/usr/bin/env python3
"""The chart's tests are tested: each breaks a copy of the chart in one place, and has to make them fail."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from rendering import ROOT

# File, what stands there, what is put in its place, the test that has to notice.
BREAKAGES = [
    ("templates/_sidecar.tpl", '"probe" "--live"', '"probe"', "test_liveness_and_start"),
    ("templates/_sidecar.tpl", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "test_no_container_may"),
    ("templates/_validate.tpl", "(add $drain 5000)", "$drain", "test_values_that_contradict"),
    ("templates/_validate.tpl", "keeps locks in the one pod", "is kept in a pod", "test_values_that_contradict"),
    ("templates/_pod.tpl", "serviceAccountName:", "serviceAccount_Name:", "test_the_objects_are"),
    ("templates/_pod.tpl", "enableServiceLinks: false", "hostNetwork: true", "test_the_policy_checker"),
    ("templates/_pod.tpl", "if not .Values.sidecar.native", "if .Values.sidecar.native", "test_a_plain_sidecar"),
    ("templates/_helpers.tpl", '= include "leasehold.stableLabels"', '= include "leasehold.labels"', "test_to_the_next_version"),
    ("templates/_helpers.tpl", "app.kubernetes.io/name: {{ .Chart.Name }}", "app: {{ .Values.nameOverride }}", "test_to_other"),
    ("templates/tests/lock.yaml", "policy: before-hook-creation", "policy: hook-succeeded", "test_its_log_can_be_read"),
    ("templates/prometheus-rule.yaml", 'app_kubernetes_io_instance="%s"', 'pod=~"%s-.*"', "test_they_are_about_this"),
    ("templates/network-policy.yaml", "{{ .Chart.Name }}-test]", "another]", "test_it_covers_the_pod"),
    ("ci/try-out-values.yaml", "localhost/leasehold", "ghcr.io/leasehold", "test_the_first_example"),
    ("values.yaml", "sizeLimit: 1Gi", "sizeLimit: 2Gi", "test_it_is_the_chart"),
    ("values.yaml", "cpu: 10m", "cpu: 20m", "test_the_sidecar_is_the_chart_s"),
    ("templates/_helpers.tpl", '"leasehold-socket" "mountPath"', '"leasehold-sockets" "mountPath"', "test_it_renders_and"),
    ("templates/_helpers.tpl", '"readOnly" true', '"readOnly" false', "test_each_example_renders"),
    ("templates/tests/lock.yaml", "--wait={{ .Values.test.wait }}", "--output=text", "test_it_waits_for"),
    ("templates/_sidecar.tpl", '"standalone") $v.sidecar.native', '"standalone") true', "test_s15_a_sidecar"),
    ("templates/_sidecar.tpl", '"standalone") $v.sidecar.native', '"standalone") false', "test_s15_a_sidecar"),
    ("templates/NOTES.txt", "FOR TRYING OUT ONLY", "For trying out", "test_the_notes_say"),
    ("values.schema.json", '"hostType": {', '"hosttype": {', "test_every_value_is_described"),
    ("values.schema.json", '"additionalProperties": false', '"additionalProperties": true', "test_a_value_that_is_wrong"),
    ("templates/_helpers.tpl", '(list "--spread" $s.spread)', '(list "--grace" $s.spread)', "test_every_value_is_a_flag"),
    ("templates/_helpers.tpl", '"--progress-timeout" $s', '"--timeout" $s', "test_every_value_is_a_flag"),
    ("templates/_helpers.tpl", "$.Release.Revision $s.revision", "0 $s.revision", "test_the_command_is_started"),
    ("templates/_helpers.tpl", '"every" $s.expression', '"run"', "test_the_command_is_started"),
    ("templates/_sidecar.tpl", "if $v.admin.scheduleLabels", "if true", "test_t23_a_schedule_is_a_label"),
    ("templates/prometheus-rule.yaml", "max by (namespace, job)", "sum by (namespace, job)", "test_t23_gauges"),
    ("templates/prometheus-rule.yaml", "or absent(", "or vector(", "test_a_schedule_of_the_chart"),
    ("templates/prometheus-rule.yaml", "increase(leasehold_schedule_missed", "rate(leasehold_schedule_missed", "test_the_page_has_them"),
    ("templates/prometheus-rule.yaml", 'reason=~"expired|taken', 'reason=~"expired|stolen', "test_alerts_use_what"),
    ("templates/dashboard.yaml", "replace $own", "replace $board", "test_the_chart_installs_it"),
    ("dashboards/leasehold.json", "leasehold_holds_at_risk", "leasehold_at_risk_holds", "test_it_uses_what"),
    ("dashboards/leasehold.json", "by (cause)", "by (why)", "test_it_uses_what"),
    ("dashboards/leasehold.json", "{{outcome}}", "{{result}}", "test_it_uses_what"),
    ("dashboards/leasehold.json", 'pod=~\\"$pod\\"', 'pod!=\\"\\"', "test_every_panel_and_annotation"),
    ("dashboards/leasehold.json", "#leaseholdlockatrisk", "#lockatrisk", "test_links_lead"),
    ("dashboards/leasehold.json", "viewPanel=26", "viewPanel=62", "test_links_lead"),
    ("dashboards/leasehold.json", '"options": "no_progress"', '"options": "stalled"', "test_states_are_words"),
    ("dashboards/leasehold.json", '"uid": "${logs}"', '"uid": "loki"', "test_it_can_be_imported"),
]


class Broken(unittest.TestCase):
    """What the tests say about broken charts."""

    def test_every_breakage_is_noticed(self):
        for file, good, bad, test in BREAKAGES:
            with self.subTest(file=file, bad=bad), tempfile.TemporaryDirectory() as folder:
                chart = pathlib.Path(folder) / "leasehold"
                shutil.copytree(ROOT / "helm/leasehold", chart)
                text = (chart / file).read_text(encoding="utf-8")
                self.assertIn(good, text, "what is to be broken is not there")
                (chart / file).write_text(text.replace(good, bad), encoding="utf-8")
                environment = {**os.environ, "LEASEHOLD_TEST_CHART": str(chart)}
                environment.pop("LEASEHOLD_TEST_UPDATE", None)
                command = [sys.executable, str(ROOT / "tests/chart/static.py"), "-k", test]
                done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
                self.assertIn("Ran 1 test", done.stderr)
                self.assertEqual(1, done.returncode, f"{test} did not notice it")


if __name__ == "__main__":
    unittest.main(verbosity=2)
