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
	// calls are all, and streams those whose answers are one.
	calls, streams []*arrival
	// answers are those of all calls of a name that no other answer was given for, and next is that of the next one: what is
	// said in the words of the vectors, a message, an error, or what makes one of these from a request.
	answers, next          map[string]any
	attempts, sent, faults []string
}

// arrival is what came to the sidecar, and by which connection.
type arrival struct {
	proto.Message
	ctx         context.Context
	words, name string
	head        metadata.MD
	by          int32
	// empty is a message of a stream that says nothing yet. What is said is a message or an error, or nil for the end.
	empty proto.Message
	said  chan any
	// over is whether the sidecar has answered or ended it, and granted whether a hold was granted over it.
	over, granted bool
}

func (s *sidecar) locked(do func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	do()
}

// start lets the sidecar begin, and kill ends it with all its connections.
func (s *sidecar) start() {
	// It allows as many calls at a time as the real one.
	server := grpc.NewServer(append(s.options, grpc.StatsHandler(s), grpc.StreamInterceptor(s.stream),
		grpc.UnaryInterceptor(s.unary), grpc.MaxConcurrentStreams(256))...)
	listener := bufconn.Listen(1 << 16)
	leaseholdv1.RegisterLeaseServiceServer(server, leaseholdv1.UnimplementedLeaseServiceServer{})
	leaseholdv1.RegisterScheduleServiceServer(server, leaseholdv1.UnimplementedScheduleServiceServer{})
	s.locked(func() { s.server, s.listener = server, listener })
	go func() { _ = server.Serve(listener) }()
}

func (s *sidecar) kill() {
	s.locked(func() {
		for _, stream := range s.streams {
			stream.over = true
		}
	})
	s.server.Stop()
}

func (s *sidecar) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var listener *bufconn.Listener
	s.locked(func() { listener = s.listener })
	return listener.DialContext(ctx)
}

// words are what the vectors say of a request: the name of its call, and fields of it.
var words = map[protoreflect.Name][]protoreflect.Name{
	"ReleaseLeaseRequest": {"release", "generation"}, "GetHoldRequest": {"get_hold", "generation"},
	"ReportProgressRequest": {"report_progress", "generation"}, "ExtendLeaseRequest": {"extend_lease", "generation", "max_hold"},
	"SaveCheckpointRequest": {"save_checkpoint", "generation", "value"}, "CompleteRunRequest": {"complete_run", "generation", "outcome"},
}

// wordsLocked is a request in the words of the vectors; one that they do not have is only named.
func (s *sidecar) wordsLocked(request proto.Message) string {
	switch request := request.(type) {
	case *leaseholdv1.HoldLeaseRequest:
		said, spec := "hold", request.GetSpec().ProtoReflect()
		if resume := request.GetResume(); resume != nil {
			return s.resumeLocked(resume)
		}
		for _, name := range []protoreflect.Name{"wait", "permits", "priority", "yields", "share"} {
			if spec.Has(spec.Descriptor().Fields().ByName(name)) {
				said += strings.TrimSuffix(" "+string(name)+" "+valueOf(spec, name), " true")
			}
		}
		return said
	case *leaseholdv1.SubscribeScheduleRequest:
		said := "subscribe" + map[bool]string{true: " reconnected"}[request.GetReconnected()]
		if resume := request.GetResume(); resume != nil && request.GetRunId() == "run-1" {
			said += " " + s.resumeLocked(resume)
		}
		return said
	}
	message := request.ProtoReflect()
	said := words[message.Descriptor().Name()]
	if said == nil {
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

// hear takes in a call. One that is no stream is answered now, if the test has said how.
func (s *sidecar) hear(ctx context.Context, request any, empty proto.Message) *arrival {
	c := &arrival{Message: request.(proto.Message), ctx: ctx, empty: empty, said: make(chan any, 64)}
	c.head, _ = metadata.FromIncomingContext(ctx)
	c.by = ctx.Value(connectionKey{}).(int32)
	valid := s.isValid()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	c.words = s.wordsLocked(c.Message)
	c.name, _, _ = strings.Cut(c.words, " ")
	s.calls, s.sent = append(s.calls, c), append(s.sent, c.words)
	needing, may := request.(interface{ GetNeeds() uint32 })
	_, has := ctx.Deadline()
	for fault, is := range map[string]bool{
		"S37: a request does not need revision 1":     may && needing.GetNeeds() != 1,
		"S13: the hold is valid when its end is sent": valid && (c.name == "release" || c.name == "complete_run"),
		"S14: a stream has a deadline":                has && empty != nil,
	} {
		if is {
			s.faults = append(s.faults, fault)
		}
	}
	if answer := cmp.Or(s.next[c.name], s.answers[c.name], s.answers[""]); empty != nil {
		s.streams = append(s.streams, c)
	} else if answer != nil {
		delete(s.next, c.name)
		c.over = true
		c.said <- answer
	}
	return c
}

func (s *sidecar) unary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (answer any, err error) {
	c := s.hear(ctx, request, nil)
	select {
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	case answer = <-c.said:
	}
	if made, isMade := answer.(func(request any) any); isMade {
		answer = made(request)
	}
	switch answer := answer.(type) {
	case said:
		return answerOf(s.kernel, c.name, answer), nil
	case error:
		return nil, answer
	}
	return answer, nil
}

// give answers the oldest call of a name; where there is none, the next one.
func (s *sidecar) give(name string, answer any) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, call := range s.calls {
		if call.name == name && call.empty == nil && !call.over && call.ctx.Err() == nil {
			call.over = true
			call.said <- answer
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
	err := stream.RecvMsg(messages[0])
	for c := s.hear(stream.Context(), messages[0], messages[1]); err == nil; {
		select {
		case <-c.ctx.Done():
			return c.ctx.Err()
		case said := <-c.said:
			if message, isMessage := said.(proto.Message); isMessage {
				err = stream.SendMsg(message)
			} else {
				// Without an error it is no more than an end.
				err, _ = said.(error)
				return err
			}
		}
	}
	return err
}

// on is a stream by its number, and the newest without one.
func (s *sidecar) on(number int) *arrival {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if number == 0 {
		number = len(s.streams)
	}
	return s.streams[number-1]
}

// tell says an event on a stream, in the words of the vectors.
func (s *sidecar) tell(on *arrival, name string, of said) {
	on.granted = on.granted || name == "granted" || name == "run"
	on.said <- s.word(on, name, of)
}

func (s *sidecar) word(on *arrival, name string, of said) proto.Message {
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
		isReplaced := slices.ContainsFunc(s.streams[i+1:], func(later *arrival) bool { return later.granted })
		if valid && stream.ctx.Err() != nil && !stream.over && !isReplaced {
			s.faults = append(s.faults, "S14: a stream was ended while the hold was valid")
		}
	}
	sent, faults, s.sent, s.faults = s.sent, s.faults, nil, nil
	return sent, faults
}

// alive are the numbers of the streams that neither side has ended.
func (s *sidecar) alive() (numbers []int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for i, stream := range s.streams {
		if !stream.over && stream.ctx.Err() == nil {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}
