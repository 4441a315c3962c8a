#!/bin/sh
# A newcomer in Python: the wheel in an empty project, and the first program of the README. newcomer/python.sh FOLDER
set -eu
client=$(CDPATH='' cd -- "$(dirname -- "$0")/../../../clients/python" && pwd)
cd -- "$1"
"$client/prepare" >&2
"$client/.venv/bin/python" -m build --no-isolation --wheel --outdir wheel "$client" >&2
python3 -m venv venv >&2
venv/bin/pip install --quiet --disable-pip-version-check wheel/*.whl >&2
awk '/^```/ { if (code) exit; code = /python/; next } code' "$client/README.md" >main.py
exec venv/bin/python main.py
