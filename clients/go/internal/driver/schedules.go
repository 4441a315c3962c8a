package main

import (
	"context"
	"errors"
	"time"

	leasehold "github.com/leasehold/leasehold/clients/go"
)

// runs takes part in a schedule until it is cancelled, and completes each run when it is told to.
func (d *driver) runs(ctx context.Context, client *leasehold.Client, c command, one *running) error {
	spec := leasehold.ScheduleSpec{
		Key: c.key(), Every: duration(c.Every), Backoff: duration(c.Backoff),
		OnEvent: func(event leasehold.ScheduleEvent) {
			if _, isSubscribed := event.(leasehold.Subscribed); isSubscribed {
				d.emit(c.ID, "subscribed", nil)
			}
		},
		OnHoldEvent: func(event leasehold.Event) { d.happened(c.ID, event) },
	}
	runs, err := client.Runs(spec)
	if err != nil {
		return err
	}
	for run, err := range runs.All(ctx) {
		if err != nil {
			return err
		}
		d.emit(c.ID, "run", fields{
			"at": run.ScheduledAt().Unix(), "attempt": run.Attempt(), "token": run.FencingToken(),
		})
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
	var unrecorded *leasehold.OutcomeError
	if err != nil && !errors.As(err, &unrecorded) {
		return err
	}
	isRecorded := result.OutcomeResult == leasehold.OutcomeResultRecorded
	d.emit(c.ID, "released", fields{"attempt": hold.Attempt(), "recorded": isRecorded})
	return nil
}
