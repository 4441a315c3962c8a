#!/bin/sh
# Writes the software bill of materials of the program in the image: CycloneDX, JSON, one entry a crate that is linked.
#
#     sh tests/tools/build-sbom.sh FILE
set -eu
version=0.5.9
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
file=$(CDPATH='' cd -- "$(dirname -- "$1")" && pwd)/$(basename -- "$1")
cd -- "$root"
tool=$root/.tools/bin/cargo-cyclonedx
if ! "$tool" cyclonedx --version 2>/dev/null | grep -qF "$version"; then
    cargo install cargo-cyclonedx --version "$version" --locked --root "$root/.tools" >&2
fi
name=leasehold-sbom
# It writes beside each manifest of the workspace; what is wanted is the program's.
trap 'rm -f "$root/$name.json" "$root/clients/rust/$name.json"' EXIT
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)} \
    "$tool" cyclonedx --format json --no-build-deps --target "${LEASEHOLD_MACHINE:-$(uname -m)}-unknown-linux-gnu" \
    --override-filename "$name" >&2
# Where the sources were on this machine is nobody's business.
sed "s#$root#/leasehold#g" "$root/$name.json" >"$file"
