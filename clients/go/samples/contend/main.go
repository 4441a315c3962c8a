// Contend adds one to the number in a file many times, under a lock, among others that do the same. No increment may
// be lost.
//
// Usage: go run ./samples/contend FILE TIMES
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	leasehold "github.com/leasehold/leasehold/clients/go"
	"github.com/leasehold/leasehold/clients/go/samples/contend/counter"
)

func main() {
	if err := contend(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func contend(ctx context.Context, arguments []string) error {
	if len(arguments) != 2 {
		return errors.New("usage: contend FILE TIMES")
	}
	file := counter.File(arguments[0])
	times, err := strconv.Atoi(arguments[1])
	if err != nil {
		return err
	}
	client, err := leasehold.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	spec := leasehold.LeaseSpec{Key: leasehold.LockKey{Function: "contend"}, Wait: leasehold.Forever}
	for range times {
		err := client.WithHold(ctx, spec, func(ctx context.Context, hold *leasehold.Hold) error {
			if !hold.Valid() {
				return context.Cause(ctx)
			}
			return file.Add(hold.FencingToken())
		})
		if err != nil {
			return err
		}
	}
	return nil
}
