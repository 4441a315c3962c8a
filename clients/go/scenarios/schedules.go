package main

import (
	"context"
	"errors"
	"time"

	leasehold "github.com/leasehold/leasehold/clients/go"
)

// runs takes part in a schedule until it is cancelled, and completes each run when it is told to.
func (d *driver) runs(ctx context.Context, client *leasehold.Client, c command, one *running) error {
	runs, err := client.Runs(d.schedule(c))
	if err != nil {
		return err
	}
	for run, err := range runs.All(ctx) {
		if err != nil {
			return err
		}
		d.tellRun(c.ID, run)
		select {
		case <-run.Context().Done():
			if loss := run.Loss(); loss != nil {
				d.emit(c.ID, "lost", fields{"detail": loss.Error()})
			}
		case told := <-one.told:
			completed, err := run.Complete(ctx, leasehold.Completion{Outcome: leasehold.RunOutcome(told.Outcome)})
			if err != nil {
				return err
			}
			d.emit(c.ID, "completed", fields{"result": completed.Result})
		}
	}
	return nil
}

// every runs a function that hangs: whatever becomes of its run, it returns when it is told to, and not before.
func (d *driver) every(ctx context.Context, client *leasehold.Client, c command, one *running) error {
	return client.Every(ctx, d.schedule(c), func(_ context.Context, run *leasehold.Run) error {
		d.tellRun(c.ID, run)
		stop := context.AfterFunc(run.Context(), func() {
			var lost *leasehold.LostError
			if errors.As(run.Loss(), &lost) {
				d.emit(c.ID, "lost", fields{"reason": lost.Reason})
			}
		})
		defer stop()
		<-one.told
		return nil
	})
}

// schedule is the one that a command names, whose events are told.
func (d *driver) schedule(c command) leasehold.ScheduleSpec {
	return leasehold.ScheduleSpec{
		Key: c.key(), Every: duration(c.Every), Backoff: duration(c.Backoff), RunTimeout: duration(c.RunTimeout),
		OnEvent: func(event leasehold.ScheduleEvent) {
			switch event.(type) {
			case leasehold.Subscribed:
				d.emit(c.ID, "subscribed", nil)
			case leasehold.Interrupted:
				d.emit(c.ID, "interrupted", nil)
			}
		},
		OnHoldEvent: func(event leasehold.HoldEvent) { d.happened(c.ID, event) },
	}
}

func (d *driver) tellRun(id string, run *leasehold.Run) {
	d.emit(id, "run", fields{
		"at": run.ScheduledAt().Unix(), "attempt": run.Attempt(), "token": run.FencingToken(),
	})
}

// occurrence holds a lock for a named occurrence, and releases it with the outcome, if there is one.
func (d *driver) occurrence(ctx context.Context, client *leasehold.Client, c command) error {
	hold, err := client.Hold(ctx, leasehold.LeaseSpec{Key: c.key(), Occurrence: time.Unix(c.At, 0)})
	var over *leasehold.OccurrenceOverError
	if errors.As(err, &over) {
		var outcome *leasehold.RunOutcome
		if over.Run != nil {
			outcome = &over.Run.Outcome
		}
		d.emit(c.ID, "over", fields{"outcome": outcome})
		return nil
	}
	if err != nil {
		return err
	}
	var options []leasehold.ReleaseOption
	if c.Outcome != "" {
		options = append(options, leasehold.WithOutcome(leasehold.RunOutcome(c.Outcome)))
	}
	result, err := hold.Release(ctx, options...)
	var unrecorded *leasehold.OutcomeNotRecordedError
	if err != nil && !errors.As(err, &unrecorded) {
		return err
	}
	isRecorded := result.OutcomeResult == leasehold.OutcomeResultRecorded
	d.emit(c.ID, "released", fields{"attempt": hold.Attempt(), "recorded": isRecorded})
	return nil
}
