#!/bin/sh
# Installs the Python storage SDK, which tests use as a second pair of eyes, into .tools/python.
set -eu
exec sh "$(dirname -- "$0")/install-requirements.sh" python requirements.txt
