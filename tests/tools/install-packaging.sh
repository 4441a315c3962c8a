#!/bin/sh
# Installs a Node.js that can give its place to a program into .tools/node, and what reads packages of Linux (dpkg-deb, rpm)
# and units (systemd-analyze) into the system. Does nothing where they are there already. Needs npm.
set -eu

# Of a release line that has process.execve.
node=24.9.0

target=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)/.tools
platform=$(node -p 'process.platform + "-" + process.arch')
if [ "$("$target/node/node_modules/node-$platform/bin/node" --version 2>/dev/null)" != "v$node" ]; then
    mkdir -p "$target/node"
    npm install --prefix "$target/node" --ignore-scripts --no-save --no-audit --no-fund --loglevel=error "node-$platform@$node" >&2
fi

sh "$(dirname -- "$0")/system.sh" packages
