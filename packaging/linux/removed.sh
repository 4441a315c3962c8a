#!/bin/sh
# After the package was removed. The locks in /var/lib/leasehold stay, also when the package is purged: without them
# fencing tokens would begin anew, and resources would refuse them.
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
