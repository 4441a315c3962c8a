package main

import (
	"context"

	leasehold "github.com/leasehold/leasehold/clients/go"
	"github.com/leasehold/leasehold/clients/go/samples/contend/counter"
)

// contend adds one to the number in a file many times, under a lock, among others that do the same.
func (d *driver) contend(ctx context.Context, client *leasehold.Client, c command) error {
	tokens := make([]uint64, 0, c.Times)
	spec := leasehold.LeaseSpec{Key: leasehold.LockKey{Function: "contend"}, Wait: leasehold.Forever}
	for range c.Times {
		err := client.WithHold(ctx, spec, func(ctx context.Context, hold *leasehold.Hold) error {
			if !hold.Valid() {
				return context.Cause(ctx)
			}
			tokens = append(tokens, hold.FencingToken())
			return counter.File(c.File).Add(hold.FencingToken())
		})
		if err != nil {
			return err
		}
	}
	d.emit(c.ID, "done", fields{"tokens": tokens})
	return nil
}
