"""Renders the chart, as `helm install` would, without a cluster."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Another chart than the one that is there: how the tests are tested, with charts that are broken on purpose.
CHART = pathlib.Path(os.environ.get("LEASEHOLD_TEST_CHART", ROOT / "helm/leasehold"))
HELM = ROOT / ".tools/bin/helm"
KUBERNETES = "1.29.0"


class Refused(Exception):
    """What helm says about values or a chart that it does not take."""


def helm(*arguments):
    """What helm prints."""
    command = [HELM, *arguments, "--kube-version", KUBERNETES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(done.stderr + done.stdout)
    return done.stdout


def value_arguments(values):
    """A file of values, or a map of single ones, as flags."""
    if isinstance(values, pathlib.Path):
        return ["--values", str(values)]
    return [part for name, value in values.items() for part in ("--set-json", f"{name}={value}")]


def render(values, release="keeper-a", chart=None):
    """All that would be installed, as text."""
    chart = str(chart or CHART)
    return helm("template", release, chart, "--namespace", "jobs", *value_arguments(values))


def documents(text):
    """The objects of a rendered text."""
    return [document for document in yaml.safe_load_all(text) if document]


def notes(values, release="keeper-a"):
    """What is said after an installation. Helm says it only where there is a cluster; so it is rendered as an object."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "leasehold"
        shutil.copytree(CHART, copy)
        templates = copy / "templates"
        said = (templates / "NOTES.txt").read_text(encoding="utf-8")
        (templates / "NOTES.txt").unlink()
        (templates / "_notes.tpl").write_text('{{- define "notes" -}}\n' + said + "{{- end -}}\n", encoding="utf-8")
        (templates / "notes.yaml").write_text('notes: {{ include "notes" . | toJson }}\n', encoding="utf-8")
        rendered = documents(render(values, release, copy))
    return next(document["notes"] for document in rendered if "notes" in document)


def including_chart(folder):
    """The example of a chart that includes the templates, with the chart in it."""
    chart = pathlib.Path(folder) / "keeper"
    shutil.copytree(ROOT / "tests/chart/including", chart)
    shutil.copytree(CHART, chart / "charts/leasehold")
    return chart


def cases():
    """The example values: name and file."""
    files = sorted((CHART / "ci").glob("*-values.yaml"))
    return [(file.name.removesuffix("-values.yaml"), file) for file in files]


def pod_specification(document):
    """The pod in an object that makes pods, else None."""
    specification = document.get("spec", {})
    if document["kind"] == "Pod":
        return specification
    if document["kind"] == "CronJob":
        specification = specification["jobTemplate"]["spec"]
    return specification.get("template", {}).get("spec")


def containers(pod):
    """All containers of a pod, by name."""
    both = pod.get("initContainers", []) + pod["containers"]
    return {container["name"]: container for container in both}
