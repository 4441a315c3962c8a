#!/bin/sh
# A newcomer in Go: the module by a replace in an empty one, and a few lines. newcomer/go.sh FOLDER
set -eu
client=$(CDPATH='' cd -- "$(dirname -- "$0")/../../../clients/go" && pwd)
cd -- "$1"
go mod init newcomer >&2
go mod edit -replace "github.com/leasehold/leasehold/clients/go=$client"
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/leasehold/leasehold/clients/go"
)

func main() {
	ctx := context.Background()
	client, err := leasehold.Connect(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	spec := leasehold.LeaseSpec{Key: leasehold.LockKey{Function: "nightly-report"}}
	err = client.WithLock(ctx, spec, func(ctx context.Context, hold *leasehold.Hold) error {
		_, err := fmt.Println("writing the report with token", hold.FencingToken())
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}
GO
go mod tidy >&2
exec go run .
