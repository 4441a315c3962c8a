#!/usr/bin/env python3
"""Makes the JSON schemas of the Kubernetes kinds that the chart and packaging/kustomize have, for kubeconform. Needs Go.

    python3 tests/chart/schemas/generate.py

The sources are what Kubernetes and the Prometheus operator publish, as Go modules of a fixed version: the oldest
Kubernetes that they are for. The schemas are strict: no property that they do not know.
"""

import json
import pathlib
import subprocess
import sys

import yaml  # PyYAML: checkov brings it, .tools/checkov/bin/python

KUBERNETES = "k8s.io/kubernetes@v1.29.15"
# The oldest one that has all that packaging/kustomize/injection uses.
KUBERNETES_OF_POLICIES = "k8s.io/kubernetes@v1.36.0"
OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
KINDS = {
    "api__v1": ["ConfigMap", "Pod", "Service", "ServiceAccount"],
    "apis__apps__v1": ["Deployment", "StatefulSet"],
    "apis__batch__v1": ["CronJob", "Job"],
    "apis__networking.k8s.io__v1": ["NetworkPolicy"],
    "apis__policy__v1": ["PodDisruptionBudget"],
}
POLICIES = {"apis__admissionregistration.k8s.io__v1": ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"]}
CUSTOM = ["podmonitors", "prometheusrules"]
HERE = pathlib.Path(__file__).parent


def module(name):
    """The folder of a Go module."""
    output = subprocess.run(["go", "mod", "download", "-json", name], check=True, capture_output=True, cwd="/", text=True)
    return pathlib.Path(json.loads(output.stdout)["Dir"])


def strict(node):
    """The schema without documentation and defaults, and with nothing but the known properties."""
    if isinstance(node, list):
        return [strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("x-kubernetes-int-or-string") or node.get("format") == "int-or-string":
        return {"type": ["integer", "string"]}
    kept = {}
    for key, value in node.items():
        if key in ("properties", "definitions") and isinstance(value, dict):
            kept[key] = {name: strict(part) for name, part in value.items()}
        elif key not in ("description", "default", "format") and not key.startswith("x-"):
            kept[key] = strict(value)
    references = kept.pop("allOf", None)
    if references and len(references) == 1 and "$ref" in references[0]:
        kept = references[0]
    elif references:
        kept["allOf"] = references
    if "properties" in kept:
        kept.setdefault("additionalProperties", False)
    return kept


def referenced(node, found):
    """The names of the schemas that a schema refers to."""
    if isinstance(node, dict):
        if "$ref" in node:
            found.add(node["$ref"].rsplit("/", 1)[-1])
        for value in node.values():
            referenced(value, found)
    elif isinstance(node, list):
        for value in node:
            referenced(value, found)
    return found


def built_in(schemas, kind):
    """One kind's schema with all that it refers to."""
    name = next(name for name, schema in schemas.items() if any(
        entry["kind"] == kind for entry in schema.get("x-kubernetes-group-version-kind", []) if len(
            schema["x-kubernetes-group-version-kind"]) == 1))
    definitions, left = {}, {name}
    while left:
        current = left.pop()
        definitions[current] = strict(schemas[current])
        left |= referenced(definitions[current], set()) - definitions.keys()
    text = json.dumps({"$ref": f"#/definitions/{name}", "definitions": dict(sorted(definitions.items()))})
    return json.loads(text.replace("#/components/schemas/", "#/definitions/"))


def write(kind, group, version, schema):
    """Under the name that kubeconform looks for: {kind}-{group}-{version}.json."""
    name = "-".join(filter(None, [kind.lower(), group.split(".")[0], version])) + ".json"
    (HERE / name).write_text(json.dumps(schema, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main():
    """Writes all schemas."""
    files = [(KUBERNETES, *entry) for entry in KINDS.items()] + [(KUBERNETES_OF_POLICIES, *entry) for entry in POLICIES.items()]
    for kubernetes, file, kinds in files:
        specifications = module(kubernetes) / "api/openapi-spec/v3"
        schemas = json.loads((specifications / f"{file}_openapi.json").read_text())["components"]["schemas"]
        group, version = (file.split("__") + [""])[1:3] if file.startswith("apis") else ("", "v1")
        for kind in kinds:
            write(kind, group, version, built_in(schemas, kind))
    for plural in CUSTOM:
        source = module(OPERATOR) / f"example/prometheus-operator-crd/monitoring.coreos.com_{plural}.yaml"
        specification = yaml.safe_load(source.read_text())["spec"]
        version = specification["versions"][0]
        schema = strict(version["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"type": "object"}
        write(specification["names"]["kind"], specification["group"], version["name"], schema)


if __name__ == "__main__":
    sys.exit(main())
