package leasehold

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// newWatched is newBenchWith with a sidecar that takes watches.
func newWatched(t *testing.T, more []Option, options ...grpc.ServerOption) *bench {
	t.Helper()
	return (&bench{T: t, options: options, watched: true}).connect(more)
}

func withSilence(silence time.Duration) Option { return func(o *options) { o.silence = silence } }

// impatient is a bench whose client takes a stream for dead soon.
func impatient(t *testing.T) *bench {
	t.Helper()
	return newBenchWith(t, []Option{withSilence(200 * time.Millisecond)})
}

// answerAll answers each further HoldLease call.
func (b *bench) answerAll(answer func() *leaseholdv1.HoldLeaseResponse) {
	holds := b.sidecar.holds
	go func() {
		for {
			select {
			case call := <-holds:
				call.tell(answer())
			case <-b.Context().Done():
				return
			}
		}
	}()
}

func grantedHere() *leaseholdv1.HoldLeaseResponse { return granted(validity(ours, 1_058, 58)) }

func TestAWaiterThatHearsNothingAsksAgainForWhatIsLeftOfItsWait(t *testing.T) {
	b := impatient(t)
	answer := b.ask(t.Context(), LeaseSpec{Wait: time.Hour})
	first := b.call()
	first.tell(waitingAt(1))
	second := b.call()
	if wait := second.request.GetSpec().GetWait().AsDuration(); wait >= time.Hour || wait < time.Hour-patience {
		t.Error(wait)
	}
	receive(t, "the end of the silent stream", first.over)
	b.answerAll(grantedHere)
	second.tell(grantedHere())
	if err := receive(t, "the hold", answer).err; err != nil {
		t.Error(err)
	}
}

func TestATryThatHearsNothingIsAnError(t *testing.T) {
	b := impatient(t)
	answer := b.ask(t.Context(), LeaseSpec{})
	b.call()
	var refused *RefusedError
	if err := receive(t, "the answer", answer).err; !errors.As(err, &refused) || refused.Code != CodeUnavailable {
		t.Error(err)
	}
}

func TestAWaiterSurvivesARestartOfTheSidecar(t *testing.T) {
	endings := map[string]func(*bench, *holdCall){
		"crash": func(b *bench, _ *holdCall) { b.kill() },
		"stop": func(b *bench, call *holdCall) {
			call.fail(status.Error(codes.Unavailable, "the sidecar is going away"))
			receive(b.T, "the end of the stream", call.over)
			b.kill()
		},
	}
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			events := make(chan HoldEvent, 8)
			answer := b.ask(t.Context(), LeaseSpec{Wait: time.Hour, OnEvent: func(e HoldEvent) { events <- e }})
			call := b.call()
			call.tell(waitingAt(1))
			want[Waiting](t, events)
			end(b, call)
			b.start()
			b.call().tell(grantedHere())
			if err := receive(t, "the hold", answer).err; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAWaitWithoutEndGoesOnWhereItsConnectionBreaksAgainAndAgain(t *testing.T) {
	b := newBench(t)
	answer := b.ask(t.Context(), LeaseSpec{Wait: Forever})
	for range 3 {
		call := b.call()
		if spec := call.request.GetSpec(); !spec.GetWaitWithoutEnd() || spec.Wait != nil {
			t.Error(spec)
		}
		call.tell(waitingAt(1))
		call.fail(errGone)
	}
	b.call().tell(grantedHere())
	if err := receive(t, "the hold", answer).err; err != nil {
		t.Error(err)
	}
}

func TestAWaiterGivesUpWhenItsWaitIsOverAndNoSidecarIsBack(t *testing.T) {
	b := newBench(t)
	events := make(chan HoldEvent, 8)
	answer := b.ask(t.Context(), LeaseSpec{Wait: 500 * time.Millisecond, OnEvent: func(e HoldEvent) { events <- e }})
	b.call().tell(waitingAt(1))
	want[Waiting](t, events)
	b.kill()
	var unreachable *UnreachableError
	if err := receive(t, "the answer", answer).err; !errors.As(err, &unreachable) {
		t.Error(err)
	}
}

func TestARepeatedWaitingIsToldOnce(t *testing.T) {
	b := newBench(t)
	events := make(chan HoldEvent, 8)
	answer := b.ask(t.Context(), LeaseSpec{Wait: time.Hour, OnEvent: func(e HoldEvent) { events <- e }})
	call := b.call()
	for _, position := range []uint32{2, 2, 1} {
		call.tell(waitingAt(position))
	}
	call.tell(grantedHere())
	if first, second := want[Waiting](t, events), want[Waiting](t, events); first.Position != 2 || second.Position != 1 {
		t.Error(first, second)
	}
	want[Granted](t, events)
	receive(t, "the hold", answer)
}

func TestS14AHolderThatHearsNothingResumesAndOnlyThenEndsTheSilentStream(t *testing.T) {
	b := impatient(t)
	hold, silent, events := b.heldHere()
	want[Interrupted](t, events)
	second := b.call()
	if second.request.GetResume().GetResumeToken() != "resume-1" {
		t.Error(second.request)
	}
	// Tries over which nothing is heard are repeated, and not cut short either.
	third := b.call()
	if !silent.isOpen() || !second.isOpen() || !hold.Valid() {
		t.Error("a stream was ended while the hold was valid")
	}
	b.answerAll(grantedHere)
	third.tell(grantedHere())
	want[Resumed](t, events)
	receive(t, "the end of the first silent stream", silent.over)
	receive(t, "the end of the second silent stream", second.over)
	if !hold.Valid() {
		t.Error(hold.Loss())
	}
}

func TestASilentConnectionCarriesNoFurtherCalls(t *testing.T) {
	seen := &connections{}
	b := newBenchWith(t, []Option{withSilence(200 * time.Millisecond)}, grpc.StatsHandler(seen))
	_, _, events := b.heldHere()
	want[Interrupted](t, events)
	resume := b.call()
	if made := seen.made.Load(); made < 2 {
		t.Error("it was resumed over the silent connection")
	}
	b.answerAll(grantedHere)
	resume.tell(grantedHere())
	want[Resumed](t, events)
}

// watchCall is a WatchLock call that the test answers.
type watchCall struct {
	answers chan any
	over    chan struct{}
}

func (c *watchCall) tell(path string) {
	c.answers <- &leaseholdv1.WatchLockResponse{Record: &leaseholdv1.LockRecord{LockPath: path}}
}

func (s *fakeSidecar) WatchLock(
	_ *leaseholdv1.WatchLockRequest, stream grpc.ServerStreamingServer[leaseholdv1.WatchLockResponse],
) error {
	if s.watches == nil {
		return status.Error(codes.Unimplemented, "no watches")
	}
	call := &watchCall{answers: make(chan any, 8), over: make(chan struct{})}
	defer close(call.over)
	s.watches <- call
	for {
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case answer := <-call.answers:
			record, isRecord := answer.(*leaseholdv1.WatchLockResponse)
			if !isRecord {
				err, _ := answer.(error)
				return err
			}
			if err := stream.Send(record); err != nil {
				return err
			}
		}
	}
}

// watch watches a lock on a goroutine of its own; paths and the error come by the channel.
func (b *bench) watch(ctx context.Context) <-chan any {
	told := make(chan any, 8)
	go func() {
		defer close(told)
		for record, err := range b.client.WatchLock(ctx, LockPath("l")) {
			if err != nil {
				told <- err
				return
			}
			told <- record.LockPath
		}
	}()
	return told
}

func wantPath(t *testing.T, told <-chan any, path string) {
	t.Helper()
	if got := receive(t, "a record", told); got != path {
		t.Error(got)
	}
}

func TestAWatchTellsNoRecordTwiceAndGoesOnWhereNothingIsHeard(t *testing.T) {
	b := newWatched(t, []Option{withSilence(200 * time.Millisecond)})
	told := b.watch(t.Context())
	first := receive(t, "WatchLock", b.sidecar.watches)
	for _, path := range []string{"a", "a", "b"} {
		first.tell(path)
	}
	wantPath(t, told, "a")
	wantPath(t, told, "b")
	receive(t, "the end of the silent stream", first.over)
	go func() {
		for {
			select {
			case call := <-b.sidecar.watches:
				call.tell("b")
				call.tell("c")
			case <-b.Context().Done():
				return
			}
		}
	}()
	wantPath(t, told, "c")
}

func TestAWatchSurvivesARestartOfTheSidecarAndEndsWithItsContext(t *testing.T) {
	b := newWatched(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	told := b.watch(ctx)
	receive(t, "WatchLock", b.sidecar.watches).tell("a")
	wantPath(t, told, "a")
	b.kill()
	b.start()
	receive(t, "WatchLock", b.sidecar.watches).tell("b")
	wantPath(t, told, "b")
	cancel()
	if err, isError := receive(t, "the end", told).(error); !isError || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAWatchWhoseSidecarStaysAwayEndsByAnError(t *testing.T) {
	b := newWatched(t, []Option{withSilence(200 * time.Millisecond)})
	told := b.watch(t.Context())
	receive(t, "WatchLock", b.sidecar.watches).tell("a")
	wantPath(t, told, "a")
	b.kill()
	var unreachable *UnreachableError
	if err, _ := receive(t, "the end", told).(error); !errors.As(err, &unreachable) {
		t.Error(err)
	}
}
