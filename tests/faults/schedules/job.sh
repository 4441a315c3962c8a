#!/bin/sh
# A job of a schedule: `job.sh FOLDER SECONDS`. What it does is kept in the folder, one line a step in `journal`.
# The kernel ends its claim on `running` when it dies, in whatever way: whoever finds it claimed is a second run at once.
set -eu
cd "$1"
say() { echo "$1 $LEASEHOLD_SCHEDULED_AT $LEASEHOLD_FENCING_TOKEN ${LEASEHOLD_ATTEMPT:-1} $$ $REPLICA ${LEASEHOLD_LATENESS:-0}" >>journal; }

exec 9>>running
flock -n 9 || say overlap
say start
sleep "$2" 9>&-

# The effect: the resource refuses tokens smaller than the greatest it has seen, and keys what is done by the occurrence.
exec 8>>resource
flock 8
if [ "$LEASEHOLD_FENCING_TOKEN" -lt "$(cat token 2>/dev/null || echo 0)" ]; then
    say refused
    exit 1
fi
echo "$LEASEHOLD_FENCING_TOKEN" >token
if grep -qx "$LEASEHOLD_SCHEDULED_AT" effects 2>/dev/null; then say again; else echo "$LEASEHOLD_SCHEDULED_AT" >>effects; fi
say end
