package leasehold

import (
	"cmp"
	"context"
	"fmt"
	"net"
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
	"google.golang.org/protobuf/reflect/protoregistry"
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
	// empty is an answer that says nothing yet. What is said is what answers are, or nil for the end of a stream.
	empty    proto.Message
	isStream bool
	said     chan any
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
	server := grpc.NewServer(append(s.options, grpc.StatsHandler(s), grpc.UnknownServiceHandler(s.serve), grpc.MaxConcurrentStreams(256))...)
	listener := bufconn.Listen(1 << 16)
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
		for _, name := range []protoreflect.Name{"wait", "wait_without_end", "permits", "priority", "yields", "share"} {
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

// hear takes in a call, which is answered now if the test has said how.
func (s *sidecar) hear(c *arrival) *arrival {
	c.head, _ = metadata.FromIncomingContext(c.ctx)
	c.by = c.ctx.Value(connectionKey{}).(int32)
	valid := s.isValid()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	c.words = s.wordsLocked(c.Message)
	c.name, _, _ = strings.Cut(c.words, " ")
	s.calls, s.sent = append(s.calls, c), append(s.sent, c.words)
	needing, may := c.Message.(interface{ GetNeeds() uint32 })
	_, has := c.ctx.Deadline()
	if c.isStream {
		s.streams = append(s.streams, c)
	}
	for fault, is := range map[string]bool{
		"S37: a request does not need revision 1":     may && needing.GetNeeds() != 1,
		"S13: the hold is valid when its end is sent": valid && (c.name == "release" || c.name == "complete_run"),
		"S14: a stream has a deadline":                has && c.isStream,
	} {
		if is {
			s.faults = append(s.faults, fault)
		}
	}
	if answer := cmp.Or(s.next[c.name], s.answers[c.name], s.answers[""]); answer != nil {
		delete(s.next, c.name)
		c.over = true
		c.said <- answer
	}
	return c
}

// give answers the oldest call of a name; where there is none, the next one.
func (s *sidecar) give(name string, answer any) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, call := range s.calls {
		if call.name == name && !call.isStream && !call.over && call.ctx.Err() == nil {
			call.over = true
			call.said <- answer
			return
		}
	}
	s.next = map[string]any{name: answer}
}

// always has each call of a name answered so, or by [sidecar.give] only if the answer is nil.
func (s *sidecar) always(name string, answer any) { s.locked(func() { s.answers[name] = answer }) }

// serve says what the test says, once if the call is no stream.
func (s *sidecar) serve(_ any, stream grpc.ServerStream) error {
	called, _ := grpc.MethodFromServerStream(stream)
	name := protoreflect.FullName(strings.ReplaceAll(called[1:], "/", "."))
	method := must(protoregistry.GlobalFiles.FindDescriptorByName(name)).(protoreflect.MethodDescriptor)
	request, empty := emptyOf(method.Input()), emptyOf(method.Output())
	err := stream.RecvMsg(request)
	c := s.hear(&arrival{
		Message: request, ctx: stream.Context(), empty: empty, isStream: method.IsStreamingServer(), said: make(chan any, 64),
	})
	for isFirst := true; err == nil && (isFirst || c.isStream); isFirst = false {
		select {
		case <-c.ctx.Done():
			err = c.ctx.Err()
		case told := <-c.said:
			if made, isMade := told.(func(request any) any); isMade {
				told = made(request)
			}
			if words, isSaid := told.(said); isSaid {
				told = fillIn(empty, s.kernel, words)
			}
			message, isMessage := told.(proto.Message)
			if !isMessage {
				// Without an error it is no more than an end.
				err, _ = told.(error)
				return err
			}
			err = stream.SendMsg(message)
		}
	}
	return err
}

func emptyOf(message protoreflect.MessageDescriptor) proto.Message {
	return must(protoregistry.GlobalTypes.FindMessageByName(message.FullName())).New().Interface()
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
