#!/bin/sh
# Installs etcd, which benches/figures measures beside Leasehold, into .tools/etcd, as tests/tools/requirements-etcd.txt
# pins it. Does nothing when it is there already. Needs python3 with venv.
set -eu

tools=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=$(CDPATH='' cd -- "$tools/../.." && pwd)/.tools
stamp=$target/etcd/requirements.txt.installed

if cmp -s "$tools/requirements-etcd.txt" "$stamp"; then
    exit 0
fi
if ! command -v python3 >/dev/null; then
    echo "$0: python3 is not installed; install Python 3.9 or newer (https://www.python.org)" >&2
    exit 1
fi

mkdir -p "$target"
python3 -m venv "$target/etcd" >&2
"$target/etcd/bin/pip" install --quiet --disable-pip-version-check --no-deps \
    --requirement "$tools/requirements-etcd.txt" >&2
cp "$tools/requirements-etcd.txt" "$stamp"
