#!/bin/sh
# Installs the Python storage SDK, which tests use as a second pair of eyes, into .tools/python, as
# tests/tools/requirements.txt pins it. Does nothing when it is there already. Needs python3 with venv.
set -eu

tools=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=$(CDPATH='' cd -- "$tools/../.." && pwd)/.tools
stamp=$target/python/requirements.txt.installed

if cmp -s "$tools/requirements.txt" "$stamp"; then
    exit 0
fi
if ! command -v python3 >/dev/null; then
    echo "$0: python3 is not installed; install Python 3.9 or newer (https://www.python.org)" >&2
    exit 1
fi

mkdir -p "$target"
# Several test processes may come here at once: the first one installs, the others wait for it.
exec 9>"$target/install-python.lock"
if command -v flock >/dev/null; then
    flock 9
    if cmp -s "$tools/requirements.txt" "$stamp"; then
        exit 0
    fi
fi
python3 -m venv "$target/python" >&2
"$target/python/bin/pip" install --quiet --disable-pip-version-check --no-deps \
    --requirement "$tools/requirements.txt" >&2
cp "$tools/requirements.txt" "$stamp"
