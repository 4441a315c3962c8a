#!/bin/sh
# Installs the Python packages of tests/tools/FILE into the environment .tools/NAME, each by its hash. Does nothing when they are
# there already. Needs python3 with venv.
#
#     install-requirements.sh NAME FILE
set -eu

name=$1
tools=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
file=$tools/$2
target=$(CDPATH='' cd -- "$tools/../.." && pwd)/.tools
stamp=$target/$name/requirements.txt.installed

if cmp -s "$file" "$stamp"; then
    exit 0
fi
if ! command -v python3 >/dev/null; then
    echo "$0: python3 is not installed; install Python 3.9 or newer (https://www.python.org)" >&2
    exit 1
fi

mkdir -p "$target"
# Several test processes may come here at once: the first one installs, the others wait for it.
exec 9>"$target/install-$name.lock"
if command -v flock >/dev/null; then
    flock 9
    if cmp -s "$file" "$stamp"; then
        exit 0
    fi
fi
python3 -m venv --clear "$target/$name" >&2
"$target/$name/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement "$file" >&2
cp "$file" "$stamp"
