#!/bin/sh
# Installs etcd, which benches/figures measures beside Leasehold, into .tools/etcd.
set -eu
exec sh "$(dirname -- "$0")/install-requirements.sh" etcd requirements-etcd.txt
