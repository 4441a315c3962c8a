package leasehold

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// tooOldFor2 is what a sidecar says that is too old for a request.
var tooOldFor2 = refusing{Code: "UNIMPLEMENTED", Reason: "UNSUPPORTED", Needs: 2, Revision: 1}.err()

// wantBy is what was sent over a connection, in this order.
func (s *stage) wantBy(connection int32, wanted ...string) {
	s.Helper()
	synctest.Wait()
	var by []string
	s.locked(func() {
		for _, came := range s.calls {
			if came.by == connection {
				by = append(by, came.words)
			}
		}
	})
	same(s, fmt.Sprint("by connection ", connection), by, wanted)
}

// places is how many are taken on connections for lasting calls, none of which has more than it carries.
func (s *stage) places() (places int) {
	s.Helper()
	s.client.pool.mutex.Lock()
	defer s.client.pool.mutex.Unlock()
	for _, connection := range s.client.pool.lasting {
		places += connection.places
		want(s, connection.places <= streamsPerConnection, "a connection has", connection.places, "places")
	}
	return places
}

func (s *stage) wantPlaces(wanted int) {
	s.Helper()
	synctest.Wait()
	same(s, "places", []int{s.places()}, []int{wanted})
}

// answersAtOnce has calls made, none of which is answered before all have come.
func (s *stage) answersAtOnce(name string, answer said, calls []func() error) {
	s.Helper()
	s.always(name, nil)
	var over []<-chan outcome[any]
	for _, call := range calls {
		over = append(over, ending(call))
	}
	for range calls {
		s.give(name, answer)
	}
	for _, ended := range over {
		ok(s, (<-ended).err)
	}
}

func (stories) MoreStreamsThanAConnectionCarriesOpenAnotherOneWhichIsClosedAfterwards(s *stage) {
	ctx, cancel := context.WithCancel(s.Context())
	for range streamsPerConnection + 1 {
		s.watches(ctx)
	}
	s.wantPlaces(streamsPerConnection + 1)
	// The one for short calls is not needed yet.
	want(s, s.open.Load() == 2, s.open.Load())
	cancel()
	s.wantPlaces(0)
	want(s, s.open.Load() == 1, s.open.Load())
	connection := must(s.client.pool.take(1))
	connection.leave()
	want(s, connection.conn.GetState() != connectivity.Shutdown, "it is kept for the next stream")
	// It is given up when its stream has left.
	connection.giveUp()
	want(s, connection.conn.GetState() == connectivity.Shutdown && len(s.client.pool.lasting) == 0, "it is left")
}

// The race detector tells; without it the process ends now and then.
func (stories) ANewConnectionIsNotTriedAnewWhileItsFirstCallConnectsIt(s *stage) {
	for range 20 {
		connection := must(s.client.pool.connect())
		go connection.conn.Connect()
		for connection.conn.GetState() != connectivity.Ready {
			connection.retry()
		}
		ok(s, connection.conn.Close())
	}
}

func (stories) MoreUnaryWaitsThanAConnectionCarriesLeaveRoomAndAreReleasedWhereTheyWereGranted(s *stage) {
	s.always("AcquireLease", nil)
	c, ctx := s.client, s.Context()
	var asked []<-chan outcome[Grant]
	for range streamsPerConnection + 3 {
		asked = append(asked, later(func() (Grant, error) { return c.Acquire(ctx, LeaseSpec{Wait: time.Minute}) }))
	}
	ok(s, errOf(c.Release(ctx, "lease-9")))
	for i, answer := range asked {
		s.give("AcquireLease", s.acquired(fmt.Sprint("lease-", i)))
		ok(s, (<-answer).err)
	}
	s.wantPlaces(3)
	s.calls = nil
	for _, id := range []string{"lease-0", "lease-200"} {
		ok(s, errors.Join(errOf(c.ReportProgress(ctx, id)), errOf(c.GetHold(ctx, id)), errOf(c.SaveCheckpoint(ctx, id, nil)),
			errOf(c.Release(ctx, id))))
	}
	for connection := range int32(2) {
		s.wantBy(connection+1, "report_progress 0", "get_hold 0", "save_checkpoint 0 ", "release 0")
	}
	// What is not released ends with MaxHold.
	s.always("extend_lease", said{"until": 58_000, "for": 58_000, "max_hold": said{"at": s.clock() + 90_000, "after": 90_000}})
	ok(s, errOf(c.Extend(ctx, "lease-201", 90*time.Second)))
	s.wantPlaces(2)
	s.pass(60_000)
	s.wantPlaces(1)
	s.always("release", refusing{Code: "NOT_FOUND", Reason: "UNKNOWN_LEASE"}.err())
	s.calls = nil
	for range 2 {
		as[*RefusedError](s, errOf(c.Release(ctx, "lease-201")))
	}
	s.wantBy(2, "release 0")
	s.wantPlaces(0)
}

func TestS37WhatIsSaidOfAHoldThatIsOverGoesToItsOwnSidecarAndLeavesNothing(t *testing.T) {
	lost, resumed := said{"reason": "TAKEN"}, said{"until": 59_000, "for": 58_000, "generation": 2}
	broken := func(s *stage) { s.breaks(1, errGone) }
	release := func(s *stage, hold *Hold) error { return errOf(hold.Release(s.Context())) }
	succeed := func(s *stage, _ *Hold) error { return errOf(s.run.Succeed(s.Context())) }
	type ending struct {
		isRun bool
		// first happens to what came over the first connection, which is left by then, and end ends it.
		first func(s *stage, hold *Hold)
		end   func(s *stage, hold *Hold) error
		// wanted is what goes over that connection besides.
		wanted []string
	}
	each(t, map[string]ending{
		"released": {false, func(s *stage, hold *Hold) { must(hold.Save(s.Context(), []byte("x"))) }, release,
			[]string{"save_checkpoint 1 x", "release 1"}},
		"lost": {false, func(s *stage, _ *Hold) { s.tells(1, "lost", lost) }, release, []string{"release 1"}},
		"interrupted": {false, func(s *stage, hold *Hold) { broken(s); ok(s, hold.ReportProgress(s.Context())); s.says("lost", lost) },
			release, []string{"report_progress 1"}},
		"resumed":            {false, func(s *stage, _ *Hold) { broken(s); s.says("granted", resumed) }, release, nil},
		"run completed":      {true, func(*stage, *Hold) {}, succeed, []string{"complete_run 1 SUCCEEDED"}},
		"run lost":           {true, func(s *stage, _ *Hold) { s.tells(1, "lost", lost) }, succeed, []string{"complete_run 1 SUCCEEDED"}},
		"run's stream ended": {true, func(s *stage, _ *Hold) { broken(s); s.says("lost", lost) }, succeed, []string{"complete_run 1 SUCCEEDED"}},
	}, func(s *stage, name string, of ending) {
		sent := []string{"hold", "hold wait 60000"}
		if of.isRun {
			s.running()
			sent[0] = "subscribe"
		} else {
			s.holds()
		}
		hold, run := s.hold(), s.run
		// A hold is refused there, and granted over another connection.
		asked := s.asks(s.Context(), LeaseSpec{Wait: time.Minute})
		s.breaks(0, tooOldFor2)
		s.pass(1_000)
		other := s.granted(asked)
		s.has(hold, run)
		of.first(s, hold)
		var isLost *LostError
		err := of.end(s, hold)
		want(s, err == nil || errors.As(err, &isLost), err)
		s.wantBy(1, append(sent, of.wanted...)...)
		s.releases(other)
		s.runs.Close()
		s.wantPlaces(0)
		want(s, s.open.Load() == s.made.Load()-1, "what was left is not closed")
		runtime.KeepAlive(hold)
	})
}

func (stories) WhatIsDroppedWithoutAWordLeavesNothing(s *stage) {
	for _, isRun := range []bool{false, true} {
		if isRun {
			s.running()
		} else {
			s.holds()
		}
		if s.says("lost", said{"reason": "TAKEN"}); isRun {
			s.runs.Close()
		}
		s.has(nil, nil)
		for tries := 0; s.places() > 0 && tries < 1_000; tries++ {
			runtime.GC()
		}
		s.wantPlaces(0)
	}
}

func (stories) S13HoldsThatAreAskedForOrResumedAtOnceHaveRoomForACallEach(s *stage) {
	var asked []<-chan outcome[*Hold]
	for range streamsPerConnection {
		asked = append(asked, s.asks(s.Context(), LeaseSpec{}))
	}
	// All wait before the first is granted.
	s.wantPlaces(2 * streamsPerConnection)
	var releases []func() error
	for i, answer := range asked {
		s.tells(i+1, "granted", s.fresh())
		hold := (<-answer).value
		releases = append(releases, func() error { return errOf(hold.Release(s.Context())) })
	}
	s.kill()
	s.start()
	s.pass(10_000)
	s.wantPlaces(4 * streamsPerConnection)
	of := s.fresh()
	of["generation"] = 2
	for i := range releases {
		s.tells(streamsPerConnection+i+1, "granted", of)
	}
	s.wantPlaces(2 * streamsPerConnection)
	s.answersAtOnce("release", said{"outcome": "RELEASED"}, releases)
	s.wantPlaces(0)
	want(s, request[*leaseholdv1.ReleaseLeaseRequest](s).GetGeneration() == 2, "it was not resumed")
}

func (stories) S13EachRunOfAFullConnectionHasRoomForItsCompletion(s *stage) {
	var all []*Runs
	for range streamsPerConnection {
		all = append(all, must(s.client.Runs(nightly())))
	}
	for range 2 {
		var completions []func() error
		for i, runs := range all {
			asked := later(func() (*Run, error) { return runs.Next(s.Context()) })
			s.tells(i+1, "run", s.fresh())
			run := (<-asked).value
			completions = append(completions, func() error { return errOf(run.Succeed(s.Context())) })
		}
		s.answersAtOnce("complete_run", said{"result": "RECORDED"}, completions)
		// The room is kept for the next ones.
		s.wantPlaces(2 * streamsPerConnection)
	}
	for _, runs := range all {
		runs.Close()
	}
	s.wantPlaces(0)
}

// failsLong makes calls until the connection pauses between its tries.
func (s *stage) failsLong(call func() error) {
	s.Helper()
	s.kill()
	_ = call()
	for range 3 {
		as[*UnreachableError](s.T, call())
		s.pass(s.clock() + 1_000)
	}
	s.start()
}

func (stories) S16WhatGoesThroughOverOneConnectionIsNotRefusedOverAnotherThatHadFailedBefore(s *stage) {
	extend := func() error { return errOf(s.client.Extend(s.Context(), "lease-1", time.Minute)) }
	s.failsLong(func() error { return errOf(s.client.Hold(s.Context(), LeaseSpec{})) })
	ok(s, extend())
	s.releases(s.holds())
	s.failsLong(extend)
	hold := s.holds()
	ok(s, extend())
	// So is the release of a hold that was resumed.
	s.failsLong(func() error { return hold.Extend(s.Context(), time.Minute) })
	s.pass(s.clock() + 1_000)
	s.says("granted", s.fresh())
	s.wantTold("interrupted", "resumed")
	s.releases(hold)
}

// lateTimer is a context whose deadline has passed, though its timer fires only when somebody waits for it.
type lateTimer struct {
	context.Context
	fire func()
}

func (lateTimer) Deadline() (time.Time, bool) { return time.Now(), true }
func (l lateTimer) Done() <-chan struct{}     { l.fire(); return l.Context.Done() }

func (stories) ACallThatTheSidecarEndsAtTheDeadlineIsOverdueThoughTheTimerIsLate(s *stage) {
	for _, code := range []codes.Code{codes.DeadlineExceeded, codes.Canceled} {
		ctx, cancel := context.WithCancelCause(s.Context())
		late := lateTimer{ctx, func() { cancel(errWork) }}
		wantIs(s, s.client.pool.general.failure(late, status.Error(code, "RST_STREAM")), errWork)
	}
}
