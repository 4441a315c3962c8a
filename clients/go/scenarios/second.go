package main

import (
	"context"
	"errors"

	leasehold "github.com/leasehold/leasehold/clients/go"
)

// lead leads until it is told to stop.
func (d *driver) lead(ctx context.Context, client *leasehold.Client, c command) error {
	err := client.Lead(ctx, c.spec(), func(ctx context.Context, term *leasehold.Hold) error {
		d.emit(c.ID, "leading", fields{"token": term.FencingToken()})
		<-ctx.Done()
		if term.Loss() != nil {
			d.emit(c.ID, "term_ended", nil)
		}
		return context.Cause(ctx)
	})
	if errors.Is(err, context.Canceled) {
		d.emit(c.ID, "stopped_leading", nil)
		return nil
	}
	return err
}

// watchLocks tells what happens to many locks.
func (d *driver) watchLocks(ctx context.Context, client *leasehold.Client, c command) error {
	for event, err := range client.WatchLocks(ctx, leasehold.WatchOptions{Prefix: c.Prefix, Share: c.Share}) {
		if err != nil {
			return err
		}
		switch event := event.(type) {
		case leasehold.LockChanged:
			record := event.Record
			d.emit(c.ID, "lock_changed", told(record, fields{"path": record.LockPath, "state": record.State}))
		case leasehold.LockGone:
			d.emit(c.ID, "lock_gone", fields{"path": event.LockPath})
		case leasehold.LocksListed:
			d.emit(c.ID, "listed", fields{"locks": event.Locks})
		}
	}
	return nil
}

// text is the value of a checkpoint; nil if there is none.
func text(checkpoint *leasehold.Checkpoint) *string {
	if checkpoint == nil {
		return nil
	}
	value := string(checkpoint.Value)
	return &value
}
