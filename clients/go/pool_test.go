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
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

func TestS13AReleaseDoesNotStandBehindHolds(t *testing.T) {
	b := newWatched(t, nil, grpc.MaxConcurrentStreams(streamsPerConnection+1))
	b.answerReports(validity(ours, 1_058, 58), nil)
	first, firstCall, _ := b.heldHere()
	second, _, _ := b.heldHere()
	for range streamsPerConnection {
		b.watch(t.Context())
	}
	eventually(t, "all watch", func() bool { return len(b.sidecar.watches) == streamsPerConnection })
	third := b.ask(t.Context(), LeaseSpec{})

	within, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := second.ReportProgress(within); err != nil {
		t.Error(err)
	}
	if err := second.Extend(within, time.Minute); err != nil {
		t.Error(err)
	}
	if _, err := first.Release(within); err != nil {
		t.Fatal(err)
	}
	receive(t, "the end of the stream", firstCall.over)
	b.call().tell(granted(validity(ours, 1_058, 58)))
	if asked := receive(t, "the third hold", third); asked.err != nil {
		t.Error(asked.err)
	}
	if !second.Valid() {
		t.Error("the second was lost")
	}
}

// connections counts those that a sidecar has.
type connections struct{ open, made atomic.Int32 }

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
	b := newBench(t, grpc.StatsHandler(seen))
	b.answerReports(validity(ours, 1_058, 58), nil)
	hold, call, _ := b.heldHere()
	for range 3 {
		if err := hold.ReportProgress(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if made := seen.made.Load(); made != 1 {
		t.Error(made)
	}
	for range 3 {
		if _, err := b.client.ReportProgress(t.Context(), "lease-1"); err != nil {
			t.Fatal(err)
		}
	}
	if made := seen.made.Load(); made != 2 {
		t.Error(made)
	}
	if err := b.client.Close(); err != nil {
		t.Error(err)
	}
	if hold.Valid() {
		t.Error("the hold outlived the connection")
	}
	receive(t, "the end of the stream", call.over)
	eventually(t, "both connections end", func() bool { return seen.open.Load() == 0 })
}

func TestMoreStreamsThanAConnectionCarriesOpenAnotherOneWhichIsClosedAfterwards(t *testing.T) {
	seen := &connections{}
	b := newWatched(t, nil, grpc.StatsHandler(seen))
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
	hold, _, events := b.heldHere()
	b.kill()
	want[Interrupted](t, events)
	failLong(t, func() error { return hold.Extend(t.Context(), time.Minute) })
	b.start()
	b.call().tell(granted(validity(ours, 1_058, 58)))
	want[Resumed](t, events)
	if _, err := hold.Release(t.Context()); err != nil {
		t.Error(err)
	}
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
	b.heldHere()
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
