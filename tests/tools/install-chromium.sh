#!/bin/sh
# Installs Chromium, in which a test looks at the page, as a package of the system. Does nothing where it is there already.
# Needs Debian or Ubuntu, and to be root.
set -eu

if command -v chromium >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "$0: chromium is missing; install it (Debian: apt-get install chromium)" >&2
    exit 1
fi
# Two installs of packages at a time do not get along; those of the examples wait here, too.
if command -v flock >/dev/null; then
    exec 9>"${TMPDIR:-/tmp}/leasehold-install.lock"
    flock 9
fi
export DEBIAN_FRONTEND=noninteractive
apt-get install --yes --quiet --no-install-recommends chromium >&2 || {
    apt-get update --quiet >&2
    apt-get install --yes --quiet --no-install-recommends chromium >&2
}
