package leasehold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// follow watches many locks on a goroutine of its own; events come by the channel as text, and the error last.
func (b *bench) follow(ctx context.Context, options WatchOptions) <-chan any {
	told := make(chan any, 16)
	go func() {
		defer close(told)
		for event, err := range b.client.WatchLocks(ctx, options) {
			switch event := event.(type) {
			case LockChanged:
				told <- event.Record.LockPath + " of " + event.Record.Holder
			case LockGone:
				told <- "no " + event.LockPath
			case LocksListed:
				told <- fmt.Sprint(event.Locks)
			default:
				told <- err
			}
		}
	}()
	return told
}

func wantTold(t *testing.T, told <-chan any, wanted ...string) {
	t.Helper()
	for _, text := range wanted {
		if got := receive(t, text, told); got != any(text) {
			t.Errorf("%v, not %s", got, text)
		}
	}
}

func TestAWatchOfManyTellsOnlyTheDifferencesAfterABreak(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	told := b.follow(ctx, WatchOptions{Prefix: "p", Labels: map[string]string{"team": "a"}})
	call := receive(t, "WatchLocks", b.sidecar.follows)
	if call.request.GetPrefix() != "p" || call.request.GetLabels()["team"] != "a" {
		t.Error(call.request)
	}
	for _, path := range []string{"a", "b", "c"} {
		call.changed(path, "x")
	}
	call.listed(3)
	call.gone("c")
	call.gone("never-told")
	wantTold(t, told, "a of x", "b of x", "c of x", "3", "no c")
	call.answers <- errGone
	call = receive(t, "WatchLocks again", b.sidecar.follows)
	// The first is as before, the second vanished meanwhile, and the third is new.
	call.changed("a", "x")
	call.changed("d", "y")
	call.listed(2)
	wantTold(t, told, "d of y", "no b", "2")
	call.changed("a", "z")
	wantTold(t, told, "a of z")
	cancel()
	if err, isError := receive(t, "the end", told).(error); !isError || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	receive(t, "the end of the stream", call.over)
}

func TestLocksAreWatchedByHostIDOrByPrefix(t *testing.T) {
	b := newBench(t)
	for _, err := range b.client.WatchLocks(t.Context(), WatchOptions{HostID: "h", Prefix: "p"}) {
		if err == nil {
			t.Error("both were given")
		}
	}
	b.follow(t.Context(), WatchOptions{HostID: "h"})
	if call := receive(t, "WatchLocks", b.sidecar.follows); call.request.GetHostId() != "h" {
		t.Error(call.request)
	}
}

func TestTheServerInfoIsTold(t *testing.T) {
	b := newBench(t)
	b.sidecar.info = &leaseholdv1.GetServerInfoResponse{
		Version: "0.2.0", BootId: "k", Features: []string{"permits"}, HostId: "h", HostType: "t", Layout: "hashed", Store: "azure",
		Limits: &leaseholdv1.ServerLimits{
			Wait: wireDuration(1 * time.Second), MaxHold: wireDuration(2 * time.Second),
			DefaultMaxHold: wireDuration(3 * time.Second), DefaultLeaseDuration: wireDuration(4 * time.Second),
			Holds: 5, Waiters: 6, StreamsPerConnection: 7, Permits: 8, CheckpointBytes: 9,
		},
	}
	info, err := b.client.GetServerInfo(t.Context())
	limits := ServerLimits{
		Wait: 1 * time.Second, MaxHold: 2 * time.Second, DefaultMaxHold: 3 * time.Second,
		DefaultLeaseDuration: 4 * time.Second, Holds: 5, Waiters: 6, StreamsPerConnection: 7, Permits: 8, CheckpointBytes: 9,
	}
	if err != nil || info.Version != "0.2.0" || info.BootID != "k" || info.HostID != "h" || info.HostType != "t" ||
		info.Layout != "hashed" || info.Store != "azure" || info.Limits != limits ||
		!slices.Equal(info.Features, []string{"permits"}) {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestAHoldAsksForWhatTheSidecarKnowsOfItAndTheValidityCounts(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.heldHere()
	b.answerReports(validity(ours, 1_060, 60), nil)
	b.sidecar.holdState, b.sidecar.limit = leaseholdv1.HoldState_HOLD_STATE_HELD, deadline(ours, 1_300, 300)
	info, err := hold.Info(t.Context())
	if err != nil || info.State != HoldStateHeld || hold.Remaining() != 60*time.Second {
		t.Error(info, err)
	}
	wantLimit(t, hold, 1_300)
	b.answerReports(nil, holdLost(t, "TAKEN"))
	var refused *RefusedError
	if _, err := hold.Info(t.Context()); !errors.As(err, &refused) {
		t.Error(err)
	}
	if loss := lossOf(t, hold); loss.Reason != LossReasonTaken {
		t.Error(loss)
	}
}
