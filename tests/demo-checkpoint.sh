#!/bin/sh
# A lock with a checkpoint passes from a job in Python to one in Go and back, on the storage emulator: each is told that
# its lock was broken, saves and releases, and the next one starts from what was saved. Started by `make demo-checkpoint`,
# which builds what it needs. LEASEHOLD names another binary; LIMIT is the longest time from a break to the next
# start, in milliseconds.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
leasehold=${LEASEHOLD:-${CARGO_TARGET_DIR:-$root/target}/demo/leasehold}
limit=${LIMIT:-2000}
folder=$(mktemp -d)
events=$folder/events
processes=
clean_up() {
    for process in $processes; do kill "$process" 2>/dev/null || true; done
    wait
    rm -rf "$folder"
}
trap clean_up EXIT

now() { date +%s%3N; }

# Copies each line of standard input, with its time and who wrote it, to the events and to the terminal.
stamp() {
    while IFS= read -r line; do
        at=$(($(now) - began))
        printf '%s %s %s\n' "$at" "$1" "$line" >>"$events"
        printf '%3d.%03d s  %-7s %s\n' $((at / 1000)) $((at % 1000)) "$1" "$line"
    done
}

say() { echo "$1" | stamp demo; }

fail() {
    echo "not as it should be: $1" >&2
    cat "$folder"/*.log >&2
    exit 1
}

# Waits until the file has a line that matches, after so many others if they are named; prints the last such line.
line_of() {
    tries=0
    until tail -n "+$((${3:-0} + 1))" "$1" | grep -E "$2" >"$folder/found"; do
        tries=$((tries + 1))
        [ "$tries" -lt 1200 ] || fail "nothing matches $2"
        sleep 0.05
    done
    tail -n 1 "$folder/found"
}

# Starts a job in a folder at a sidecar, its output stamped: NAME FOLDER SIDECAR COMMAND…
job() {
    name=$1 place=$2 sidecar=$3
    shift 3
    pipe=$(mktemp -u "$folder/pipe.XXXXXX")
    mkfifo "$pipe"
    stamp "$name" <"$pipe" &
    (cd "$place" && LEASEHOLD_ENDPOINT="unix://$folder/$sidecar.sock" exec "$@" >"$pipe" 2>&1) &
    processes="$processes $!"
}

python() { job Python "$root/clients/python" sidecar-1 .venv/bin/python samples/checkpoint.py import; }
go() { job Go "$root/clients/go" sidecar-2 .tools/samples/checkpoint import; }

node "$root/.tools/node_modules/azurite/dist/src/blob/main.js" --blobHost 127.0.0.1 --blobPort 0 \
    --inMemoryPersistence --skipApiVersionCheck --disableTelemetry >"$folder/azurite.log" 2>&1 &
processes=$!
endpoint=$(line_of "$folder/azurite.log" 'successfully listens on' | sed 's/.* on //')
# The account and the key of every emulator.
key=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==
export LEASEHOLD_STORE_AZURE_CONNECTION_STRING="AccountName=devstoreaccount1;AccountKey=$key;BlobEndpoint=$endpoint/devstoreaccount1"

for sidecar in sidecar-1 sidecar-2; do
    "$leasehold" serve --store azure --set store.azure.create_container=true --set host_id.host_type=demo \
        --set "listen.unix=$folder/$sidecar.sock" --set listen.tcp= --set admin.listen= \
        --set admin.allow_break=true --set locks.poll_cap=1s 2>"$folder/$sidecar.log" &
    processes="$processes $!"
    LEASEHOLD_ENDPOINT="unix://$folder/$sidecar.sock" "$leasehold" probe --wait 30s >"$folder/probe.log"
done
began=$(now)
: >"$events"

# Once the holder has saved what the demonstration waits for, breaks the lock at its sidecar, and checks what its job and
# the next one do: HOLDER SIDECAR SAVED NEXT
hand_over() {
    line_of "$events" "^[0-9]+ $1 saved $3\$" >"$folder/waited"
    before=$(wc -l <"$events")
    broken=$(($(now) - began))
    LEASEHOLD_ENDPOINT="unix://$folder/$2.sock" "$leasehold" break -f import --by ops --reason 'next, please' >"$folder/break.log"
    sed 's/^/leasehold break: /' "$folder/break.log" | stamp demo
    started=$(line_of "$events" "^[0-9]+ $4 (starting|going on) from " "$before")
    line_of "$events" "^[0-9]+ $1 told to stop.*next, please" "$before" >"$folder/waited"
    line_of "$events" "^[0-9]+ $1 (released, checkpoint .*SAVED|saved [0-9]+ as version)" "$before" >"$folder/waited"
    # On a busy machine the holder may have saved once more before it was told.
    last=$(sed -nE "s/^[0-9]+ $1 saved ([0-9]+)\$/\1/p" "$events" | tail -n 1)
    case $started in
        *" from $last with token "*) ;;
        *) fail "the job in $1 saved $last last, and then: $started" ;;
    esac
    took=$((${started%% *} - broken))
    say "the job in $4 started from what the one in $1 saved, $took ms after the break"
    [ "$took" -le "$limit" ] || fail "that is more than $limit ms"
}

say 'a job in Python holds the lock, at sidecar 1; one in Go waits for it, at sidecar 2'
python
line_of "$events" ' Python starting from 0 ' >"$folder/waited"
go
hand_over Python sidecar-1 3 Go

say 'the job in Python waits again'
python
hand_over Go sidecar-2 "$((last + 3))" Python
