#!/bin/sh
# Installs podman, with which a test runs the chart's pods, as packages of the system: a container engine cannot live in
# a folder of the project. Does nothing where it is there already. Needs Debian or Ubuntu, and to be root.
set -eu

missing=
for command in podman runc catatonit; do
    command -v "$command" >/dev/null || [ -x "/usr/libexec/podman/$command" ] || missing="$missing $command"
done
if [ -z "$missing" ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "$0: missing:$missing; install them (Debian: apt-get install podman runc catatonit)" >&2
    exit 1
fi
# Two installs of packages at a time do not get along; those of the examples wait here, too.
if command -v flock >/dev/null; then
    exec 9>"${TMPDIR:-/tmp}/leasehold-install.lock"
    flock 9
fi
export DEBIAN_FRONTEND=noninteractive
packages="podman runc catatonit"
# shellcheck disable=SC2086 # the names of three packages
apt-get install --yes --quiet --no-install-recommends $packages >&2 || {
    apt-get update --quiet >&2
    apt-get install --yes --quiet --no-install-recommends $packages >&2
}
