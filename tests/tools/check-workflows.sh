#!/bin/sh
# Checks the workflows in .github: by actionlint, and that each action is pinned by its commit, with its version beside it. Shows first
# that this finds the mistakes in actionlint/planted.yml. Each part of `make nightly` is one of the nightly workflow.
set -eu

tools=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cd -- "$tools/../.."
sh tests/tools/install-go.sh actionlint

# Without shellcheck and pyflakes, which only some machines have.
lint() {
    .tools/bin/actionlint -oneline -shellcheck= -pyflakes= "$@"
}

unpinned() {
    grep -nE '^ *(- )?uses:' "$@" /dev/null | grep -vE 'uses: (\./|[^@ ]+@[0-9a-f]{40} # v[0-9.]+$)'
}

planted=tests/tools/actionlint/planted.yml
found=$(lint "$planted" || true; unpinned "$planted" || true)
for mistake in 'label "ubuntu-24.05" is unknown' 'job "nobody"' 'input "rusty" is not defined' 'is potentially untrusted' \
    'property "nothing" is not defined' 'actions/checkout@v7'; do
    case $found in
        *"$mistake"*) ;;
        *) printf '%s: a planted mistake is not found: %s\n%s\n' "$0" "$mistake" "$found" >&2; exit 1 ;;
    esac
done

lint .github/workflows/*.yml
if unpinned .github/workflows/*.yml .github/actions/*/action.yml; then
    echo "$0: pin these by commit: uses: OWNER/NAME@COMMIT # vVERSION" >&2
    exit 1
fi
for part in $(sed -n 's/^NIGHTLY := //p' Makefile); do
    grep -qw -- "$part" .github/workflows/nightly.yml || {
        echo "$0: .github/workflows/nightly.yml runs no $part" >&2
        exit 1
    }
done
