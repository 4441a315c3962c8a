package leasehold

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"google.golang.org/grpc"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// bench is a fake sidecar, a clock, and a client between them.
type bench struct {
	*testing.T
	sidecar *fakeSidecar
	clock   *manualClock
	client  *Client
	socket  string
	options []grpc.ServerOption
}

// newBench takes options of the client and of the sidecar's server.
func newBench(t *testing.T, with ...any) *bench {
	t.Helper()
	t.Parallel()
	b := connected(t, with...)
	b.start()
	return b
}

// connected is a client whose sidecar has not started yet.
func connected(t *testing.T, with ...any) *bench {
	t.Helper()
	// Not t.TempDir: the path of a socket must be short.
	folder, err := os.MkdirTemp("", "leasehold")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	b := &bench{T: t, clock: &manualClock{reading: at(1_000)}, socket: filepath.Join(folder, "s")}
	opts := []Option{
		WithEndpoint("unix://" + b.socket), func(o *options) { o.newClock = func() (clock, error) { return b.clock, nil } },
	}
	for _, option := range with {
		switch option := option.(type) {
		case Option:
			opts = append(opts, option)
		case grpc.ServerOption:
			b.options = append(b.options, option)
		}
	}
	if b.client, err = Connect(t.Context(), opts...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = b.client.Close()
		if b.sidecar != nil {
			b.sidecar.server.Stop()
		}
	})
	return b
}

// start starts a sidecar; kill ends it.
func (b *bench) start() {
	b.Helper()
	listener, err := net.Listen("unix", b.socket)
	if err != nil {
		b.Fatal(err)
	}
	s := &fakeSidecar{
		holds: make(chan *holdCall, 8), subscriptions: make(chan *subscribeCall, 8), follows: make(chan *followCall, 8),
		watches: make(chan *watchCall, streamsPerConnection+1), answers: map[reflect.Type]func(any) (any, error){},
	}
	validity := said{Until: 58_000, For: 58_000}.validity("ours")
	answers[leaseholdv1.ReleaseLeaseRequest](s, &leaseholdv1.ReleaseLeaseResponse{Result: said{Outcome: "RELEASED"}.result()})
	answers[leaseholdv1.ReportProgressRequest](s, &leaseholdv1.ReportProgressResponse{Validity: validity})
	answers[leaseholdv1.SaveCheckpointRequest](s, &leaseholdv1.SaveCheckpointResponse{Version: 1})
	answers[leaseholdv1.ExtendLeaseRequest](s, &leaseholdv1.ExtendLeaseResponse{Validity: validity})
	answers[leaseholdv1.AcquireLeaseRequest](s, acquired())
	answers[leaseholdv1.CompleteRunRequest](s, &leaseholdv1.CompleteRunResponse{
		Result: leaseholdv1.CompletionResult_COMPLETION_RESULT_RECORDED, CheckpointVersion: 5,
	})
	s.server = grpc.NewServer(append(b.options, grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.streams))...)
	leaseholdv1.RegisterLeaseServiceServer(s.server, s)
	leaseholdv1.RegisterScheduleServiceServer(s.server, s)
	b.sidecar = s
	go func() { _ = s.server.Serve(listener) }()
}

func acquired() *leaseholdv1.AcquireLeaseResponse {
	grant := &leaseholdv1.AcquireLeaseResponse_Granted{Granted: grantedHere().GetGranted()}
	return &leaseholdv1.AcquireLeaseResponse{Outcome: grant}
}

func (b *bench) kill() { b.sidecar.server.Stop() }

// replace lets new connections meet another sidecar. Those that stand stay at the first one, which it gives.
func (b *bench) replace() *fakeSidecar {
	b.Helper()
	first := b.sidecar
	b.Cleanup(first.server.Stop)
	if err := os.Remove(b.socket); err != nil {
		b.Fatal(err)
	}
	b.start()
	return first
}

// call waits for the next HoldLease.
func (b *bench) call() *holdCall {
	b.Helper()
	return receive(b.T, "HoldLease", b.sidecar.holds)
}

// answerAll grants each further hold.
func (b *bench) answerAll() {
	holds := b.sidecar.holds
	go func() {
		for {
			select {
			case call := <-holds:
				call.tell(grantedHere())
			case <-b.Context().Done():
				return
			}
		}
	}()
}

// asking is a hold that is being asked for.
type asking struct {
	hold *Hold
	err  error
}

// ask asks for a lock on a goroutine of its own.
func (b *bench) ask(ctx context.Context, spec LeaseSpec) <-chan asking {
	answer := make(chan asking, 1)
	go func() {
		hold, err := b.client.Hold(ctx, spec)
		answer <- asking{hold, err}
	}()
	return answer
}

// got waits for a hold.
func (b *bench) got(answer <-chan asking) *Hold {
	b.Helper()
	asked := receive(b.T, "the hold", answer)
	if asked.err != nil {
		b.Fatal(asked.err)
	}
	return asked.hold
}

// held is a hold that was granted until 1,058 s; the clock stands at 1,000 s.
func (b *bench) held() (*Hold, *holdCall, <-chan HoldEvent) {
	b.Helper()
	events := make(chan HoldEvent, 64)
	spec := LeaseSpec{Key: LockKey{Function: "f", Scope: "s"}, OnEvent: func(event HoldEvent) { events <- event }}
	answer := b.ask(b.Context(), spec)
	call := b.call()
	call.tell(grantedHere())
	hold := b.got(answer)
	want[Granted](b.T, events)
	return hold, call, events
}

func (b *bench) mustRelease(hold *Hold) {
	b.Helper()
	if _, err := hold.Release(b.Context()); err != nil {
		b.Error(err)
	}
}

// want waits for an event, which must be of a kind.
func want[E any](t *testing.T, events <-chan HoldEvent) E {
	t.Helper()
	event := receive(t, "an event", events)
	wanted, ok := event.(E)
	if !ok {
		t.Fatalf("%T %+v came", event, event)
	}
	return wanted
}

// as gives an error of a type, which err must be.
func as[E error](t *testing.T, err error) (wanted E) {
	t.Helper()
	if !errors.As(err, &wanted) {
		t.Fatalf("%T: %v", err, err)
	}
	return wanted
}

// lossOf waits until the hold's context tells of its loss.
func lossOf(t *testing.T, hold *Hold) *LostError {
	t.Helper()
	receive(t, "the end of the hold's context", hold.Context().Done())
	loss, ok := context.Cause(hold.Context()).(*LostError)
	if !ok || hold.Loss() != error(loss) || hold.Valid() || hold.Remaining() != 0 {
		t.Fatalf("%v, %v, %v", context.Cause(hold.Context()), hold.Loss(), hold.Remaining())
	}
	return loss
}
