#!/bin/sh
# Installs what the tests need of the system, as packages of Debian or Ubuntu, and says so before. Does nothing where all of it
# is there already; else it needs to be root.
#
#     tests/tools/system.sh [PART...]     parts: containers page packages servers; default: all
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
[ $# -gt 0 ] || set -- containers page packages servers

# Packages by the command that each brings.
needed=
servers=
for part in "$@"; do
    case $part in
        containers) needed="$needed podman:podman runc:runc catatonit:catatonit" ;;
        page) needed="$needed chromium:chromium" ;;
        packages) needed="$needed dpkg-deb:dpkg gpg:gnupg rpm:rpm systemd-analyze:systemd" ;;
        servers) servers='postgres rabbitmq redis' ;;
        *) echo "usage: $0 [containers|page|packages|servers]..." >&2; exit 64 ;;
    esac
done
missing=
for one in $needed; do
    command -v "${one%:*}" >/dev/null || [ -x "/usr/libexec/podman/${one%:*}" ] || missing="$missing ${one#*:}"
done
if [ -n "$missing" ]; then
    if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
        echo "$0: missing:$missing; install them (Debian: apt-get install$missing)" >&2
        exit 1
    fi
    echo "installing into the system, with apt-get:$missing" >&2
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
    if command -v flock >/dev/null; then
        exec 9>&-
    fi
fi
# shellcheck disable=SC2086 # names of servers
[ -z "$servers" ] || sh "$root/examples/components/install.sh" $servers
