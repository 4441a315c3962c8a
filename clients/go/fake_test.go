package leasehold

import (
	"context"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

const (
	ours      = "kernel-a"
	elsewhere = "kernel-b"
	// patience is how long a test waits for what must come.
	patience = time.Minute
	released = "ReleaseLease lease-1 1"
)

var errGone = status.Error(codes.Unavailable, "gone")

// manualClock stands still until it is moved. Its kernel is ours, and it starts at 1,000 s, as that of the vectors does.
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

// event is what a sidecar on our kernel says on the stream of a hold, in the words of the vectors.
func event(name string, of said) *leaseholdv1.HoldLeaseResponse {
	return says(&leaseholdv1.HoldLeaseResponse{}, "ours", name, of)
}

// ofRun is the same on the stream of a subscription.
func ofRun(name string, of said) *leaseholdv1.SubscribeScheduleResponse {
	return says(&leaseholdv1.SubscribeScheduleResponse{}, "ours", name, of)
}

// grantedHere grants a hold until 1,058 s.
func grantedHere() *leaseholdv1.HoldLeaseResponse {
	return event("granted", said{Until: 58_000, For: 58_000})
}

var lostToAnother = event("lost", said{Reason: "TAKEN"})

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

// streamCall is a stream that the test answers.
type streamCall[Q, A any] struct {
	ctx     context.Context
	request *Q
	answers chan any
	// over is closed when it has ended.
	over chan struct{}
}

type (
	holdCall      = streamCall[leaseholdv1.HoldLeaseRequest, leaseholdv1.HoldLeaseResponse]
	subscribeCall = streamCall[leaseholdv1.SubscribeScheduleRequest, leaseholdv1.SubscribeScheduleResponse]
	watchCall     = streamCall[leaseholdv1.WatchLockRequest, leaseholdv1.WatchLockResponse]
	followCall    = streamCall[leaseholdv1.WatchLocksRequest, leaseholdv1.WatchLocksResponse]
)

func (c *streamCall[Q, A]) tell(answers ...*A) {
	for _, answer := range answers {
		c.answers <- answer
	}
}

func (c *streamCall[Q, A]) fail(err error) { c.answers <- err }

func (c *streamCall[Q, A]) isOpen() bool { return c.ctx.Err() == nil }

func serve[Q, A any](calls chan<- *streamCall[Q, A], stream grpc.ServerStream) error {
	c := &streamCall[Q, A]{stream.Context(), new(Q), make(chan any, 8), make(chan struct{})}
	defer close(c.over)
	if err := stream.RecvMsg(c.request); err != nil {
		return err
	}
	calls <- c
	for {
		select {
		case <-c.ctx.Done():
			return c.ctx.Err()
		case answer := <-c.answers:
			if err, isError := answer.(error); isError {
				return err
			}
			if err := stream.SendMsg(answer); err != nil {
				return err
			}
		}
	}
}

// fakeSidecar does what a test says.
type fakeSidecar struct {
	leaseholdv1.UnimplementedLeaseServiceServer
	leaseholdv1.UnimplementedScheduleServiceServer
	server        *grpc.Server
	holds         chan *holdCall
	subscriptions chan *subscribeCall
	watches       chan *watchCall
	follows       chan *followCall

	mutex    sync.Mutex
	answers  map[reflect.Type]func(any) (any, error)
	requests []proto.Message
	heads    []metadata.MD
}

func (s *fakeSidecar) streams(
	_ any, stream grpc.ServerStream, info *grpc.StreamServerInfo, _ grpc.StreamHandler,
) error {
	switch {
	case strings.HasSuffix(info.FullMethod, "/HoldLease"):
		return serve(s.holds, stream)
	case strings.HasSuffix(info.FullMethod, "/SubscribeSchedule"):
		return serve(s.subscriptions, stream)
	case strings.HasSuffix(info.FullMethod, "/WatchLock"):
		return serve(s.watches, stream)
	}
	return serve(s.follows, stream)
}

// unary answers each call that is no stream.
func (s *fakeSidecar) unary(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler,
) (any, error) {
	head, _ := metadata.FromIncomingContext(ctx)
	s.mutex.Lock()
	s.requests = append(s.requests, request.(proto.Message))
	s.heads = append(s.heads, head)
	answer := s.answers[reflect.TypeOf(request)]
	s.mutex.Unlock()
	if answer == nil {
		return nil, status.Error(codes.Unimplemented, info.FullMethod)
	}
	return answer(request)
}

// on has requests of a type answered.
func on[Q, A any](s *fakeSidecar, answer func(*Q) (*A, error)) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.answers[reflect.TypeFor[*Q]()] = func(request any) (any, error) { return answer(request.(*Q)) }
}

// answers has them answered so; fails is the same for an error.
func answers[Q, A any](s *fakeSidecar, answer *A) { on(s, func(*Q) (*A, error) { return answer, nil }) }
func fails[Q any](s *fakeSidecar, err error) {
	on(s, func(*Q) (*leaseholdv1.Grant, error) { return nil, err })
}

// calls are those calls by their names, with what is set in their requests and is no message.
func (s *fakeSidecar) calls() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var calls []string
	for _, request := range s.requests {
		message := request.ProtoReflect()
		said := strings.TrimSuffix(string(message.Descriptor().Name()), "Request")
		for i := range message.Descriptor().Fields().Len() {
			field := message.Descriptor().Fields().Get(i)
			switch value := message.Get(field); {
			case !message.Has(field) || field.Message() != nil || field.IsList():
			case field.Enum() != nil:
				said += " " + string(field.Enum().Values().ByNumber(value.Enum()).Name())
			case field.Kind() == protoreflect.BytesKind:
				said += " " + strconv.Quote(string(value.Bytes()))
			default:
				said += " " + value.String()
			}
		}
		calls = append(calls, said)
	}
	return calls
}

func (s *fakeSidecar) wantCalls(t *testing.T, wanted ...string) {
	t.Helper()
	if calls := s.calls(); !slices.Equal(calls, wanted) {
		t.Errorf("%q, not %q", calls, wanted)
	}
}
