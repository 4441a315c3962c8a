#!/bin/sh
# Installs the tools that the tests start into .tools/, as tests/tools/package-lock.json pins them. Does nothing when
# they are there already. Needs node 20 or newer, and npm.
set -eu

tools=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=$(CDPATH='' cd -- "$tools/../.." && pwd)/.tools
stamp=$target/package-lock.json.installed

if cmp -s "$tools/package-lock.json" "$stamp"; then
    exit 0
fi
for command in node npm; do
    if ! command -v "$command" >/dev/null; then
        echo "$0: $command is not installed; install Node.js 20 or newer (https://nodejs.org)" >&2
        exit 1
    fi
done

mkdir -p "$target"
# Several test processes may come here at once: the first one installs, the others wait for it.
exec 9>"$target/install.lock"
if command -v flock >/dev/null; then
    flock 9
    if cmp -s "$tools/package-lock.json" "$stamp"; then
        exit 0
    fi
fi
cp "$tools/package.json" "$tools/package-lock.json" "$tools/.npmrc" "$target/"
npm ci --prefix "$target" --ignore-scripts --no-audit --no-fund --loglevel=error >&2
cp "$tools/package-lock.json" "$stamp"
