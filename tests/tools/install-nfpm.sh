#!/bin/sh
# Installs nfpm, which writes the Debian and the RPM package, into .tools by Go, of the version that stands here. Does nothing
# when it is there already. Needs go.
set -eu

nfpm=v2.45.0

target=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)/.tools
mkdir -p "$target"
# Several test processes may come here at once: the first one installs, the others wait for it.
exec 9>"$target/install-nfpm.lock"
if command -v flock >/dev/null; then flock 9; fi

stamp=$target/nfpm.installed
if [ "$(cat "$stamp" 2>/dev/null)" != "$nfpm" ]; then
    if ! command -v go >/dev/null; then
        echo "$0: go is not installed; install Go (https://go.dev)" >&2
        exit 1
    fi
    # From a folder without a module, so that it is built with the dependencies that it pins itself.
    (cd "$target" && GOBIN=$target/bin go install "github.com/goreleaser/nfpm/v2/cmd/nfpm@$nfpm") >&2
    echo "$nfpm" >"$stamp"
fi
