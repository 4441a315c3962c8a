#!/bin/sh
# A newcomer in Go: the module by a replace in an empty one, and the first program of the README. newcomer/go.sh FOLDER
set -eu
client=$(CDPATH='' cd -- "$(dirname -- "$0")/../../../clients/go" && pwd)
cd -- "$1"
go mod init newcomer >&2
go mod edit -replace "github.com/leasehold/leasehold/clients/go=$client"
awk '/^```/ { if (code) exit; code = /go$/; next } code' "$client/README.md" >main.go
go mod tidy >&2
exec go run .
