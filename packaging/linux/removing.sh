#!/bin/sh
# Before the package is removed; not before an upgrade, during which the service goes on.
set -e
case "$1" in
    remove | 0) ;; # Debian, RPM
    *) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
    systemctl --no-reload disable --now leasehold.service || true
fi
