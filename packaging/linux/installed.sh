#!/bin/sh
# After the package is installed. Nothing is started that was not running: the service needs a decision first, which store
# it uses. One that runs already is restarted after an upgrade, as Debian's and Fedora's own packages do.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload || true
case "$1" in
    configure) [ -z "$2" ] || upgraded=yes ;; # Debian: $2 is the version before
    [2-9]*) upgraded=yes ;;                   # RPM: how many of this package there are now
esac
if [ "${upgraded:-}" = yes ]; then
    if command -v deb-systemd-invoke >/dev/null; then
        deb-systemd-invoke try-restart leasehold.service || true
    else
        systemctl try-restart leasehold.service || true
    fi
fi
