#!/bin/sh
# Builds the tool of the module tests/tools/NAME into .tools/bin, as go.mod and go.sum there pin it. Does nothing when it is there
# already. Needs go.
#
#     install-go.sh NAME
set -eu

name=$1
module=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/$name
target=$(CDPATH='' cd -- "$module/../../.." && pwd)/.tools
mkdir -p "$target"
# Several test processes may come here at once: the first one installs, the others wait for it.
exec 9>"$target/install-$name.lock"
if command -v flock >/dev/null; then flock 9; fi

stamp=$target/$name.installed
wanted=$(cat "$module/go.mod" "$module/go.sum")
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || [ ! -x "$target/bin/$name" ]; then
    if ! command -v go >/dev/null; then
        echo "$0: go is not installed; install Go (https://go.dev)" >&2
        exit 1
    fi
    (cd "$module" && GOBIN=$target/bin go install -mod=readonly tool) >&2
    echo "$wanted" >"$stamp"
fi
