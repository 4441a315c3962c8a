package leasehold

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// leaveFirst lets the client leave the connection that it has: its sidecar refuses another hold, which a new one grants.
// It gives the first sidecar.
func (b *bench) leaveFirst() (*fakeSidecar, *Hold) {
	b.Helper()
	first := b.replace()
	answer := b.ask(b.Context(), LeaseSpec{Wait: time.Minute})
	receive(b.T, "HoldLease", first.holds).fail(tooOldFor("2"))
	b.call().tell(grantedHere())
	asked := receive(b.T, "the hold", answer)
	if asked.err != nil {
		b.Fatal(asked.err)
	}
	return first, asked.hold
}

// places is how many places are taken on the client's connections for lasting calls.
func (b *bench) places() (places int) {
	b.client.pool.mutex.Lock()
	defer b.client.pool.mutex.Unlock()
	for _, connection := range b.client.pool.lasting {
		places += connection.places
	}
	return places
}

func wantLost(t *testing.T, err error) {
	t.Helper()
	var lost *LostError
	if !errors.As(err, &lost) {
		t.Error(err)
	}
}

func TestS37WhatIsSaidOfAHoldThatIsOverGoesToItsOwnSidecarAndLeavesNothing(t *testing.T) {
	release, report := "release lease-1 of generation 1", "report of generation 1"
	ends := map[string]struct {
		// end ends a hold or a run that came over a connection which is left by then.
		end    func(b *bench, hold *Hold, call *holdCall)
		run    func(b *bench, run *Run, call *subscribeCall)
		wanted []string
	}{
		"released": {end: func(b *bench, hold *Hold, _ *holdCall) {
			if _, err := hold.Release(b.Context()); err != nil {
				b.Error(err)
			}
		}, wanted: []string{release}},
		"lost": {end: func(b *bench, hold *Hold, call *holdCall) {
			call.tell(lostFor(leaseholdv1.LossReason_LOSS_REASON_TAKEN))
			lossOf(b.T, hold)
			receive(b.T, "the end of the stream", call.over)
			_, err := hold.Release(b.Context())
			wantLost(b.T, err)
		}, wanted: []string{release}},
		"dropped": {end: func(b *bench, hold *Hold, call *holdCall) {
			call.tell(lostFor(leaseholdv1.LossReason_LOSS_REASON_TAKEN))
			lossOf(b.T, hold)
		}},
		"interrupted": {end: func(b *bench, hold *Hold, call *holdCall) {
			call.fail(errGone)
			resume := b.call()
			if err := hold.ReportProgress(b.Context()); err != nil {
				b.Error(err)
			}
			resume.tell(lostFor(leaseholdv1.LossReason_LOSS_REASON_TAKEN))
			lossOf(b.T, hold)
		}, wanted: []string{report}},
		"resumed": {end: func(b *bench, hold *Hold, call *holdCall) {
			call.fail(errGone)
			b.call().tell(resumedAs(2))
			eventually(b.T, "it is resumed", func() bool { return hold.state.answered() == 2 })
			if _, err := hold.Release(b.Context()); err != nil {
				b.Error(err)
			}
		}},
		"run completed": {run: func(b *bench, run *Run, _ *subscribeCall) {
			if _, err := run.Succeed(b.Context()); err != nil {
				b.Error(err)
			}
		}, wanted: []string{`complete run-1 of "lease-1" generation 1: SUCCEEDED ""`}},
		"run lost": {run: func(b *bench, run *Run, call *subscribeCall) {
			call.tell(runLost(leaseholdv1.LossReason_LOSS_REASON_TAKEN))
			lossOf(b.T, run.hold)
			receive(b.T, "the end of the stream", call.over)
			if _, err := run.Fail(b.Context(), ""); err != nil {
				b.Error(err)
			}
		}, wanted: []string{`complete run-1 of "lease-1" generation 1: FAILED ""`}},
		"run's stream ended": {run: func(b *bench, run *Run, call *subscribeCall) {
			call.fail(errGone)
			b.subscription().tell(runLost(leaseholdv1.LossReason_LOSS_REASON_TAKEN))
			lossOf(b.T, run.hold)
			if _, err := run.Succeed(b.Context()); err != nil {
				b.Error(err)
			}
		}, wanted: []string{`complete run-1 of "lease-1" generation 1: SUCCEEDED ""`}},
		"run dropped": {run: func(b *bench, run *Run, call *subscribeCall) {
			call.tell(runLost(leaseholdv1.LossReason_LOSS_REASON_TAKEN))
			lossOf(b.T, run.hold)
		}},
	}
	for name, case_ := range ends {
		t.Run(name, func(t *testing.T) {
			seen := &connections{}
			b := newBench(t, grpc.StatsHandler(seen))
			b.answerReports(validity(ours, 1_058, 58), nil)
			first := b.endElsewhere(case_.end, case_.run)
			if calls := first.calls(); !slices.Equal(calls, case_.wanted) {
				t.Error(calls)
			}
			eventually(t, "no place is taken", func() bool {
				runtime.GC()
				return b.places() == 0
			})
			eventually(t, "what was left is closed", func() bool { return seen.open.Load() == seen.made.Load()-1 })
		})
	}
}

// endElsewhere has a hold or a run, leaves its connection, and ends it. It gives the first sidecar.
func (b *bench) endElsewhere(
	end func(*bench, *Hold, *holdCall), endRun func(*bench, *Run, *subscribeCall),
) *fakeSidecar {
	b.Helper()
	if end != nil {
		hold, call, _ := b.heldHere()
		first, other := b.leaveFirst()
		end(b, hold, call)
		b.mustRelease(other)
		return first
	}
	runs, run, call := b.running(nightly())
	first, other := b.leaveFirst()
	endRun(b, run, call)
	b.mustRelease(other)
	runs.Close()
	return first
}

func (b *bench) mustRelease(hold *Hold) {
	b.Helper()
	if _, err := hold.Release(b.Context()); err != nil {
		b.Error(err)
	}
}

func TestS13EachHoldOfAFullConnectionHasRoomForACall(t *testing.T) {
	b := newBench(t, grpc.MaxConcurrentStreams(256))
	b.answerAll(grantedHere)
	var holds []*Hold
	for range streamsPerConnection {
		hold, err := b.client.Hold(t.Context(), LeaseSpec{})
		if err != nil {
			t.Fatal(err)
		}
		holds = append(holds, hold)
	}
	// None is answered before all have come.
	var all sync.WaitGroup
	all.Add(len(holds))
	b.sidecar.onRelease = func() error {
		all.Done()
		all.Wait()
		return nil
	}
	var released sync.WaitGroup
	for _, hold := range holds {
		released.Go(func() { b.mustRelease(hold) })
	}
	released.Wait()
	eventually(t, "no place is taken", func() bool { return b.places() == 0 })
}
