package leasehold

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// connections counts those that a sidecar has.
type connections struct{ open, made atomic.Int32 }

func (c *connections) option() grpc.ServerOption { return grpc.StatsHandler(c) }

func (*connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*connections) HandleRPC(context.Context, stats.RPCStats)                         {}

func (c *connections) HandleConn(_ context.Context, event stats.ConnStats) {
	switch event.(type) {
	case *stats.ConnBegin:
		c.made.Add(1)
		c.open.Add(1)
	case *stats.ConnEnd:
		c.open.Add(-1)
	}
}

func TestTheSecondConnectionIsMadeForTheFirstCallThatConcernsNoStreamAndClosedWithTheOther(t *testing.T) {
	seen := &connections{}
	b := newBench(t, seen.option())
	hold, call, _ := b.held()
	for _, report := range []struct {
		report func() error
		made   int32
	}{
		{func() error { return hold.ReportProgress(t.Context()) }, 1},
		{func() error { _, err := b.client.ReportProgress(t.Context(), "lease-1"); return err }, 2},
	} {
		for range 2 {
			if err := report.report(); err != nil || seen.made.Load() != report.made {
				t.Error(err, seen.made.Load())
			}
		}
	}
	if err := b.client.Close(); err != nil || hold.Valid() {
		t.Error(err)
	}
	receive(t, "the end of the stream", call.over)
	eventually(t, "both connections end", func() bool { return seen.open.Load() == 0 })
}

func TestMoreStreamsThanAConnectionCarriesOpenAnotherOneWhichIsClosedAfterwards(t *testing.T) {
	seen := &connections{}
	b := newBench(t, seen.option())
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	for range streamsPerConnection + 1 {
		ended.Go(func() {
			for range b.client.WatchLock(ctx, LockPath("l")) {
				continue
			}
		})
	}
	eventually(t, "all watch", func() bool { return len(b.sidecar.watches) == streamsPerConnection+1 })
	// The one for short calls is not needed yet.
	if open := seen.open.Load(); open != 2 {
		t.Error(open)
	}
	cancel()
	ended.Wait()
	eventually(t, "one connection is left", func() bool { return seen.open.Load() == 1 })
}

func TestMoreUnaryWaitsThanAConnectionCarriesLeaveRoomForReleases(t *testing.T) {
	b := newBench(t, grpc.MaxConcurrentStreams(streamsPerConnection+1))
	waiting := make(chan struct{})
	var asked, over sync.WaitGroup
	asked.Add(streamsPerConnection + 1)
	on(b.sidecar, func(*leaseholdv1.AcquireLeaseRequest) (*leaseholdv1.AcquireLeaseResponse, error) {
		asked.Done()
		<-waiting
		return acquired(), nil
	})
	for range streamsPerConnection + 1 {
		over.Go(func() { _, _ = b.client.Acquire(t.Context(), LeaseSpec{Wait: time.Minute}) })
	}
	asked.Wait()
	if _, err := b.client.Release(t.Context(), "lease-9"); err != nil {
		t.Error(err)
	}
	close(waiting)
	over.Wait()
}

// failLong makes calls fail until the connection pauses between its tries.
func failLong(t *testing.T, call func() error) {
	t.Helper()
	eventually(t, "the client finds out", func() bool {
		var unreachable *UnreachableError
		return errors.As(call(), &unreachable)
	})
	time.Sleep(time.Second)
}

func TestS16AHoldThatWasResumedIsReleasedThoughAShortCallHadFailedMeanwhile(t *testing.T) {
	b := newBench(t)
	hold, _, events := b.held()
	b.kill()
	want[Interrupted](t, events)
	failLong(t, func() error { return hold.Extend(t.Context(), time.Minute) })
	b.start()
	b.call().tell(grantedHere())
	want[Resumed](t, events)
	b.mustRelease(hold)
}

func TestALockIsHeldThoughAHoldHadFailedBeforeAShortCallWentThrough(t *testing.T) {
	b := newBench(t)
	b.kill()
	failLong(t, func() error {
		_, err := b.client.Hold(t.Context(), LeaseSpec{})
		return err
	})
	b.start()
	if _, err := b.client.Extend(t.Context(), "lease-1", time.Minute); err != nil {
		t.Fatal(err)
	}
	b.held()
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

func TestACallThatTheSidecarEndsAtTheDeadlineIsOverdueThoughTheTimerIsLate(t *testing.T) {
	b := newBench(t)
	for _, code := range []codes.Code{codes.DeadlineExceeded, codes.Canceled} {
		ctx, cancel := context.WithCancelCause(t.Context())
		late := lateTimer{ctx, func() { cancel(errors.New("nobody answered within 50ms")) }}
		err := b.client.pool.general.failure(late, status.Error(code, "RST_STREAM"))
		if err == nil || !strings.Contains(err.Error(), "nobody answered within 50ms") {
			t.Error(code, err)
		}
	}
}

func TestS37WhatAUnaryCallWasGrantedIsReleasedWhereItWasGranted(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.held()
	if _, err := b.client.Acquire(t.Context(), LeaseSpec{}); err != nil {
		t.Error(err)
	}
	first, other := b.leaveFirst()
	b.mustRelease(other)
	if _, err := b.client.Release(t.Context(), "lease-1"); err != nil {
		t.Error(err)
	}
	b.mustRelease(hold)
	first.wantCalls(t, "AcquireLease 1", "ReleaseLease lease-1", released)
}

func TestAConnectionThatIsGivenUpWhenItsStreamHasLeftIsClosed(t *testing.T) {
	b := newBench(t)
	connection, err := b.client.pool.take(1)
	if err != nil {
		t.Fatal(err)
	}
	connection.leave()
	if connection.conn.GetState() == connectivity.Shutdown {
		t.Error("it is kept for the next stream")
	}
	connection.giveUp()
	if connection.conn.GetState() != connectivity.Shutdown || len(b.client.pool.lasting) != 0 {
		t.Error("it is left")
	}
}
