package leasehold

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
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
	until  string
	// finish ends the work of a term or of a run.
	finish chan error

	// What follows is guarded by the sidecar's mutex.
	slept       time.Duration
	held        *Hold
	run         *Run
	told, ended []string
}

// now makes the stage a clock, whose kernel is ours and which begins at base.
func (s *stage) now() (now BootInstant) {
	s.locked(func() { now = BootInstant(bases["ours"] + time.Since(s.began) + s.slept) })
	return now
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
	s := &stage{T: t, sidecar: &sidecar{kernel: kernel, answers: map[string]any{}}, began: time.Now(), until: "null", finish: make(chan error)}
	s.isValid = func() bool { hold := s.hold(); return hold != nil && hold.Valid() }
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
	s.client = must(s.connect(opts...))
	s.client.random = func() float64 { return 1 }
	s.runs = must(s.client.Runs(s.nightly()))
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
			"release": said{"outcome": "RELEASED"}, "save_checkpoint": said{"version": 1}, "complete_run": said{"result": "RECORDED"},
			"report_progress": fresh, "extend_lease": fresh, "get_hold": fresh,
			"AcquireLease": func(any) any { return s.acquired("lease-1") },
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
func (s *stage) fresh() said { return said{"until": s.clock() + 58_000, "for": 58_000} }

// acquired grants to a unary call for 60 s.
func (s *stage) acquired(leaseID string) *leaseholdv1.AcquireLeaseResponse {
	grant, ends := granting("ours", s.fresh()), deadline("ours", s.clock()+60_000, 60_000)
	grant.LeaseId, grant.MaxHoldEnds = leaseID, ends
	return &leaseholdv1.AcquireLeaseResponse{Outcome: &leaseholdv1.AcquireLeaseResponse_Granted{Granted: grant}}
}

func (s *stage) hold() (held *Hold) {
	s.locked(func() { held = s.held })
	return held
}

// has takes in what was granted.
func (s *stage) has(hold *Hold, run *Run) { s.locked(func() { s.held, s.run = hold, run }) }

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

// ending is later of what gives no more than an error.
func ending(call func() error) <-chan outcome[any] {
	return later(func() (any, error) { return nil, call() })
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
	ok(s, got.err)
	s.has(got.value, nil)
	return got.value
}

func (s *stage) nightly() ScheduleSpec {
	spec := nightly()
	spec.OnHoldEvent, spec.OnEvent = s.hear, func(event ScheduleEvent) { s.hears(event) }
	return spec
}

func (s *stage) nextRun() <-chan outcome[*Run] {
	return later(func() (*Run, error) { return s.runs.Next(s.Context()) })
}

// running is a run that has just come.
func (s *stage) running() *Run {
	s.Helper()
	asked := s.nextRun()
	s.says("standby", said{"understood": true})
	s.says("run", s.fresh())
	got := <-asked
	ok(s, got.err)
	s.has(got.value.hold, got.value)
	return got.value
}

// says tells an event on the newest stream.
func (s *stage) says(name string, of said) { s.tells(0, name, of) }

func (s *stage) tells(number int, name string, of said) {
	s.tell(s.on(number), name, of)
	synctest.Wait()
}

// breaks ends a stream.
func (s *stage) breaks(number int, err error) {
	s.end(number, err)
	synctest.Wait()
}

// wantSent is what was sent since this was asked last; wantTold is the same of what the holder was told.
func (s *stage) wantSent(wanted ...string) {
	s.Helper()
	synctest.Wait()
	sent, faults := s.takeSent()
	same(s, "sent", sent, wanted)
	same(s, "wrong", faults, nil)
}

func (s *stage) wantTold(wanted ...string) {
	s.Helper()
	synctest.Wait()
	s.locked(func() {
		same(s, "told", s.told, wanted)
		s.told = nil
	})
}

// wantAlive are the streams that neither side has ended.
func (s *stage) wantAlive(wanted ...int) {
	s.Helper()
	synctest.Wait()
	same(s, "open", s.alive(), wanted)
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

// want is that something is so; if not, it shows what else there is.
func want(t testing.TB, isSo bool, shown ...any) {
	t.Helper()
	if !isSo {
		t.Error(shown...)
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	want(t, err == nil, err)
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func wantIs(t testing.TB, err, wanted error) {
	t.Helper()
	want(t, errors.Is(err, wanted), err)
}

func same[E comparable](t testing.TB, what string, is, wanted []E) {
	t.Helper()
	if !slices.Equal(is, wanted) {
		t.Errorf("%s: %#v, not %#v", what, is, wanted)
	}
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
func (s *stage) hear(event HoldEvent) { s.hears(event) }

func (s *stage) hears(event any) {
	said := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", event), "leasehold."))
	switch event := event.(type) {
	case Granted:
		return
	case Waiting:
		said += fmt.Sprint(" ", event.Position)
	case AtRisk:
		said = "at_risk " + string(event.Cause)
	case Draining:
		said += fmt.Sprint(" ", event.TimeLeft.Milliseconds())
	case Interrupted:
		want(s, event.Detail != "", "it is not said what happened")
	case Revoked:
		said += " by " + event.Notice.By
	case Lost:
		said += " " + string(event.Loss.Reason)
	case DefinitionInForce:
		said = "definition" + map[bool]string{true: " conflict"}[event.Conflict]
	}
	s.locked(func() { s.told = append(s.told, said) })
}

// request is the newest one of a type.
func request[M proto.Message](s *stage) (newest M) {
	s.locked(func() {
		for _, came := range s.calls {
			if request, isOne := came.Message.(M); isOne {
				newest = request
			}
		}
	})
	return newest
}

func (s *stage) releases(hold *Hold) {
	s.Helper()
	ok(s, errOf(hold.Release(s.Context())))
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

// each runs a test with each of several, on a stage of its own.
func each[V any](t *testing.T, of map[string]V, test func(s *stage, name string, of V)) {
	for name, value := range of {
		t.Run(name, func(t *testing.T) { staged(t, func(s *stage) { test(s, name, value) }) })
	}
}
