#!/bin/sh
# Builds the image: compiles the static program, and packs it with the pinned certificate authorities.
#
#     sh tests/tools/build-image.sh [TAG]        default: leasehold:VERSION
#
# LEASEHOLD_IMAGE_ENGINE   podman, buildah or docker; default: the first of them that is there
# LEASEHOLD_IMAGE_PROGRAM  a static program that is built already; default: compile it
# Equal sources, toolchain and lock files make equal programs and layers: paths of this machine are cut out of the
# program, and every date is that of the commit.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
cd -- "$root"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
tag=${1:-leasehold:$version}
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)

program=$(packaging/program ${LEASEHOLD_IMAGE_PROGRAM:+"$LEASEHOLD_IMAGE_PROGRAM"})

# The certificate authorities of Mozilla, as the package certifi has them: tests/tools/requirements.txt pins it.
sh tests/tools/install-python.sh
authorities=$(.tools/python/bin/python -c 'import certifi; print(certifi.where())')

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
mkdir "$context/program" "$context/certificates"
install -m 0555 "$program" "$context/program/leasehold"
install -m 0444 "$authorities" "$context/certificates/ca-certificates.crt"

engine=${LEASEHOLD_IMAGE_ENGINE:-}
for candidate in podman buildah docker; do
    if [ -z "$engine" ] && command -v "$candidate" >/dev/null; then engine=$candidate; fi
done
case $engine in
    podman | buildah) dates="--timestamp=$SOURCE_DATE_EPOCH --isolation=chroot --layers=false" ;;
    docker) dates="--build-arg=SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" ;;
    *) echo "$0: none of podman, buildah and docker is installed" >&2; exit 1 ;;
esac
# shellcheck disable=SC2086  # several words
"$engine" build $dates --file Containerfile --tag "$tag" \
    --build-context "program=$context/program" --build-context "certificates=$context/certificates" \
    --build-arg "VERSION=$version" --build-arg "REVISION=$revision" --build-arg "CREATED=$created" . >&2
echo "$tag"
