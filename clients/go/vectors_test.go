package leasehold

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// vector is one story of proto/vectors/client.jsonl; docs/clients.md says what it means.
type vector struct {
	Vector string
	Rules  []string
	Kernel string
	steps  []step
}

// step is one line of a vector.
type step struct {
	At, Sleep, Within int64
	Do                map[string]deed
	Tell              json.RawMessage
	On                int
	Break             *refusing
	Answer            map[string]said
	Refuse            map[string]refusing
	Sent, Told        []string
	Returned          []string
	Until             json.RawMessage
	MaxHold           *int64 `json:"max_hold"`
	Open              []int
}

// deed is what the holder does, with all that it may say.
type deed struct {
	Wait         int64
	MaxHold      int64 `json:"max_hold"`
	Permits      uint32
	Priority     uint32
	Yields       bool
	Share, Value string
}

func strict(text []byte, into any) error {
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

func readVectors(t *testing.T) []vector {
	t.Helper()
	file, err := os.Open("../../proto/vectors/client.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var vectors []vector
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		var err error
		switch {
		case line == "":
		case strings.HasPrefix(line, `{"vector":`):
			vectors = append(vectors, vector{Kernel: "ours"})
			err = strict([]byte(line), &vectors[len(vectors)-1])
		default:
			var next step
			err = strict([]byte(line), &next)
			last := &vectors[len(vectors)-1]
			last.steps = append(last.steps, next)
		}
		if err != nil {
			t.Fatal(line, err)
		}
	}
	return vectors
}

func TestTheClientDoesWhatTheVectorsSay(t *testing.T) {
	vectors := readVectors(t)
	if len(vectors) < 50 {
		t.Error("vectors are missing:", len(vectors))
	}
	for _, v := range vectors {
		t.Run(v.Vector, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, v.Kernel)
				for _, next := range v.steps {
					s.play(next)
				}
				s.end()
			})
		})
	}
}

// stage is a client in a time of its own, and a sidecar that does what a vector says.
type stage struct {
	*testing.T
	sidecar *vectorSidecar
	client  *Client
	began   time.Time
	until   json.RawMessage

	mutex sync.Mutex
	slept time.Duration
	held  *Hold
	told  []string
	ended []string
}

// now makes the stage a clock, whose kernel is ours and which begins at base.
func (s *stage) now() BootInstant {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return BootInstant(bases["ours"] + time.Since(s.began) + s.slept)
}

func (s *stage) bootID() string { return ours }

// clock is the time of the vector in milliseconds.
func (s *stage) clock() int64 { return (s.now().SinceBoot() - bases["ours"]).Milliseconds() }

func newStage(t *testing.T, kernel string) *stage {
	t.Helper()
	s := &stage{T: t, began: time.Now(), until: json.RawMessage("null")}
	s.sidecar = &vectorSidecar{kernel: kernel, isValid: func() bool { hold := s.hold(); return hold != nil && hold.Valid() }}
	dial := func() (*grpc.ClientConn, error) {
		return grpc.NewClient("passthrough:///vectors", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithUnaryInterceptor(s.sidecar.unary), grpc.WithStreamInterceptor(s.sidecar.stream))
	}
	pool := &pool{dial: dial, silence: silence}
	pool.general, _ = pool.connect()
	s.client = newClient(pool, s, defaultReleaseTimeout)
	return s
}

func (s *stage) hold() *Hold {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.held
}

// pass lets the time go to a moment of the vector.
func (s *stage) pass(to int64) {
	time.Sleep(time.Duration(to-s.clock()) * time.Millisecond)
	synctest.Wait()
}

// play does what a step says, and compares what came of it.
func (s *stage) play(next step) {
	s.Helper()
	s.reach(next.At)
	if next.Sleep > 0 {
		s.mutex.Lock()
		s.slept += time.Duration(next.Sleep) * time.Millisecond
		s.mutex.Unlock()
	}
	for name, answer := range next.Answer {
		s.sidecar.answer(name, answer)
	}
	for name, refusal := range next.Refuse {
		s.sidecar.refuse(name, refusal)
	}
	for name, of := range next.Do {
		go s.do(name, of)
	}
	if next.Tell != nil {
		s.sidecar.tell(s.T, next.On, next.Tell)
	}
	if next.Break != nil {
		s.sidecar.breakStream(next.On, *next.Break)
	}
	synctest.Wait()
	s.pass(next.At + next.Sleep + next.Within)
	s.compare(next)
}

// reach lets the time go on to a step. The validity ends at its end, neither sooner nor later.
func (s *stage) reach(at int64) {
	s.Helper()
	var until int64
	if string(s.until) != "null" && json.Unmarshal(s.until, &until) == nil && s.clock() < until && until < at {
		s.pass(until - 1)
		if !s.hold().Valid() {
			s.Errorf("before %d: the hold is over at %d already", at, until-1)
		}
		s.pass(until)
		if s.hold().Valid() {
			s.Errorf("before %d: the hold is not over at %d", at, until)
		}
	}
	s.pass(at)
}

func (s *stage) compare(next step) {
	s.Helper()
	sent, faults := s.sidecar.takeSent()
	s.mutex.Lock()
	told, returned := s.told, s.ended
	s.told, s.ended = nil, nil
	s.mutex.Unlock()
	for what, lists := range map[string][2][]string{
		"sent": {sent, next.Sent}, "told": {told, next.Told}, "returned": {returned, next.Returned}, "wrong": {faults, nil},
	} {
		if !slices.Equal(lists[0], lists[1]) {
			s.Errorf("at %d %s: %q, not %q", next.At, what, lists[0], lists[1])
		}
	}
	if next.Until != nil {
		s.until = next.Until
	}
	until := "null"
	if hold := s.hold(); hold != nil && hold.Valid() {
		until = fmt.Sprint(sinceBase(hold.ValidUntil()))
	}
	if until != string(s.until) {
		s.Errorf("at %d until: %s, not %s", next.At, until, s.until)
	}
	if next.MaxHold != nil {
		if ends, _ := s.hold().MaxHoldEnds(); sinceBase(ends) != *next.MaxHold {
			s.Errorf("at %d max_hold: %d, not %d", next.At, sinceBase(ends), *next.MaxHold)
		}
	}
	if open := s.sidecar.open(); next.Open != nil && !slices.Equal(open, next.Open) {
		s.Errorf("at %d open: %v, not %v", next.At, open, next.Open)
	}
}

func sinceBase(instant BootInstant) int64 {
	return (instant.SinceBoot() - bases["ours"]).Milliseconds()
}

// do is what the holder does, and what comes of it.
func (s *stage) do(name string, of deed) {
	ctx := s.Context()
	var done string
	var err error
	switch name {
	case "hold":
		var hold *Hold
		spec := LeaseSpec{
			Key: LockKey{Function: "f"}, Wait: time.Duration(of.Wait) * time.Millisecond, Permits: of.Permits,
			Priority: of.Priority, Yields: of.Yields, Share: of.Share, OnEvent: s.tell,
		}
		if hold, err = s.client.Hold(ctx, spec); err == nil {
			done = "held"
			s.mutex.Lock()
			s.held = hold
			s.mutex.Unlock()
		}
	case "release":
		var result ReleaseResult
		result, err = s.hold().Release(ctx)
		done = string(result.Outcome)
	case "report_progress":
		done, err = "done", s.hold().ReportProgress(ctx)
	case "extend_lease":
		done, err = "done", s.hold().Extend(ctx, time.Duration(of.MaxHold)*time.Millisecond)
	case "save_checkpoint":
		var version uint64
		version, err = s.hold().Save(ctx, []byte(of.Value))
		done = fmt.Sprint(version)
	default:
		done = "is unknown"
	}
	if err != nil {
		done = nameOfError(err)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.ended = append(s.ended, name+" "+done)
}

func nameOfError(err error) string {
	var busy *BusyError
	var lost *LostError
	var release *ReleaseUnconfirmedError
	var refused *RefusedError
	switch {
	case errors.As(err, &busy):
		return "busy " + string(busy.Busy.Reason)
	case errors.As(err, &lost):
		return "lost " + string(lost.Reason)
	case errors.As(err, &release):
		return "unconfirmed"
	case errors.As(err, &refused):
		return "refused " + string(refused.Reason)
	}
	return err.Error()
}

// end ends all that goes on.
func (s *stage) end() {
	if hold := s.hold(); hold != nil {
		hold.state.lose(clientClosed())
	}
	_ = s.client.Close()
	s.sidecar.end()
	synctest.Wait()
}

// tell takes in what the holder is told, but the grant, which the hold itself is.
func (s *stage) tell(event HoldEvent) {
	var said string
	switch event := event.(type) {
	case Granted:
		return
	case Waiting:
		said = fmt.Sprintf("waiting %d", event.Position)
	case Renewed:
		said = "renewed"
	case AtRisk:
		said = "at_risk " + string(event.Cause)
	case Recovered:
		said = "recovered"
	case Draining:
		said = fmt.Sprintf("draining %d", event.TimeLeft.Milliseconds())
	case Interrupted:
		said = "interrupted"
	case Resumed:
		said = "resumed"
	case Revoked:
		said = "revoked by " + event.Notice.By
	case Lost:
		said = "lost " + string(event.Loss.Reason)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.told = append(s.told, said)
}
