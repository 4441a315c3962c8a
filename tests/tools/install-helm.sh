#!/bin/sh
# Installs what the tests of the chart use into .tools: helm, kubeconform and kustomize by Go, checkov by pip, each of the version
# that stands here. Does nothing when they are there already. Needs go, and python3 with venv.
#
#     install-helm.sh [helm]      helm: without checkov
set -eu

helm=v3.19.0
kubeconform=v0.7.0
kustomize=v5.7.1

tools=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=$(CDPATH='' cd -- "$tools/../.." && pwd)/.tools
mkdir -p "$target"
# Several test processes may come here at once: the first one installs, the others wait for it.
exec 9>"$target/install-helm.lock"
if command -v flock >/dev/null; then flock 9; fi

stamp=$target/helm.installed
wanted="helm $helm kubeconform $kubeconform kustomize $kustomize"
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    if ! command -v go >/dev/null; then
        echo "$0: go is not installed; install Go (https://go.dev)" >&2
        exit 1
    fi
    # From a folder without a module, so that each is built with the dependencies that it pins itself.
    (cd "$target" && GOBIN=$target/bin go install "helm.sh/helm/v3/cmd/helm@$helm") >&2
    (cd "$target" && GOBIN=$target/bin go install "github.com/yannh/kubeconform/cmd/kubeconform@$kubeconform") >&2
    (cd "$target" && GOBIN=$target/bin go install "sigs.k8s.io/kustomize/kustomize/v5@$kustomize") >&2
    echo "$wanted" >"$stamp"
fi

if [ "${1:-}" = helm ]; then exit 0; fi
exec sh "$tools/install-requirements.sh" checkov requirements-checkov.txt
