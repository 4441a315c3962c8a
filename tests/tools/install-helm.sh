#!/bin/sh
# Installs what the tests of the chart use into .tools: helm and kubeconform by Go, checkov by pip, each of the version
# that stands here. Does nothing when they are there already. Needs go, and python3 with venv.
#
#     install-helm.sh [helm]      helm: without checkov
set -eu

helm=v3.19.0
kubeconform=v0.7.0

tools=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=$(CDPATH='' cd -- "$tools/../.." && pwd)/.tools
mkdir -p "$target"
# Several test processes may come here at once: the first one installs, the others wait for it.
exec 9>"$target/install-helm.lock"
if command -v flock >/dev/null; then flock 9; fi

stamp=$target/helm.installed
wanted="helm $helm kubeconform $kubeconform"
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    if ! command -v go >/dev/null; then
        echo "$0: go is not installed; install Go (https://go.dev)" >&2
        exit 1
    fi
    # From a folder without a module, so that each is built with the dependencies that it pins itself.
    (cd "$target" && GOBIN=$target/bin go install "helm.sh/helm/v3/cmd/helm@$helm") >&2
    (cd "$target" && GOBIN=$target/bin go install "github.com/yannh/kubeconform/cmd/kubeconform@$kubeconform") >&2
    echo "$wanted" >"$stamp"
fi

if [ "${1:-}" = helm ]; then exit 0; fi
stamp=$target/checkov/requirements.txt.installed
if ! cmp -s "$tools/requirements-checkov.txt" "$stamp"; then
    if ! command -v python3 >/dev/null; then
        echo "$0: python3 is not installed; install Python 3.9 or newer (https://www.python.org)" >&2
        exit 1
    fi
    python3 -m venv "$target/checkov" >&2
    "$target/checkov/bin/pip" install --quiet --disable-pip-version-check --no-deps \
        --requirement "$tools/requirements-checkov.txt" >&2
    cp "$tools/requirements-checkov.txt" "$stamp"
fi
