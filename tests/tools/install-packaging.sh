#!/bin/sh
# Installs what reads packages of Linux (dpkg-deb, rpm) and units (systemd-analyze), as packages of the system, and a Node.js
# that can give its place to a program into .tools/node. Does nothing where they are there already. Needs npm; and Debian or
# Ubuntu, and to be root, where a package is missing.
set -eu

# Of a release line that has process.execve.
node=24.9.0

target=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)/.tools
platform=$(node -p 'process.platform + "-" + process.arch')
if [ "$("$target/node/node_modules/node-$platform/bin/node" --version 2>/dev/null)" != "v$node" ]; then
    mkdir -p "$target/node"
    npm install --prefix "$target/node" --ignore-scripts --no-save --no-audit --no-fund --loglevel=error "node-$platform@$node" >&2
fi

missing=
for command in dpkg-deb:dpkg rpm:rpm systemd-analyze:systemd; do
    command -v "${command%:*}" >/dev/null || missing="$missing ${command#*:}"
done
if [ -z "$missing" ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "$0: missing:$missing; install them (Debian: apt-get install$missing)" >&2
    exit 1
fi
# Two installs of packages at a time do not get along; those of the examples wait here, too.
if command -v flock >/dev/null; then
    exec 9>"${TMPDIR:-/tmp}/leasehold-install.lock"
    flock 9
fi
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # names of packages
apt-get install --yes --quiet --no-install-recommends $missing >&2 || {
    apt-get update --quiet >&2
    apt-get install --yes --quiet --no-install-recommends $missing >&2
}
