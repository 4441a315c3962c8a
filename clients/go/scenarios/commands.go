package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	leasehold "github.com/leasehold/leasehold/clients/go"
)

// errBoom is what the command fail makes a block return.
var errBoom = errors.New("boom")

// run runs a command to its end. The errors that it gives are told by fail.
func (d *driver) run(ctx context.Context, client *leasehold.Client, c command, one *running) error {
	switch c.Do {
	case "hold":
		return d.hold(ctx, client, c, one)
	case "acquire":
		grant, err := client.Acquire(ctx, c.spec())
		if err != nil {
			return err
		}
		d.emit(c.ID, "granted", fields{
			"token": grant.FencingToken, "lease_id": grant.LeaseID, "lock_path": grant.LockPath,
		})
	case "release_lease":
		result, err := client.Release(ctx, c.LeaseID)
		if err != nil {
			return err
		}
		d.emit(c.ID, "released", fields{"outcome": result.Outcome})
	case "extend":
		if _, err := client.Extend(ctx, c.LeaseID, duration(c.MaxHold)); err != nil {
			return err
		}
		d.emit(c.ID, "extended", nil)
	case "quick":
		return d.quick(ctx, client, c)
	case "measure":
		return d.measure(ctx, client, c)
	case "contend":
		return d.contend(ctx, client, c)
	case "lead":
		return d.lead(ctx, client, c)
	case "runs":
		return d.runs(ctx, client, c, one)
	case "every":
		return d.every(ctx, client, c, one)
	case "occurrence":
		return d.occurrence(ctx, client, c)
	default:
		return d.ask(ctx, client, c)
	}
	return nil
}

// ask runs a command that takes nothing.
func (d *driver) ask(ctx context.Context, client *leasehold.Client, c command) error {
	switch c.Do {
	case "resolve":
		answer, err := client.ResolvePath(ctx, c.key())
		if err != nil {
			return err
		}
		d.emit(c.ID, "resolved", fields{"lock_path": answer.LockPath})
	case "list":
		paths := []string{}
		for record, err := range client.ListLocks(ctx, leasehold.ListOptions{Share: c.Share}) {
			if err != nil {
				return err
			}
			paths = append(paths, record.LockPath)
		}
		d.emit(c.ID, "listed", fields{"paths": paths})
	case "check":
		answer, err := client.CheckToken(ctx, c.key(), c.Token)
		if err != nil {
			return err
		}
		d.emit(c.ID, "checked", fields{"status": answer.Status})
	case "break":
		answer, err := client.BreakLock(ctx, c.key(), leasehold.BreakOptions{Reason: c.Reason, Now: c.Now})
		if err != nil {
			return err
		}
		d.emit(c.ID, "broken", fields{"outcome": answer.Outcome})
	case "watch":
		for record, err := range client.WatchLock(ctx, c.key()) {
			if err != nil {
				return err
			}
			d.emit(c.ID, "watched", told(record, fields{"state": record.State}))
		}
	case "watch_locks":
		return d.watchLocks(ctx, client, c)
	case "server_info":
		info, err := client.GetServerInfo(ctx)
		if err != nil {
			return err
		}
		d.emit(c.ID, "server_info", fields{"version": info.Version, "features": info.Features})
	case "exit_with_open_watch":
		return d.exitWithOpenWatch(ctx, client, c)
	default:
		return fmt.Errorf("nothing is called %q", c.Do)
	}
	return nil
}

// exitWithOpenWatch ends the program while a watch is open.
func (d *driver) exitWithOpenWatch(ctx context.Context, client *leasehold.Client, c command) error {
	next, stop := iter.Pull2(client.WatchLock(ctx, c.key()))
	d.left = append(d.left, stop)
	record, err, _ := next()
	if err != nil {
		return err
	}
	d.emit(c.ID, "watched", fields{"state": record.State})
	close(d.ended)
	// The context of the watch ends with this, which the program's end is to come before.
	select {}
}

// hold holds a lock by the block form until it is told to leave the block.
func (d *driver) hold(ctx context.Context, client *leasehold.Client, c command, one *running) error {
	spec := c.spec()
	spec.OnEvent = func(event leasehold.HoldEvent) { d.happened(c.ID, event) }
	released := fields{}
	err := client.WithHold(ctx, spec, func(ctx context.Context, hold *leasehold.Hold) error {
		one.mutex.Lock()
		one.hold = hold
		one.mutex.Unlock()
		d.emit(c.ID, "granted", fields{
			"token": hold.FencingToken(), "lease_id": hold.LeaseID(), "lock_path": hold.LockPath(),
			"permit": hold.Permit(), "checkpoint": text(hold.Checkpoint()),
		})
		select {
		case <-ctx.Done():
			if hold.Loss() != nil {
				d.emit(c.ID, "cancelled", nil)
			}
			return context.Cause(ctx)
		case told := <-one.told:
			switch {
			case told.Do == "fail":
				return errBoom
			case told.Checkpoint != nil:
				result, err := hold.Release(ctx, leasehold.WithCheckpoint([]byte(*told.Checkpoint)))
				released["checkpoint"] = strings.ToLower(string(result.CheckpointOutcome))
				return err
			case c.Form == "call":
				_, err := hold.Release(ctx)
				return err
			default:
				return nil
			}
		}
	})
	var lost *leasehold.LostError
	var release *leasehold.ReleaseUnconfirmedError
	var unsaved *leasehold.CheckpointNotSavedError
	var unknown *leasehold.CheckpointUnknownError
	switch {
	case err == nil, errors.As(err, &unsaved), errors.As(err, &unknown):
		d.emit(c.ID, "released", released)
	case errors.As(err, &lost):
		d.emit(c.ID, "lost", fields{"reason": lost.Reason, "detail": lost.Detail})
	case errors.As(err, &release):
		d.emit(c.ID, "release_unconfirmed", fields{"message": err.Error()})
	case errors.Is(err, context.Canceled) && one.wasInterrupted():
		d.emit(c.ID, "interrupted_outside", nil)
	case errors.Is(err, errBoom):
		d.emit(c.ID, "failed", fields{"error": errBoom.Error()})
	default:
		return err
	}
	return nil
}

// wasInterrupted is whether the caller's context was cancelled in the block.
func (r *running) wasInterrupted() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.interrupted
}

// happened tells an event of a hold that the block does not tell by itself.
func (d *driver) happened(id string, event leasehold.HoldEvent) {
	switch event := event.(type) {
	case leasehold.Waiting:
		d.emit(id, "waiting", fields{"place": event.Position})
	case leasehold.AtRisk:
		d.emit(id, "at_risk", fields{"cause": event.Cause, "detail": event.Detail})
	case leasehold.Recovered:
		d.emit(id, "recovered", nil)
	case leasehold.Draining:
		d.emit(id, "draining", fields{"time_left_ms": event.TimeLeft.Milliseconds()})
	case leasehold.Interrupted:
		d.emit(id, "interrupted", fields{"detail": event.Detail})
	case leasehold.Resumed:
		d.emit(id, "resumed", nil)
	case leasehold.Revoked:
		d.emit(id, "revoked", fields{"reason": event.Notice.Reason, "for_priority": event.Notice.ForPriority})
	}
}

// quick takes and releases a lock again and again.
func (d *driver) quick(ctx context.Context, client *leasehold.Client, c command) error {
	tokens := make([]uint64, 0, c.Times)
	for range c.Times {
		err := client.WithHold(ctx, c.spec(), func(_ context.Context, hold *leasehold.Hold) error {
			tokens = append(tokens, hold.FencingToken())
			return nil
		})
		if err != nil {
			return err
		}
	}
	d.emit(c.ID, "done", fields{"tokens": tokens})
	return nil
}

// fail tells an error that ended a command.
func (d *driver) fail(id string, err error) {
	var busy *leasehold.BusyError
	var refused *leasehold.RefusedError
	more := fields{"code": "UNKNOWN", "reason": "", "message": err.Error(), "fields": []string{}}
	var unreachable *leasehold.UnreachableError
	switch {
	case errors.Is(err, context.Canceled):
		d.emit(id, "aborted", nil)
		return
	case errors.As(err, &busy):
		record := busy.Busy.Record
		line := told(record, fields{
			"holder": record.Holder, "token": record.FencingToken, "held_permits": busy.Busy.HeldPermits,
			"priority_status": nil,
		})
		if status := busy.Busy.PriorityStatus; status != leasehold.PriorityStatusNone {
			line["priority_status"] = status
		}
		d.emit(id, "busy", line)
		return
	case errors.As(err, &unreachable):
		more["code"] = "UNAVAILABLE"
	case errors.As(err, &refused):
		names := []string{}
		for _, violation := range refused.Violations {
			names = append(names, violation.Field)
		}
		more["code"], more["reason"], more["fields"] = refused.Code, refused.Reason, names
	}
	d.emit(id, "error", more)
}

// told adds what a record tells of its holder's place among others.
func told(record leasehold.LockRecord, more fields) fields {
	more["sidecar"], more["share"] = record.Sidecar, record.Share
	more["priority"], more["yields"] = record.Priority, record.Yields
	return more
}

// perSecond is how often something happens a second.
func perSecond(times int, took time.Duration) float64 {
	return float64(times) / took.Seconds()
}
