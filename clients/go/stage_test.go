package leasehold

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// stage is a client in a time of its own, and a sidecar that does what is said.
type stage struct {
	*testing.T
	*sidecar
	client *Client
	runs   *Runs
	began  time.Time
	until  json.RawMessage

	own   sync.Mutex
	slept time.Duration
	held  *Hold
	run   *Run
	told  []string
	ended []string
}

// now makes the stage a clock, whose kernel is ours and which begins at base.
func (s *stage) now() BootInstant {
	s.own.Lock()
	defer s.own.Unlock()
	return BootInstant(bases["ours"] + time.Since(s.began) + s.slept)
}

func (s *stage) bootID() string { return ours }

// clock is the time of the stage in milliseconds.
func (s *stage) clock() int64 { return sinceBase(s.now()) }

func sinceBase(instant BootInstant) int64 {
	return (instant.SinceBoot() - bases["ours"]).Milliseconds()
}

// newStage takes options of the client and of the sidecar's server.
func newStage(t *testing.T, kernel string, with ...any) *stage {
	t.Helper()
	s := &stage{T: t, began: time.Now(), until: json.RawMessage("null")}
	s.sidecar = &sidecar{kernel: kernel, answers: map[string]any{}, isValid: func() bool {
		hold := s.hold()
		return hold != nil && hold.Valid()
	}}
	opts := []Option{WithEndpoint("unix:///sidecar")}
	for _, option := range with {
		switch option := option.(type) {
		case Option:
			opts = append(opts, option)
		case grpc.ServerOption:
			s.options = append(s.options, option)
		}
	}
	s.start()
	var err error
	if s.client, err = s.connect(opts...); err != nil {
		t.Fatal(err)
	}
	if s.runs, err = s.client.Runs(s.nightly()); err != nil {
		t.Fatal(err)
	}
	s.client.random = func() float64 { return 1 }
	return s
}

// connect gives a client of the sidecar.
func (s *stage) connect(opts ...Option) (*Client, error) {
	return Connect(s.Context(), append([]Option{func(o *options) {
		o.dial, o.newClock = s.dial, func() (clock, error) { return s, nil }
	}}, opts...)...)
}

// staged runs a test in a time of its own. Calls about what is held are answered well, unless the test says how.
func staged(t *testing.T, test func(s *stage), with ...any) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, "ours", with...)
		fresh := func(any) any { return s.fresh() }
		s.answers = map[string]any{
			"release": said{Outcome: "RELEASED"}, "save_checkpoint": said{Version: 1}, "complete_run": said{Result: "RECORDED"},
			"report_progress": fresh, "extend_lease": fresh, "get_hold": fresh, "AcquireLease": func(any) any {
				grant := &leaseholdv1.AcquireLeaseResponse_Granted{Granted: granting("ours", s.fresh())}
				return &leaseholdv1.AcquireLeaseResponse{Outcome: grant}
			},
		}
		defer s.leave()
		test(s)
	})
}

// leave ends all that goes on.
func (s *stage) leave() {
	if hold := s.hold(); hold != nil {
		hold.state.lose(clientClosed())
	}
	s.runs.Close()
	_ = s.client.Close()
	s.server.Stop()
	synctest.Wait()
}

// fresh is a validity of 58 s.
func (s *stage) fresh() said { return said{Until: s.clock() + 58_000, For: 58_000} }

func (s *stage) hold() *Hold {
	s.own.Lock()
	defer s.own.Unlock()
	return s.held
}

// has takes in what was granted.
func (s *stage) has(hold *Hold, run *Run) {
	s.own.Lock()
	defer s.own.Unlock()
	s.held, s.run = hold, run
}

// pass lets the time go to a moment.
func (s *stage) pass(to int64) {
	time.Sleep(time.Duration(to-s.clock()) * time.Millisecond)
	synctest.Wait()
}

// outcome is what a call has ended with.
type outcome[T any] struct {
	value T
	err   error
}

// later makes a call that may wait, and goes on when it waits.
func later[T any](call func() (T, error)) <-chan outcome[T] {
	over := make(chan outcome[T], 1)
	go func() {
		value, err := call()
		over <- outcome[T]{value, err}
	}()
	synctest.Wait()
	return over
}

func (s *stage) asks(ctx context.Context, spec LeaseSpec) <-chan outcome[*Hold] {
	if spec.OnEvent == nil {
		spec.OnEvent = s.hear
	}
	return later(func() (*Hold, error) { return s.client.Hold(ctx, spec) })
}

// holds is a hold that was granted for 58 s over the newest stream.
func (s *stage) holds() *Hold {
	s.Helper()
	return s.granted(s.asks(s.Context(), LeaseSpec{Key: LockKey{Function: "f", Scope: "s"}}))
}

func (s *stage) granted(asked <-chan outcome[*Hold]) *Hold {
	s.Helper()
	s.says("granted", s.fresh())
	got := <-asked
	if got.err != nil {
		s.Fatal(got.err)
	}
	s.has(got.value, nil)
	return got.value
}

func (s *stage) nightly() ScheduleSpec {
	spec := nightly()
	spec.OnHoldEvent = s.hear
	spec.OnEvent = s.hearOfSchedule
	return spec
}

func (s *stage) nextRun() <-chan outcome[*Run] {
	return later(func() (*Run, error) { return s.runs.Next(s.Context()) })
}

// running is a run that has just come.
func (s *stage) running() *Run {
	s.Helper()
	asked := s.nextRun()
	s.says("standby", said{Understood: true})
	s.says("run", s.fresh())
	got := <-asked
	if got.err != nil {
		s.Fatal(got.err)
	}
	s.has(got.value.hold, got.value)
	return got.value
}

// says tells an event on the newest stream.
func (s *stage) says(name string, of said) {
	on := s.on(0)
	on.granted = on.granted || name == "granted" || name == "run"
	on.said <- s.word(on, name, of)
	synctest.Wait()
}

// breaks ends the newest stream.
func (s *stage) breaks(err error) {
	s.end(0, err)
	synctest.Wait()
}

// wantSent is what was sent since this was asked last; wantTold is the same of what the holder was told.
func (s *stage) wantSent(wanted ...string) {
	s.Helper()
	synctest.Wait()
	sent, faults := s.takeSent()
	if !slices.Equal(sent, wanted) || faults != nil {
		s.Errorf("%q, not %q; %q", sent, wanted, faults)
	}
}

func (s *stage) wantTold(wanted ...string) {
	s.Helper()
	synctest.Wait()
	s.own.Lock()
	defer s.own.Unlock()
	if !slices.Equal(s.told, wanted) {
		s.Errorf("%q, not %q", s.told, wanted)
	}
	s.told = nil
}

// wantLoss is that the hold's context tells of a loss.
func (s *stage) wantLoss(hold *Hold, reason LossReason) *LostError {
	s.Helper()
	synctest.Wait()
	loss, _ := context.Cause(hold.Context()).(*LostError)
	if loss == nil || loss.Reason != reason || hold.Loss() != error(loss) || hold.Valid() || hold.Remaining() != 0 {
		s.Fatal(context.Cause(hold.Context()), hold.Loss(), hold.Remaining())
	}
	return loss
}

// as gives an error of a type, which err must be.
func as[E error](t testing.TB, err error) (wanted E) {
	t.Helper()
	if !errors.As(err, &wanted) {
		t.Fatalf("%T: %v", err, err)
	}
	return wanted
}

func errOf[T any](_ T, err error) error { return err }

// hear takes in what the holder is told, but the grant, which the hold itself is.
func (s *stage) hear(event HoldEvent) {
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
	s.own.Lock()
	defer s.own.Unlock()
	s.told = append(s.told, said)
}

// hearOfSchedule takes in what a subscriber is told.
func (s *stage) hearOfSchedule(event ScheduleEvent) {
	said := "subscribed"
	switch event := event.(type) {
	case HoldEvent:
		s.hear(event)
		return
	case Standby:
		said = "standby"
	case DefinitionInForce:
		said = "definition"
		if event.Conflict {
			said += " conflict"
		}
	}
	s.own.Lock()
	defer s.own.Unlock()
	s.told = append(s.told, said)
}

// request is the newest one of a type.
func request[M proto.Message](s *stage) (newest M) {
	s.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, came := range s.requests {
		if request, isOne := came.Message.(M); isOne {
			newest = request
		}
	}
	return newest
}

func (s *stage) releases(hold *Hold) {
	s.Helper()
	if _, err := hold.Release(s.Context()); err != nil {
		s.Error(err)
	}
}

// wantAlive are the streams that neither side has ended.
func (s *stage) wantAlive(wanted ...int) {
	s.Helper()
	synctest.Wait()
	if alive := s.alive(); !slices.Equal(alive, wanted) {
		s.Errorf("%v, not %v", alive, wanted)
	}
}

// want is that something is so; if not, it shows what else there is.
func want(t testing.TB, isSo bool, shown ...any) {
	t.Helper()
	if !isSo {
		t.Error(shown...)
	}
}

// stories are tests, each with a stage of its own.
type stories struct{}

func TestStories(t *testing.T) {
	for story := range reflect.TypeFor[stories]().Methods() {
		t.Run(story.Name, func(t *testing.T) {
			staged(t, func(s *stage) { story.Func.Call([]reflect.Value{reflect.ValueOf(stories{}), reflect.ValueOf(s)}) })
		})
	}
}
