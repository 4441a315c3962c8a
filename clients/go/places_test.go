package leasehold

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// tooOldFor is what a sidecar says that is too old for a request.
func tooOldFor(needs string) error {
	return reasoned(codes.Unimplemented, "UNSUPPORTED", map[string]string{"needs": needs, "revision": "1"})
}

// leaveFirst lets the client leave the connection that it has: its sidecar refuses another hold, which a new one grants.
// It gives the first sidecar.
func (b *bench) leaveFirst() (*fakeSidecar, *Hold) {
	b.Helper()
	first := b.replace()
	answer := b.ask(b.Context(), LeaseSpec{Wait: time.Minute})
	receive(b.T, "HoldLease", first.holds).fail(tooOldFor("2"))
	b.call().tell(grantedHere())
	return first, b.got(answer)
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

func (b *bench) wantNoPlaces() {
	b.Helper()
	eventually(b.T, "no place is taken", func() bool {
		runtime.GC()
		return b.places() == 0
	})
}

func TestS37WhatIsSaidOfAHoldThatIsOverGoesToItsOwnSidecarAndLeavesNothing(t *testing.T) {
	const report, saved = "ReportProgress lease-1 1", `SaveCheckpoint lease-1 1 "x"`
	completed := "CompleteRun lease-1 run-1 RUN_OUTCOME_SUCCEEDED 1"
	lose := func(b *bench, hold *Hold, call *holdCall) {
		call.tell(lostToAnother)
		lossOf(b.T, hold)
		receive(b.T, "the end of the stream", call.over)
	}
	succeed := func(b *bench, run *Run) {
		if _, err := run.Succeed(b.Context()); err != nil {
			b.Error(err)
		}
	}
	ends := map[string]struct {
		// hold and run end what came over a connection which is left by then.
		hold   func(b *bench, hold *Hold, call *holdCall)
		run    func(b *bench, run *Run, call *subscribeCall)
		wanted []string
	}{
		"released": {hold: func(b *bench, hold *Hold, _ *holdCall) {
			if _, err := hold.Save(b.Context(), []byte("x")); err != nil {
				b.Error(err)
			}
			b.mustRelease(hold)
		}, wanted: []string{saved, released}},
		"lost": {hold: func(b *bench, hold *Hold, call *holdCall) {
			lose(b, hold, call)
			_, err := hold.Release(b.Context())
			as[*LostError](b.T, err)
		}, wanted: []string{released}},
		"dropped": {hold: lose},
		"interrupted": {hold: func(b *bench, hold *Hold, call *holdCall) {
			call.fail(errGone)
			resume := b.call()
			if err := hold.ReportProgress(b.Context()); err != nil {
				b.Error(err)
			}
			lose(b, hold, resume)
		}, wanted: []string{report}},
		"resumed": {hold: func(b *bench, hold *Hold, call *holdCall) {
			call.fail(errGone)
			b.call().tell(event("granted", said{Until: 58_000, For: 58_000, Generation: 2}))
			eventually(b.T, "it is resumed", func() bool { return hold.state.answered() == 2 })
			b.mustRelease(hold)
		}},
		"run completed": {run: func(b *bench, run *Run, _ *subscribeCall) { succeed(b, run) }, wanted: []string{completed}},
		"run lost": {run: func(b *bench, run *Run, call *subscribeCall) {
			call.tell(runLost)
			lossOf(b.T, run.hold)
			receive(b.T, "the end of the stream", call.over)
			succeed(b, run)
		}, wanted: []string{completed}},
		"run's stream ended": {run: func(b *bench, run *Run, call *subscribeCall) {
			call.fail(errGone)
			resume := b.subscription()
			if of := resume.request; !of.GetReconnected() || of.GetRunId() != "run-1" || of.GetResume().GetResumeToken() != "resume-1" {
				b.Error(of)
			}
			resume.tell(runLost)
			lossOf(b.T, run.hold)
			receive(b.T, "the end of the stream", resume.over)
			succeed(b, run)
		}, wanted: []string{completed}},
		"run dropped": {run: func(b *bench, run *Run, call *subscribeCall) {
			call.tell(runLost)
			lossOf(b.T, run.hold)
		}},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			seen := &connections{}
			b := newBench(t, seen.option())
			first, hold := b.endElsewhere(end.hold, end.run)
			first.wantCalls(t, end.wanted...)
			if !strings.HasSuffix(name, "dropped") && name != "interrupted" {
				// Nobody waits for the collector of garbage then.
				defer runtime.KeepAlive(hold)
			}
			hold = nil
			b.wantNoPlaces()
			eventually(t, "what was left is closed", func() bool { return seen.open.Load() == seen.made.Load()-1 })
		})
	}
}

// endElsewhere has a hold or a run, leaves its connection, and ends it. It gives the first sidecar, and
// what is over.
func (b *bench) endElsewhere(
	end func(*bench, *Hold, *holdCall), endRun func(*bench, *Run, *subscribeCall),
) (*fakeSidecar, *Hold) {
	b.Helper()
	if end != nil {
		hold, call, _ := b.held()
		first, other := b.leaveFirst()
		end(b, hold, call)
		b.mustRelease(other)
		return first, hold
	}
	runs, run, call := b.running(nightly())
	first, other := b.leaveFirst()
	endRun(b, run, call)
	b.mustRelease(other)
	runs.Close()
	return first, run.hold
}

func TestS13EachHoldOfAFullConnectionHasRoomForACall(t *testing.T) {
	b := newBench(t, grpc.MaxConcurrentStreams(256))
	var asked []<-chan asking
	var calls []*holdCall
	for range streamsPerConnection {
		asked = append(asked, b.ask(t.Context(), LeaseSpec{}))
		calls = append(calls, b.call())
	}
	// All wait before the first is granted.
	var holds []*Hold
	for i, call := range calls {
		call.tell(grantedHere())
		holds = append(holds, b.got(asked[i]))
	}
	b.releaseAtOnce(holds)
}

// releaseAtOnce releases holds, none of which is answered before all have come.
func (b *bench) releaseAtOnce(holds []*Hold) {
	b.Helper()
	var all, over sync.WaitGroup
	all.Add(len(holds))
	on(b.sidecar, func(*leaseholdv1.ReleaseLeaseRequest) (*leaseholdv1.ReleaseLeaseResponse, error) {
		all.Done()
		all.Wait()
		return &leaseholdv1.ReleaseLeaseResponse{Result: said{Outcome: "RELEASED"}.result()}, nil
	})
	for _, hold := range holds {
		over.Go(func() { b.mustRelease(hold) })
	}
	over.Wait()
	b.wantNoPlaces()
}

func TestS13HoldsThatAreAskedForOrResumedAtOnceHaveRoomForACallEach(t *testing.T) {
	b := newBench(t, grpc.MaxConcurrentStreams(256))
	b.answerAll()
	var asked []<-chan asking
	b.client.pool.mutex.Lock()
	for range streamsPerConnection {
		asked = append(asked, b.ask(t.Context(), LeaseSpec{}))
	}
	// A caller that waits for a mutex in vain for long gets it before those that come later, so all come before
	// the first goes on.
	for range 2 {
		time.Sleep(100 * time.Millisecond)
		b.client.pool.mutex.Unlock()
		b.client.pool.mutex.Lock()
	}
	b.client.pool.mutex.Unlock()
	var holds []*Hold
	for _, answer := range asked {
		holds = append(holds, b.got(answer))
	}
	b.wantRoom()
	b.kill()
	b.start()
	for range holds {
		b.call().tell(event("granted", said{Until: 58_000, For: 58_000, Generation: 2}))
	}
	for _, hold := range holds {
		eventually(t, "it is resumed", func() bool { return hold.state.answered() == 2 })
	}
	b.wantRoom()
	b.releaseAtOnce(holds)
}

func TestS13EachRunOfAFullConnectionHasRoomForItsCompletion(t *testing.T) {
	const subscribers = streamsPerConnection
	b := newBench(t, grpc.MaxConcurrentStreams(256))
	var all []*Runs
	var asking []<-chan nextRun
	var calls []*subscribeCall
	for range subscribers {
		all = append(all, b.runsOf(nightly()))
		asking = append(asking, b.next(all[len(all)-1]))
		calls = append(calls, b.subscription())
	}
	for range 2 {
		var runs []*Run
		for i, call := range calls {
			call.tell(standing, aRun(1, 58_000))
			runs = append(runs, b.gotRun(asking[i]))
		}
		var came, over sync.WaitGroup
		came.Add(subscribers)
		on(b.sidecar, func(*leaseholdv1.CompleteRunRequest) (*leaseholdv1.CompleteRunResponse, error) {
			came.Done()
			came.Wait()
			return &leaseholdv1.CompleteRunResponse{}, nil
		})
		for _, run := range runs {
			over.Go(func() {
				if _, err := run.Succeed(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		over.Wait()
		for i, call := range calls {
			call.tell(recorded)
			asking[i] = b.next(all[i])
		}
		// The room is kept for the next ones.
		b.wantRoom()
		if places := b.places(); places != 2*subscribers {
			t.Error(places)
		}
	}
	for _, runs := range all {
		runs.Close()
	}
	b.wantNoPlaces()
}

// wantRoom is that no connection carries more than it has places for.
func (b *bench) wantRoom() {
	b.Helper()
	b.client.pool.mutex.Lock()
	defer b.client.pool.mutex.Unlock()
	for _, connection := range b.client.pool.lasting {
		if connection.places > streamsPerConnection {
			b.Error("a connection has", connection.places, "places")
		}
	}
}
