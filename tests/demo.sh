#!/bin/sh
# Leasehold's main job on the embedded store: a lock acquired, renewed, refused to a second caller, passed on; and a schedule, of
# which each occurrence runs once. Started by `make demo`; LEASEHOLD names another binary.
set -eu

leasehold=${LEASEHOLD:-${CARGO_TARGET_DIR:-target}/demo/leasehold}
folder=$(mktemp -d)
export LEASEHOLD_ENDPOINT="unix://$folder/leasehold.sock"

say() { printf '\n\033[1m%s\033[0m\n' "$1"; }

sidecar=
first=
replicas=
clean_up() {
    for process in $first $replicas $sidecar; do kill "$process" 2>/dev/null || true; done
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
grep -E 'lock granted|renewed|lock released' "$folder/log" | sed -E 's/^([^ ]+) +/\1 /'

say '6. Now nobody holds it.'
"$leasehold" ls
"$leasehold" ls --output json | grep -q replica-3 || {
    echo 'the last holder is another!' >&2
    exit 1
}

say '7. Three replicas of a job that is due every 10 s: each occurrence runs in one of them.'
# The job; $1 is the name of its replica.
cat >"$folder/job" <<'END'
at=${LEASEHOLD_SCHEDULED_AT#*T}
echo "due at ${at%Z}: $1 begins, attempt $LEASEHOLD_ATTEMPT, $LEASEHOLD_LATENESS s late, token $LEASEHOLD_FENCING_TOKEN"
echo "$1" >>"$2"
sleep 3
echo "             $1 is done"
echo "$LEASEHOLD_SCHEDULED_AT" >>"$3"
END
: >"$folder/started"
: >"$folder/done"
for name in replica-4 replica-5 replica-6; do
    "$leasehold" every '*/10 * * * * *' --function every-ten-seconds --lease-duration 15s --backoff 1s --holder "$name" -- \
        sh "$folder/job" "$name" "$folder/started" "$folder/done" 2>"$folder/$name" &
    echo $! >"$folder/$name.pid"
    replicas="$replicas $!"
done
count() { wc -l <"$folder/$1" | tr -d ' '; }
until [ "$(count done)" -ge 1 ] && [ "$(count started)" -ge 2 ]; do sleep 0.1; done
killed=$(tail -n 1 "$folder/started")
kill -9 "$(cat "$folder/$killed.pid")"
echo "             $killed is killed in the middle of it: kill -9"
until [ "$(count done)" -ge 3 ]; do sleep 0.1; done

say '8. Nothing was missed, and nothing was done twice.'
"$leasehold" schedule ls
if [ -n "$(sort "$folder/done" | uniq -d)" ] || [ "$(count started)" -ne 4 ]; then
    echo 'an occurrence was run that was recorded already!' >&2
    exit 1
fi
"$leasehold" schedule show --function every-ten-seconds --output json | grep -q '"missed": *0' || {
    echo 'an occurrence was missed!' >&2
    exit 1
}
