#!/bin/sh
# Unpacks Debian's libfaketime, with which a test makes a wall clock jump, into .tools/faketime, and prints the library's
# path. Does nothing when it is there already. Needs apt-get and dpkg; where the package lists are missing, also the right
# to fetch them.
set -eu

tools=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=$(CDPATH='' cd -- "$tools/../.." && pwd)/.tools/faketime

found() {
    find "$target" -name libfaketime.so.1 2>/dev/null | grep .
}

if found; then
    exit 0
fi
mkdir -p "$target"
cd "$target"
apt-get download libfaketime >&2 || {
    apt-get update >&2
    apt-get download libfaketime >&2
}
dpkg -x libfaketime_*.deb . >&2
found
