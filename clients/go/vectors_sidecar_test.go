package leasehold

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// vectorSidecar stands in the place of the connections: nothing goes over a socket.
type vectorSidecar struct {
	kernel  string
	isValid func() bool

	mutex    sync.Mutex
	streams  []*vectorStream
	calls    []*vectorCall
	prepared map[string]any
	attempts []string
	sent     []string
	faults   []string
}

// vectorCall is a call that was not answered yet.
type vectorCall struct {
	name   string
	answer chan any
}

// vectorStream is a HoldLease call, as the client has it.
type vectorStream struct {
	grpc.ClientStream
	sidecar *vectorSidecar
	ctx     context.Context
	said    chan any
	// over is whether the sidecar has ended it, and granted whether a hold was granted over it.
	over, granted bool
}

func (c *vectorStream) CloseSend() error { return nil }

func (c *vectorStream) SendMsg(request any) error {
	start, _ := request.(*leaseholdv1.HoldLeaseRequest)
	spec := start.GetSpec()
	c.sidecar.mutex.Lock()
	defer c.sidecar.mutex.Unlock()
	if start.GetNeeds() != 1 {
		c.sidecar.sent = append(c.sidecar.sent, "a request that does not need revision 1")
	}
	c.sidecar.streams = append(c.sidecar.streams, c)
	if resume := start.GetResume(); resume != nil {
		c.sidecar.sent = append(c.sidecar.sent, c.sidecar.resumeLocked(resume))
		return nil
	}
	said := "hold"
	for _, part := range []struct {
		is   bool
		said string
	}{
		{spec.GetWait().AsDuration() > 0, fmt.Sprint(" wait ", spec.GetWait().AsDuration().Milliseconds())},
		{spec.GetPermits() > 1, fmt.Sprint(" permits ", spec.GetPermits())},
		{spec.GetPriority() > 0, fmt.Sprint(" priority ", spec.GetPriority())},
		{spec.GetYields(), " yields"},
		{spec.GetShare() != "", " share " + spec.GetShare()},
	} {
		if part.is {
			said += part.said
		}
	}
	c.sidecar.sent = append(c.sidecar.sent, said)
	return nil
}

func (s *vectorSidecar) resumeLocked(resume *leaseholdv1.Resume) string {
	said := "resume " + resume.GetResumeToken()
	if told := resume.GetToldValidUntil(); told != nil {
		said += fmt.Sprint(" told ", (told.GetSinceBoot().AsDuration() - bases[s.kernel]).Milliseconds())
	}
	if !slices.Contains(s.attempts, resume.GetAttemptId()) {
		s.attempts = append(s.attempts, resume.GetAttemptId())
	}
	return said + fmt.Sprint(" attempt ", slices.Index(s.attempts, resume.GetAttemptId())+1)
}

func (c *vectorStream) RecvMsg(into any) error {
	select {
	case <-c.ctx.Done():
		return status.FromContextError(c.ctx.Err()).Err()
	case said, goesOn := <-c.said:
		if !goesOn {
			return errGone
		}
		if message, isMessage := said.(proto.Message); isMessage {
			proto.Merge(into.(proto.Message), message)
			return nil
		}
		return said.(error)
	}
}

func (s *vectorSidecar) stream(
	ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ grpc.Streamer, _ ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if _, has := ctx.Deadline(); has {
		s.fault("S14: a stream has a deadline")
	}
	return &vectorStream{sidecar: s, ctx: ctx, said: make(chan any, 8)}, nil
}

func (s *vectorSidecar) unary(
	ctx context.Context, _ string, request, into any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption,
) error {
	var name, more string
	switch request := request.(type) {
	case *leaseholdv1.ReleaseLeaseRequest:
		name, more = "release", fmt.Sprint(request.GetGeneration())
		if s.isValid() {
			s.fault("S13: the hold is valid when its release is sent")
		}
	case *leaseholdv1.GetHoldRequest:
		name, more = "get_hold", fmt.Sprint(request.GetGeneration())
	case *leaseholdv1.ReportProgressRequest:
		name, more = "report_progress", fmt.Sprint(request.GetGeneration())
	case *leaseholdv1.ExtendLeaseRequest:
		name = "extend_lease"
		more = fmt.Sprint(request.GetGeneration(), " ", request.GetMaxHold().AsDuration().Milliseconds())
	case *leaseholdv1.SaveCheckpointRequest:
		name, more = "save_checkpoint", fmt.Sprint(request.GetGeneration(), " ", string(request.GetValue()))
	}
	call := &vectorCall{name, make(chan any, 1)}
	s.mutex.Lock()
	s.sent = append(s.sent, name+" "+more)
	if answer, isPrepared := s.prepared[name]; isPrepared {
		delete(s.prepared, name)
		call.answer <- answer
	} else {
		s.calls = append(s.calls, call)
	}
	s.mutex.Unlock()
	select {
	case <-ctx.Done():
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.calls = slices.DeleteFunc(s.calls, func(other *vectorCall) bool { return other == call })
		return status.FromContextError(ctx.Err()).Err()
	case answer := <-call.answer:
		if message, isMessage := answer.(proto.Message); isMessage {
			proto.Merge(into.(proto.Message), message)
			return nil
		}
		return answer.(error)
	}
}

func (s *vectorSidecar) fault(what string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.faults = append(s.faults, what)
}

// give answers the oldest call of a name; where there is none, the next one.
func (s *vectorSidecar) give(name string, answer any) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for i, call := range s.calls {
		if call.name == name {
			s.calls = slices.Delete(s.calls, i, i+1)
			call.answer <- answer
			return
		}
	}
	s.prepared = map[string]any{name: answer}
}

func (s *vectorSidecar) answer(name string, of said) { s.give(name, answerOf(s.kernel, name, of)) }

func (s *vectorSidecar) refuse(name string, of refusing) { s.give(name, of.err()) }

// on is a stream by its number, and the newest without one.
func (s *vectorSidecar) on(number int) *vectorStream {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if number == 0 {
		number = len(s.streams)
	}
	return s.streams[number-1]
}

func (s *vectorSidecar) tell(t *testing.T, number int, text json.RawMessage) {
	t.Helper()
	stream := s.on(number)
	var events []map[string]said
	if text[0] == '{' {
		text = json.RawMessage("[" + string(text) + "]")
	}
	if err := strict(text, &events); err != nil {
		t.Fatal(err)
	}
	for _, event := range events {
		for name, of := range event {
			stream.granted = stream.granted || name == "granted"
			stream.said <- says(&leaseholdv1.HoldLeaseResponse{}, s.kernel, name, of)
		}
	}
}

func (s *vectorSidecar) breakStream(number int, of refusing) {
	stream := s.on(number)
	stream.over = true
	if of.Code == "" {
		stream.said <- io.EOF
		return
	}
	stream.said <- of.err()
}

// takeSent gives what was sent since it was asked last, and what must never be.
func (s *vectorSidecar) takeSent() (sent, faults []string) {
	valid := s.isValid()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for i, stream := range s.streams {
		isReplaced := slices.ContainsFunc(s.streams[i+1:], func(later *vectorStream) bool { return later.granted })
		if valid && stream.ctx.Err() != nil && !stream.over && !isReplaced {
			s.faults = append(s.faults, "S14: a stream was ended while the hold was valid")
		}
	}
	sent, faults = s.sent, s.faults
	s.sent, s.faults = nil, nil
	return sent, faults
}

// open are the numbers of the streams that live.
func (s *vectorSidecar) open() []int {
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

// end ends all that goes on.
func (s *vectorSidecar) end() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, stream := range s.streams {
		close(stream.said)
	}
	for _, call := range s.calls {
		call.answer <- errGone
	}
	s.streams, s.calls = nil, nil
}
