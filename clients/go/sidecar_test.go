package leasehold

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

const (
	ours      = "kernel-a"
	elsewhere = "kernel-b"
)

var errGone = status.Error(codes.Unavailable, "gone")

// connections counts those that a sidecar has, and numbers them from 1.
type connections struct{ open, made atomic.Int32 }

type connectionKey struct{}

func (c *connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	c.open.Add(1)
	return context.WithValue(ctx, connectionKey{}, c.made.Add(1))
}

func (c *connections) HandleConn(_ context.Context, event stats.ConnStats) {
	if _, isEnd := event.(*stats.ConnEnd); isEnd {
		c.open.Add(-1)
	}
}

func (*connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (*connections) HandleRPC(context.Context, stats.RPCStats)                       {}

// sidecar does what a test says, at the other end of connections in this process: nothing goes over a socket.
type sidecar struct {
	connections
	kernel  string
	isValid func() bool
	options []grpc.ServerOption
	server  *grpc.Server

	mutex    sync.Mutex
	listener *bufconn.Listener
	streams  []*openStream
	calls    []*openCall
	// answers are those of all calls of a name that no other answer was given for, and next is that of the next one: what is
	// said in the words of the vectors, a message, an error, or what makes one of these from a request.
	answers, next map[string]any
	attempts      []string
	requests      []heard
	sent, faults  []string
}

// heard is a request, with what came with it and the connection that it came by.
type heard struct {
	proto.Message
	words string
	head  metadata.MD
	by    int32
}

// openCall is a call that was not answered yet.
type openCall struct {
	name   string
	answer chan any
}

// openStream is a call whose answers are a stream.
type openStream struct {
	heard
	ctx context.Context
	// empty is one of its answers that says nothing yet; an answer or an error is said, and nil ends it without one.
	empty proto.Message
	said  chan any
	// over is whether the sidecar has ended it, and granted whether a hold was granted over it.
	over, granted bool
}

// start lets the sidecar begin, and kill ends it with all its connections.
func (s *sidecar) start() {
	options := append(s.options, grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream), grpc.StatsHandler(s))
	s.server = grpc.NewServer(options...)
	leaseholdv1.RegisterLeaseServiceServer(s.server, leaseholdv1.UnimplementedLeaseServiceServer{})
	leaseholdv1.RegisterScheduleServiceServer(s.server, leaseholdv1.UnimplementedScheduleServiceServer{})
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.listener = bufconn.Listen(1 << 16)
	go func(server *grpc.Server, on *bufconn.Listener) { _ = server.Serve(on) }(s.server, s.listener)
}

func (s *sidecar) kill() {
	s.locked(func() {
		for _, stream := range s.streams {
			stream.over = true
		}
	})
	s.server.Stop()
}

func (s *sidecar) locked(do func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	do()
}

func (s *sidecar) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var listener *bufconn.Listener
	s.locked(func() { listener = s.listener })
	return listener.DialContext(ctx)
}

// hearLocked writes down a request, and gives its name.
func (s *sidecar) hearLocked(ctx context.Context, request any) (heard, string) {
	came := heard{Message: request.(proto.Message), words: s.wordsLocked(request), by: ctx.Value(connectionKey{}).(int32)}
	came.head, _ = metadata.FromIncomingContext(ctx)
	s.requests, s.sent = append(s.requests, came), append(s.sent, came.words)
	if needing, may := request.(interface{ GetNeeds() uint32 }); may && needing.GetNeeds() != 1 {
		s.faults = append(s.faults, "a request that does not need revision 1")
	}
	name, _, _ := strings.Cut(came.words, " ")
	return came, name
}

// words are what the vectors say of a request: the name of its call, and fields of it.
var words = map[protoreflect.Name][]protoreflect.Name{
	"ReleaseLeaseRequest": {"release", "generation"}, "GetHoldRequest": {"get_hold", "generation"},
	"ReportProgressRequest": {"report_progress", "generation"}, "ExtendLeaseRequest": {"extend_lease", "generation", "max_hold"},
	"SaveCheckpointRequest": {"save_checkpoint", "generation", "value"}, "CompleteRunRequest": {"complete_run", "generation", "outcome"},
}

// wordsLocked is a request in the words of the vectors; one that they do not have is only named.
func (s *sidecar) wordsLocked(request any) string {
	message := request.(proto.Message).ProtoReflect()
	switch request := request.(type) {
	case *leaseholdv1.HoldLeaseRequest:
		said := "hold"
		if resume := request.GetResume(); resume != nil {
			return s.resumeLocked(resume)
		}
		spec := request.GetSpec().ProtoReflect()
		for _, name := range []protoreflect.Name{"wait", "permits", "priority", "yields", "share"} {
			if field := spec.Descriptor().Fields().ByName(name); spec.Has(field) {
				said += strings.TrimSuffix(" "+string(name)+" "+valueOf(spec, name), " true")
			}
		}
		return said
	case *leaseholdv1.SubscribeScheduleRequest:
		said := "subscribe"
		if request.GetReconnected() {
			said += " reconnected"
		}
		if resume := request.GetResume(); resume != nil && request.GetRunId() == "run-1" {
			said += " " + s.resumeLocked(resume)
		}
		return said
	}
	said, isKnown := words[message.Descriptor().Name()]
	if !isKnown {
		return strings.TrimSuffix(string(message.Descriptor().Name()), "Request")
	}
	text := string(said[0])
	for _, field := range said[1:] {
		text += " " + valueOf(message, field)
	}
	return text
}

// valueOf is what a field says.
func valueOf(message protoreflect.Message, name protoreflect.Name) string {
	field := message.Descriptor().Fields().ByName(name)
	switch value := message.Get(field); field.Kind() {
	case protoreflect.MessageKind:
		return fmt.Sprint(duration(value.Message().Interface().(*durationpb.Duration)).Milliseconds())
	case protoreflect.EnumKind:
		return strings.TrimPrefix(string(field.Enum().Values().ByNumber(value.Enum()).Name()), prefixOf(field.Enum()))
	case protoreflect.BytesKind:
		return string(value.Bytes())
	default:
		return value.String()
	}
}

func (s *sidecar) resumeLocked(resume *leaseholdv1.Resume) string {
	said := "resume " + resume.GetResumeToken()
	if told := resume.GetToldValidUntil(); told != nil {
		said += fmt.Sprint(" told ", (told.GetSinceBoot().AsDuration() - bases[s.kernel]).Milliseconds())
	}
	if !slices.Contains(s.attempts, resume.GetAttemptId()) {
		s.attempts = append(s.attempts, resume.GetAttemptId())
	}
	return said + fmt.Sprint(" attempt ", slices.Index(s.attempts, resume.GetAttemptId())+1)
}

// unary answers each call that is no stream, now or when the test says how.
func (s *sidecar) unary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	valid := s.isValid()
	s.mutex.Lock()
	_, name := s.hearLocked(ctx, request)
	if valid && (name == "release" || name == "complete_run") {
		s.faults = append(s.faults, "S13: the hold is valid when its end is sent")
	}
	call := &openCall{name, make(chan any, 1)}
	if answer, isNext := s.next[name]; isNext {
		delete(s.next, name)
		call.answer <- answer
	} else if answer := cmp.Or(s.answers[name], s.answers[""]); answer != nil {
		call.answer <- answer
	} else {
		s.calls = append(s.calls, call)
	}
	s.mutex.Unlock()
	var answer any
	select {
	case <-ctx.Done():
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.calls = slices.DeleteFunc(s.calls, func(other *openCall) bool { return other == call })
		return nil, status.FromContextError(ctx.Err()).Err()
	case answer = <-call.answer:
	}
	if made, isMade := answer.(func(request any) any); isMade {
		answer = made(request)
	}
	switch answer := answer.(type) {
	case said:
		return answerOf(s.kernel, name, answer), nil
	case error:
		return nil, answer
	}
	return answer, nil
}

// give answers the oldest call of a name; where there is none, the next one.
func (s *sidecar) give(name string, answer any) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for i, call := range s.calls {
		if call.name == name {
			s.calls = slices.Delete(s.calls, i, i+1)
			call.answer <- answer
			return
		}
	}
	s.next = map[string]any{name: answer}
}

// always has each call of a name answered so, or by [sidecar.give] only if the answer is nil.
func (s *sidecar) always(name string, answer any) { s.locked(func() { s.answers[name] = answer }) }

// stream says on a stream what the test says.
func (s *sidecar) stream(_ any, stream grpc.ServerStream, of *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
	messages := map[string][2]proto.Message{
		"HoldLease":         {&leaseholdv1.HoldLeaseRequest{}, &leaseholdv1.HoldLeaseResponse{}},
		"SubscribeSchedule": {&leaseholdv1.SubscribeScheduleRequest{}, &leaseholdv1.SubscribeScheduleResponse{}},
		"WatchLock":         {&leaseholdv1.WatchLockRequest{}, &leaseholdv1.WatchLockResponse{}},
		"WatchLocks":        {&leaseholdv1.WatchLocksRequest{}, &leaseholdv1.WatchLocksResponse{}},
	}[path.Base(of.FullMethod)]
	if err := stream.RecvMsg(messages[0]); err != nil {
		return err
	}
	c := &openStream{ctx: stream.Context(), empty: messages[1], said: make(chan any, 64)}
	s.mutex.Lock()
	c.heard, _ = s.hearLocked(c.ctx, messages[0])
	if _, has := c.ctx.Deadline(); has {
		s.faults = append(s.faults, "S14: a stream has a deadline")
	}
	s.streams = append(s.streams, c)
	s.mutex.Unlock()
	for {
		select {
		case <-c.ctx.Done():
			return c.ctx.Err()
		case said := <-c.said:
			switch said := said.(type) {
			case proto.Message:
				if err := stream.SendMsg(said); err != nil {
					return err
				}
			case error:
				return said
			default:
				return nil
			}
		}
	}
}

// on is a stream by its number, and the newest without one.
func (s *sidecar) on(number int) *openStream {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if number == 0 {
		number = len(s.streams)
	}
	return s.streams[number-1]
}

// tell says an event on a stream, in the words of the vectors.
func (s *sidecar) tell(on *openStream, name string, of said) {
	on.granted = on.granted || name == "granted" || name == "run"
	on.said <- s.word(on, name, of)
}

func (s *sidecar) word(on *openStream, name string, of said) proto.Message {
	return says(proto.Clone(on.empty), s.kernel, name, of)
}

// end ends a stream with an error, or without one.
func (s *sidecar) end(number int, err error) {
	on := s.on(number)
	on.over = true
	on.said <- err
}

// takeSent gives what was sent since it was asked last, and what must never be.
func (s *sidecar) takeSent() (sent, faults []string) {
	valid := s.isValid()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for i, stream := range s.streams {
		isReplaced := slices.ContainsFunc(s.streams[i+1:], func(later *openStream) bool { return later.granted })
		if valid && stream.ctx.Err() != nil && !stream.over && !isReplaced {
			s.faults = append(s.faults, "S14: a stream was ended while the hold was valid")
		}
	}
	sent, faults = s.sent, s.faults
	s.sent, s.faults = nil, nil
	return sent, faults
}

// alive are the numbers of the streams that neither side has ended.
func (s *sidecar) alive() []int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	numbers := []int{}
	for i, stream := range s.streams {
		if !stream.over && stream.ctx.Err() == nil {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}
