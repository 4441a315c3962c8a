package leasehold

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
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
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var by []string
	for _, came := range s.requests {
		if came.by == connection {
			by = append(by, came.words)
		}
	}
	if !slices.Equal(by, wanted) {
		s.Errorf("by %d: %q, not %q", connection, by, wanted)
	}
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
	if places := s.places(); places != wanted {
		s.Errorf("%d places are taken, not %d", places, wanted)
	}
}

// answersAtOnce has calls made, none of which is answered before all have come.
func (s *stage) answersAtOnce(name string, answer said, calls []func() error) {
	s.Helper()
	s.always(name, nil)
	var over []<-chan outcome[any]
	for _, call := range calls {
		over = append(over, later(func() (any, error) { return nil, call() }))
	}
	for range calls {
		s.give(name, answer)
	}
	for _, ended := range over {
		ok(s, (<-ended).err)
	}
}

func (stories) TheSecondConnectionIsMadeForTheFirstCallThatConcernsNoStreamAndClosedWithTheOther(s *stage) {
	hold := s.holds()
	for range 2 {
		err := hold.ReportProgress(s.Context())
		want(s, err == nil && s.made.Load() == 1, err, s.made.Load())
	}
	for range 2 {
		_, err := s.client.ReportProgress(s.Context(), "lease-1")
		want(s, err == nil && s.made.Load() == 2, err, s.made.Load())
	}
	err := s.client.Close()
	synctest.Wait()
	want(s, err == nil && s.open.Load() == 0, err, s.open.Load())
}

func (stories) MoreStreamsThanAConnectionCarriesOpenAnotherOneWhichIsClosedAfterwards(s *stage) {
	ctx, cancel := context.WithCancel(s.Context())
	for range streamsPerConnection + 1 {
		s.watches(ctx)
	}
	// The one for short calls is not needed yet.
	s.wantPlaces(streamsPerConnection + 1)
	open := s.open.Load()
	want(s, open == 2, open)
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

func TestMoreUnaryWaitsThanAConnectionCarriesLeaveRoomAndAreReleasedWhereTheyWereGranted(t *testing.T) {
	staged(t, func(s *stage) {
		s.always("AcquireLease", nil)
		c, ctx := s.client, s.Context()
		var asked []<-chan outcome[Grant]
		for range streamsPerConnection + 3 {
			asked = append(asked, later(func() (Grant, error) { return c.Acquire(ctx, LeaseSpec{Wait: time.Minute}) }))
		}
		ok(t, errOf(c.Release(ctx, "lease-9")))
		ends := &instant{s.clock() + 60_000, 60_000}
		for i, answer := range asked {
			of := s.fresh()
			of.MaxHold = ends
			grant := granting("ours", of)
			grant.LeaseId = fmt.Sprint("lease-", i)
			s.give("AcquireLease", &leaseholdv1.AcquireLeaseResponse{
				Outcome: &leaseholdv1.AcquireLeaseResponse_Granted{Granted: grant},
			})
			got := <-answer
			want(t, got.err == nil, got.err)
		}
		s.wantPlaces(3)
		s.requests = nil
		for _, id := range []string{"lease-0", "lease-200"} {
			for _, err := range []error{
				errOf(c.ReportProgress(ctx, id)), errOf(c.GetHold(ctx, id)), errOf(c.SaveCheckpoint(ctx, id, nil)), errOf(c.Release(ctx, id)),
			} {
				want(t, err == nil, err)
			}
		}
		calls := []string{"report_progress 0", "get_hold 0", "save_checkpoint 0 ", "release 0"}
		s.wantBy(1, calls...)
		s.wantBy(2, calls...)
		// What is not released ends with MaxHold.
		s.always("extend_lease", said{Until: 58_000, For: 58_000, MaxHold: &instant{s.clock() + 90_000, 90_000}})
		ok(t, errOf(c.Extend(ctx, "lease-201", 90*time.Second)))
		s.wantPlaces(2)
		s.pass(60_000)
		s.wantPlaces(1)
		s.always("release", refusing{Code: "NOT_FOUND", Reason: "UNKNOWN_LEASE"}.err())
		s.requests = nil
		for range 2 {
			_, err := c.Release(ctx, "lease-201")
			as[*RefusedError](t, err)
		}
		s.wantBy(2, "release 0")
		s.wantPlaces(0)
	}, grpc.MaxConcurrentStreams(streamsPerConnection+3))
}

func TestS37WhatIsSaidOfAHoldThatIsOverGoesToItsOwnSidecarAndLeavesNothing(t *testing.T) {
	lose := func(s *stage, number int, hold *Hold) {
		s.on(number).said <- s.word(s.on(number), "lost", said{Reason: "TAKEN"})
		s.wantLoss(hold, LossReasonTaken)
	}
	for name, of := range map[string]struct {
		// end ends what came over the first connection, which is left by then.
		end   func(s *stage, hold *Hold) error
		isRun bool
		// wanted is what goes over that connection besides.
		wanted []string
	}{
		"released": {func(s *stage, hold *Hold) error {
			return errors.Join(errOf(hold.Save(s.Context(), []byte("x"))), errOf(hold.Release(s.Context())))
		}, false, []string{"save_checkpoint 1 x", "release 1"}},
		"lost": {func(s *stage, hold *Hold) error {
			lose(s, 1, hold)
			return errOf(hold.Release(s.Context()))
		}, false, []string{"release 1"}},
		"interrupted": {func(s *stage, hold *Hold) error {
			s.breaks(1, errGone)
			err := hold.ReportProgress(s.Context())
			lose(s, 0, hold)
			return errors.Join(err, errOf(hold.Release(s.Context())))
		}, false, []string{"report_progress 1"}},
		"resumed": {func(s *stage, hold *Hold) error {
			s.breaks(1, errGone)
			of := s.fresh()
			of.Generation = 2
			s.says("granted", of)
			return errOf(hold.Release(s.Context()))
		}, false, nil},
		"run completed": {func(s *stage, _ *Hold) error {
			return errOf(s.run.Succeed(s.Context()))
		}, true, []string{"complete_run 1 SUCCEEDED"}},
		"run lost": {func(s *stage, hold *Hold) error {
			lose(s, 1, hold)
			return errOf(s.run.Succeed(s.Context()))
		}, true, []string{"complete_run 1 SUCCEEDED"}},
		"run's stream ended": {func(s *stage, hold *Hold) error {
			s.breaks(1, errGone)
			lose(s, 0, hold)
			return errOf(s.run.Succeed(s.Context()))
		}, true, []string{"complete_run 1 SUCCEEDED"}},
	} {
		t.Run(name, func(t *testing.T) {
			staged(t, func(s *stage) {
				first := "hold"
				if of.isRun {
					s.running()
					first = "subscribe"
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
				var lost *LostError
				err := of.end(s, hold)
				want(t, err == nil || errors.As(err, &lost), err)
				s.wantBy(1, append([]string{first, "hold wait 60000"}, of.wanted...)...)
				s.releases(other)
				s.runs.Close()
				s.wantPlaces(0)
				want(t, s.open.Load() == s.made.Load()-1, "what was left is not closed")
				runtime.KeepAlive(hold)
			})
		})
	}
}

func (stories) WhatIsDroppedWithoutAWordLeavesNothing(s *stage) {
	for _, isRun := range []bool{false, true} {
		if isRun {
			s.running()
		} else {
			s.holds()
		}
		if s.says("lost", said{Reason: "TAKEN"}); isRun {
			s.runs.Close()
		}
		s.has(nil, nil)
		for tries := 0; s.places() > 0 && tries < 1_000; tries++ {
			runtime.GC()
		}
		s.wantPlaces(0)
	}
}

func TestS13HoldsThatAreAskedForOrResumedAtOnceHaveRoomForACallEach(t *testing.T) {
	staged(t, func(s *stage) {
		var asked []<-chan outcome[*Hold]
		for range streamsPerConnection {
			asked = append(asked, s.asks(s.Context(), LeaseSpec{}))
		}
		// All wait before the first is granted.
		s.wantPlaces(2 * streamsPerConnection)
		var releases []func() error
		var holds []*Hold
		for i, answer := range asked {
			s.on(i + 1).said <- s.word(s.on(0), "granted", s.fresh())
			hold := (<-answer).value
			holds = append(holds, hold)
			releases = append(releases, func() error { return errOf(hold.Release(s.Context())) })
		}
		s.kill()
		s.start()
		s.pass(10_000)
		s.wantPlaces(4 * streamsPerConnection)
		of := s.fresh()
		of.Generation = 2
		for i := range holds {
			s.on(streamsPerConnection + i + 1).said <- s.word(s.on(0), "granted", of)
		}
		s.wantPlaces(2 * streamsPerConnection)
		s.answersAtOnce("release", said{Outcome: "RELEASED"}, releases)
		s.wantPlaces(0)
		want(t, holds[0].state.answered() == 2, "it was not resumed")
	}, grpc.MaxConcurrentStreams(256))
}

func TestS13EachRunOfAFullConnectionHasRoomForItsCompletion(t *testing.T) {
	staged(t, func(s *stage) {
		var all []*Runs
		for range streamsPerConnection {
			runs, _ := s.client.Runs(nightly())
			all = append(all, runs)
		}
		for range 2 {
			var completions []func() error
			for i, runs := range all {
				asked := later(func() (*Run, error) { return runs.Next(s.Context()) })
				s.on(i + 1).said <- s.word(s.on(0), "run", s.fresh())
				run := (<-asked).value
				completions = append(completions, func() error { return errOf(run.Succeed(s.Context())) })
			}
			s.answersAtOnce("complete_run", said{Result: "RECORDED"}, completions)
			// The room is kept for the next ones.
			s.wantPlaces(2 * streamsPerConnection)
		}
		for _, runs := range all {
			runs.Close()
		}
		s.wantPlaces(0)
	}, grpc.MaxConcurrentStreams(256))
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

func (stories) S16AHoldThatWasResumedIsReleasedThoughAShortCallHadFailedMeanwhile(s *stage) {
	hold := s.holds()
	s.failsLong(func() error { return hold.Extend(s.Context(), time.Minute) })
	s.pass(s.clock() + 1_000)
	s.says("granted", s.fresh())
	s.wantTold("interrupted", "resumed")
	s.releases(hold)
}

func (stories) ALockIsHeldThoughAHoldHadFailedBeforeAShortCallWentThrough(s *stage) {
	s.failsLong(func() error { return errOf(s.client.Hold(s.Context(), LeaseSpec{})) })
	if _, err := s.client.Extend(s.Context(), "lease-1", time.Minute); err != nil {
		s.Fatal(err)
	}
	s.holds()
}

// lateTimer is a context whose deadline has passed, though its timer fires only when somebody waits for it.
type lateTimer struct {
	context.Context
	fire func()
}

func (lateTimer) Deadline() (time.Time, bool) { return time.Now(), true }

func (l lateTimer) Done() <-chan struct{} {
	l.fire()
	return l.Context.Done()
}

func (stories) ACallThatTheSidecarEndsAtTheDeadlineIsOverdueThoughTheTimerIsLate(s *stage) {
	for _, code := range []codes.Code{codes.DeadlineExceeded, codes.Canceled} {
		ctx, cancel := context.WithCancelCause(s.Context())
		late := lateTimer{ctx, func() { cancel(errors.New("nobody answered within 50ms")) }}
		err := s.client.pool.general.failure(late, status.Error(code, "RST_STREAM"))
		want(s, err != nil && strings.Contains(err.Error(), "nobody answered within 50ms"), code, err)
	}
}
