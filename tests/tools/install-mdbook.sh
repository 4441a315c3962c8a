#!/bin/sh
# Installs mdBook, which makes a site of docs/, into .tools/mdbook, of the version that stands here and with the dependencies that it
# pins itself. Does nothing when it is there already. Needs cargo; takes some minutes.
set -eu

version=0.5.4

target=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)/.tools
mkdir -p "$target"
# Two may come here at once: the first one installs, the other waits for it.
exec 9>"$target/install-mdbook.lock"
if command -v flock >/dev/null; then flock 9; fi

if [ "$("$target/mdbook/bin/mdbook" --version 2>/dev/null)" != "mdbook v$version" ]; then
    # With its search, but without what serves and watches.
    cargo install mdbook --version "=$version" --locked --no-default-features --features search --root "$target/mdbook" >&2
fi
