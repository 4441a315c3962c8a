package leasehold

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// impatiently has a client take a stream for dead soon.
func impatiently(o *options) { o.silence = 200 * time.Millisecond }

func TestAWaiterThatHearsNothingAsksAgainElsewhereForWhatIsLeftOfItsWait(t *testing.T) {
	seen := &connections{}
	b := newBench(t, Option(impatiently), seen.option())
	events := make(chan HoldEvent, 8)
	answer := b.ask(t.Context(), LeaseSpec{Wait: time.Hour, OnEvent: func(event HoldEvent) { events <- event }})
	first := b.call()
	for _, position := range []uint32{2, 2, 1} {
		first.tell(event("waiting", said{Position: position}))
	}
	// A repeated word is told once.
	if first, second := want[Waiting](t, events), want[Waiting](t, events); first.Position != 2 || second.Position != 1 {
		t.Error(first, second)
	}
	second := b.call()
	if wait := second.request.GetSpec().GetWait().AsDuration(); wait >= time.Hour || wait < time.Hour-patience {
		t.Error(wait)
	}
	receive(t, "the end of the silent stream", first.over)
	if made := seen.made.Load(); made < 2 {
		t.Error("it is asked for over the silent connection")
	}
	b.answerAll()
	second.tell(grantedHere())
	b.got(answer)
}

func TestATryThatHearsNothingIsAnError(t *testing.T) {
	b := newBench(t, Option(impatiently))
	answer := b.ask(t.Context(), LeaseSpec{})
	b.call()
	if refused := as[*RefusedError](t, receive(t, "the answer", answer).err); refused.Code != CodeUnavailable {
		t.Error(refused)
	}
}

func TestS14AHolderThatHearsNothingEndsNoTryBeforeOneWasGranted(t *testing.T) {
	b := newBench(t, Option(impatiently))
	hold, silent, events := b.held()
	want[Interrupted](t, events)
	second, third := b.call(), b.call()
	if !silent.isOpen() || !second.isOpen() || !hold.Valid() {
		t.Error("a stream was ended while the hold was valid")
	}
	b.answerAll()
	third.tell(grantedHere())
	want[Resumed](t, events)
	receive(t, "the end of the first silent stream", silent.over)
	receive(t, "the end of the second silent stream", second.over)
	if !hold.Valid() {
		t.Error(hold.Loss())
	}
}

func TestAWaiterGivesUpWhenItsWaitIsOverAndNoSidecarIsBack(t *testing.T) {
	b := newBench(t)
	answer := b.ask(t.Context(), LeaseSpec{Wait: 500 * time.Millisecond})
	b.call().tell(event("waiting", said{Position: 1}))
	b.kill()
	as[*UnreachableError](t, receive(t, "the answer", answer).err)
}

// watch watches a lock on a goroutine of its own; paths and the error come by the channel.
func (b *bench) watch(ctx context.Context) <-chan any {
	told := make(chan any, 8)
	go func() {
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

func wantTold(t *testing.T, told <-chan any, wanted ...string) {
	t.Helper()
	for _, text := range wanted {
		if got := receive(t, text, told); got != any(text) {
			t.Errorf("%v, not %s", got, text)
		}
	}
}

// wantEnd is that a watch ends with its context.
func wantEnd(t *testing.T, told <-chan any) {
	t.Helper()
	if err, isError := receive(t, "the end", told).(error); !isError || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// tellEach tells each further watch these records.
func (b *bench) tellEach(records ...*leaseholdv1.WatchLockResponse) {
	watches := b.sidecar.watches
	go func() {
		for {
			select {
			case call := <-watches:
				call.tell(records...)
			case <-b.Context().Done():
				return
			}
		}
	}()
}

func record(path string) *leaseholdv1.WatchLockResponse {
	return &leaseholdv1.WatchLockResponse{Record: &leaseholdv1.LockRecord{LockPath: path}}
}

func TestAWatchTellsNoRecordTwiceAndGoesOnWhereNothingIsHeardOrItsSidecarRestarts(t *testing.T) {
	b := newBench(t, Option(impatiently))
	ctx, cancel := context.WithCancel(t.Context())
	told := b.watch(ctx)
	first := receive(t, "WatchLock", b.sidecar.watches)
	first.tell(record("a"), record("a"), record("b"))
	wantTold(t, told, "a", "b")
	receive(t, "the end of the silent stream", first.over)
	b.tellEach(record("b"), record("c"))
	wantTold(t, told, "c")
	b.kill()
	b.start()
	b.tellEach(record("d"))
	wantTold(t, told, "d")
	cancel()
	wantEnd(t, told)
}

func TestAWatchWhoseSidecarStaysAwayEndsByAnError(t *testing.T) {
	b := newBench(t, Option(impatiently))
	told := b.watch(t.Context())
	receive(t, "WatchLock", b.sidecar.watches).tell(record("a"))
	wantTold(t, told, "a")
	b.kill()
	err, _ := receive(t, "the end", told).(error)
	as[*UnreachableError](t, err)
}

// What a watch of many tells after a break is a row of tests/clients.
func TestAWatchOfManySendsWhatItIsOf(t *testing.T) {
	b := newBench(t)
	for _, wanted := range []*leaseholdv1.WatchLocksRequest{
		{Under: &leaseholdv1.WatchLocksRequest_Prefix{Prefix: "p"}, Labels: map[string]string{"team": "a"}, Share: "s"},
		{Under: &leaseholdv1.WatchLocksRequest_HostId{HostId: "h"}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		told := make(chan any, 1)
		options := WatchOptions{HostID: wanted.GetHostId(), Prefix: wanted.GetPrefix(), Labels: wanted.GetLabels(), Share: wanted.GetShare()}
		go func() { told <- lastOf(b.client.WatchLocks(ctx, options)) }()
		call := receive(t, "WatchLocks", b.sidecar.follows)
		if !proto.Equal(call.request, wanted) {
			t.Error(call.request)
		}
		cancel()
		wantEnd(t, told)
		receive(t, "the end of the stream", call.over)
	}
}
