package leasehold

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

const (
	ours      = "kernel-a"
	elsewhere = "kernel-b"
	// patience is how long a test waits for what must come.
	patience = time.Minute
)

// manualClock stands still until it is moved. Its kernel is ours, and it starts at 1,000 s.
type manualClock struct {
	mutex   sync.Mutex
	reading BootInstant
}

func (c *manualClock) now() BootInstant {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.reading
}

func (c *manualClock) bootID() string { return ours }

func (c *manualClock) advance(seconds int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.reading += at(seconds)
}

// at is the moment so long after boot.
func at(seconds int) BootInstant { return BootInstant(seconds) * BootInstant(time.Second) }

func validity(bootID string, until, validFor int) *leaseholdv1.Validity {
	return &leaseholdv1.Validity{
		ValidUntil: &leaseholdv1.BootTime{BootId: bootID, SinceBoot: durationpb.New(time.Duration(at(until)))},
		ValidFor:   durationpb.New(time.Duration(at(validFor))),
	}
}

func granted(validity *leaseholdv1.Validity) *leaseholdv1.HoldLeaseResponse {
	return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Granted{Granted: &leaseholdv1.Grant{
		LeaseId: "lease-1", ResumeToken: "resume-1", LockPath: "locks/p/h/f/s/FUNCTION", HostId: "h",
		FencingToken: 65_536, Generation: 1, Validity: validity,
	}}}
}

func renewed(validity *leaseholdv1.Validity) *leaseholdv1.HoldLeaseResponse {
	return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Renewed{
		Renewed: &leaseholdv1.Renewed{Validity: validity},
	}}
}

func waitingAt(position uint32) *leaseholdv1.HoldLeaseResponse {
	return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Waiting{
		Waiting: &leaseholdv1.Waiting{Position: position},
	}}
}

func busyWith(holder string) *leaseholdv1.HoldLeaseResponse {
	return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Busy{
		Busy: &leaseholdv1.Busy{Record: &leaseholdv1.LockRecord{LockPath: "l", Holder: holder}},
	}}
}

func lostFor(reason leaseholdv1.LossReason) *leaseholdv1.HoldLeaseResponse {
	return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Lost{
		Lost: &leaseholdv1.Lost{Reason: reason, Detail: "so it is"},
	}}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// receive waits for what must come.
func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

// holdCall is a HoldLease call that the test answers.
type holdCall struct {
	request *leaseholdv1.HoldLeaseRequest
	answers chan any
	// over is closed when the stream has ended.
	over chan struct{}
	// hasDeadline is whether the client sent one.
	hasDeadline bool
}

// tell sends an event; fail ends the stream with an error.
func (c *holdCall) tell(event *leaseholdv1.HoldLeaseResponse) { c.answers <- event }
func (c *holdCall) fail(err error)                            { c.answers <- err }

func (c *holdCall) isOpen() bool {
	select {
	case <-c.over:
		return false
	default:
		return true
	}
}

// fakeSidecar does what a test says.
type fakeSidecar struct {
	leaseholdv1.UnimplementedLeaseServiceServer
	server *grpc.Server
	holds  chan *holdCall
	// watches are the WatchLock calls, if there may be any.
	watches chan *watchCall

	mutex     sync.Mutex
	asked     []string
	report    func() (*leaseholdv1.Validity, error)
	acquire   func(*leaseholdv1.LeaseSpec) (*leaseholdv1.AcquireLeaseResponse, error)
	onRelease func() error
	released  *leaseholdv1.ReleaseResult
	pages     [][]string
	holdState leaseholdv1.HoldState
	limit     *leaseholdv1.Deadline
	breakNote *leaseholdv1.BreakNote
	info      *leaseholdv1.GetServerInfoResponse
	save      func(value []byte) (*leaseholdv1.SaveCheckpointResponse, error)
	record    *leaseholdv1.LockRecord
	schedules *fakeSchedules
	// follows are the WatchLocks calls.
	follows chan *followCall
}

func (s *fakeSidecar) note(format string, values ...any) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.asked = append(s.asked, fmt.Sprintf(format, values...))
}

// calls are the unary calls that came.
func (s *fakeSidecar) calls() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.asked)
}

func (s *fakeSidecar) HoldLease(
	request *leaseholdv1.HoldLeaseRequest, stream grpc.ServerStreamingServer[leaseholdv1.HoldLeaseResponse],
) error {
	_, hasDeadline := stream.Context().Deadline()
	call := &holdCall{request: request, answers: make(chan any, 8), over: make(chan struct{}), hasDeadline: hasDeadline}
	defer close(call.over)
	if request.GetNeeds() != 1 {
		return status.Error(codes.InvalidArgument, "it does not say what it needs")
	}
	s.holds <- call
	for {
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case answer := <-call.answers:
			event, isEvent := answer.(*leaseholdv1.HoldLeaseResponse)
			if !isEvent {
				err, _ := answer.(error)
				return err
			}
			if err := stream.Send(event); err != nil {
				return err
			}
		}
	}
}

func (s *fakeSidecar) AcquireLease(
	ctx context.Context, request *leaseholdv1.AcquireLeaseRequest,
) (*leaseholdv1.AcquireLeaseResponse, error) {
	head, _ := metadata.FromIncomingContext(ctx)
	s.note("acquire %v %v", head.Get("authorization"), head.Get("leasehold-boot-id"))
	if request.GetNeeds() != 1 {
		return nil, status.Error(codes.InvalidArgument, "it does not say what it needs")
	}
	return s.acquire(request.GetSpec())
}

func (s *fakeSidecar) ReleaseLease(
	_ context.Context, request *leaseholdv1.ReleaseLeaseRequest,
) (*leaseholdv1.ReleaseLeaseResponse, error) {
	with := ""
	if request.Checkpoint != nil {
		with = fmt.Sprintf(" saving %q", request.GetCheckpoint())
	}
	if request.GetOutcome() != leaseholdv1.RunOutcome_RUN_OUTCOME_UNSPECIFIED {
		with += " " + string(runOutcomeFrom(request.GetOutcome()))
	}
	s.note("release %s of generation %d%s", request.GetLeaseId(), request.GetGeneration(), with)
	if s.onRelease != nil {
		if err := s.onRelease(); err != nil {
			return nil, err
		}
	}
	result := s.released
	if result == nil {
		result = &leaseholdv1.ReleaseResult{Outcome: leaseholdv1.ReleaseOutcome_RELEASE_OUTCOME_RELEASED}
	}
	return &leaseholdv1.ReleaseLeaseResponse{Result: result}, nil
}

func (s *fakeSidecar) ExtendLease(
	_ context.Context, request *leaseholdv1.ExtendLeaseRequest,
) (*leaseholdv1.ExtendLeaseResponse, error) {
	s.note("extend %s of generation %d", request.GetLeaseId(), request.GetGeneration())
	return &leaseholdv1.ExtendLeaseResponse{
		Validity: validity(ours, 1_090, 90), ResumeToken: "resume-extended",
	}, nil
}

func (s *fakeSidecar) ReportProgress(
	_ context.Context, request *leaseholdv1.ReportProgressRequest,
) (*leaseholdv1.ReportProgressResponse, error) {
	s.note("report of generation %d", request.GetGeneration())
	validity, err := s.validity()
	return &leaseholdv1.ReportProgressResponse{Validity: validity}, err
}

// bench is a fake sidecar, a clock, and a client between them.
type bench struct {
	*testing.T
	sidecar *fakeSidecar
	clock   *manualClock
	client  *Client
	socket  string
	options []grpc.ServerOption
	// watched is whether the sidecar takes watches.
	watched bool
}

func newBench(t *testing.T, options ...grpc.ServerOption) *bench {
	t.Helper()
	return newBenchWith(t, nil, options...)
}

// newBenchWith is newBench with options of the client.
func newBenchWith(t *testing.T, more []Option, options ...grpc.ServerOption) *bench {
	t.Helper()
	return (&bench{T: t, options: options}).connect(more)
}

// connect starts the sidecar and connects the client.
func (b *bench) connect(more []Option) *bench {
	b.Helper()
	b.Parallel()
	b.connectTo(more)
	b.start()
	return b
}

func withClock(clk clock) Option {
	return func(o *options) { o.newClock = func() (clock, error) { return clk, nil } }
}

// start starts a sidecar; kill ends it.
func (b *bench) start() {
	b.Helper()
	listener, err := net.Listen("unix", b.socket)
	if err != nil {
		b.Fatal(err)
	}
	b.sidecar = &fakeSidecar{
		server: grpc.NewServer(b.options...), holds: make(chan *holdCall, 8), follows: make(chan *followCall, 8),
		acquire: grantAnything,
	}
	if b.watched {
		b.sidecar.watches = make(chan *watchCall, streamsPerConnection+1)
	}
	b.sidecar.schedules = &fakeSchedules{sidecar: b.sidecar, subscriptions: make(chan *subscribeCall, 8)}
	leaseholdv1.RegisterLeaseServiceServer(b.sidecar.server, b.sidecar)
	leaseholdv1.RegisterScheduleServiceServer(b.sidecar.server, b.sidecar.schedules)
	go func(server *grpc.Server) { _ = server.Serve(listener) }(b.sidecar.server)
}

func (b *bench) kill() { b.sidecar.server.Stop() }

// call waits for the next HoldLease.
func (b *bench) call() *holdCall {
	b.Helper()
	return receive(b.T, "HoldLease", b.sidecar.holds)
}

// answerReports answers each question about the validity.
func (b *bench) answerReports(validity *leaseholdv1.Validity, err error) {
	b.sidecar.mutex.Lock()
	defer b.sidecar.mutex.Unlock()
	b.sidecar.report = func() (*leaseholdv1.Validity, error) { return validity, err }
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

// held is a hold that was granted with a validity; the clock stands at 1,000 s.
func (b *bench) held(validity *leaseholdv1.Validity) (*Hold, *holdCall, <-chan HoldEvent) {
	b.Helper()
	events := make(chan HoldEvent, 64)
	spec := LeaseSpec{Key: LockKey{Function: "f", Scope: "s"}, OnEvent: func(event HoldEvent) { events <- event }}
	answer := b.ask(b.Context(), spec)
	call := b.call()
	call.tell(granted(validity))
	asked := receive(b.T, "the hold", answer)
	if asked.err != nil {
		b.Fatal(asked.err)
	}
	want[Granted](b.T, events)
	return asked.hold, call, events
}

func (b *bench) heldHere() (*Hold, *holdCall, <-chan HoldEvent) {
	b.Helper()
	return b.held(validity(ours, 1_058, 58))
}

// want waits for an event, which must be of a kind.
func want[E HoldEvent](t *testing.T, events <-chan HoldEvent) E {
	t.Helper()
	event := receive(t, "an event", events)
	wanted, ok := event.(E)
	if !ok {
		t.Fatalf("%T %+v came", event, event)
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
