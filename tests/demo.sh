#!/bin/sh
# Leasehold's main job on the embedded store: a lock acquired, renewed, refused to a second caller, passed on. Started by
# `make demo`; LEASEHOLD names another binary.
set -eu

leasehold=${LEASEHOLD:-${CARGO_TARGET_DIR:-target}/demo/leasehold}
folder=$(mktemp -d)
export LEASEHOLD_ENDPOINT="unix://$folder/leasehold.sock"

say() { printf '\n\033[1m%s\033[0m\n' "$1"; }

sidecar=
first=
clean_up() {
    for process in $first $sidecar; do kill "$process" 2>/dev/null || true; done
    wait
    rm -rf "$folder"
}
trap clean_up EXIT

say '1. A sidecar, with its locks in a file.'
"$leasehold" serve --set "listen.unix=$folder/leasehold.sock" --set listen.tcp= --set admin.listen= \
    --set "store.embedded.path=$folder/locks.db" --set host_id.host_type=demo --set log.format=human \
    --set log.filter=info,leasehold=debug 2>"$folder/log" >&2 &
sidecar=$!
"$leasehold" probe --wait 10s

say '2. The first replica acquires the lock and works.'
"$leasehold" run --function nightly-report --lease-duration 15s --holder replica-1 -- \
    sh -c 'echo "replica-1: I hold the lock, fencing token $LEASEHOLD_FENCING_TOKEN"; sleep 12; echo "replica-1: done"' &
first=$!
until [ "$("$leasehold" ls --state held --output json | grep -c replica-1)" -gt 0 ]; do sleep 0.1; done
"$leasehold" ls

say '3. A second replica does not wait, and is refused.'
if "$leasehold" run --function nightly-report --holder replica-2 -- echo 'replica-2: this is never printed'; then
    echo 'two holders!' >&2
    exit 1
else
    echo "exit code $? (75: the lock was not acquired)"
fi

say '4. A third one waits. Meanwhile the lease of 15 s is renewed every 5 s.'
"$leasehold" run --function nightly-report --lease-duration 15s --wait 1m --holder replica-3 -- \
    sh -c 'echo "replica-3: now I hold the lock, fencing token $LEASEHOLD_FENCING_TOKEN, greater than before"'
wait "$first"
first=

say '5. What the sidecar saw.'
grep -E 'granted|renewed|released' "$folder/log" | sed -E 's/^([^ ]+) +/\1 /'

say '6. Now nobody holds it.'
"$leasehold" ls
