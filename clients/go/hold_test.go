package leasehold

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

var errWork = errors.New("the work failed")

func TestAHoldTellsItsGrantAndNoSecrets(t *testing.T) {
	b := newBench(t)
	hold, call, _ := b.held()
	key := call.request.GetSpec().GetKey()
	if key.GetFunction() != "f" || key.GetScope() != "s" || hold.FencingToken() != 65_536 || hold.LeaseID() != "lease-1" ||
		hold.LockPath() != "locks/p/h/f/s/FUNCTION" || hold.ValidUntil() != at(1_058) || hold.Remaining() != 58*time.Second {
		t.Error(key, hold)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if shown := fmt.Sprintf(format, hold); strings.Contains(shown, "lease-1") || strings.Contains(shown, "resume-1") {
			t.Errorf("S20: %s shows %s", format, shown)
		}
	}
	isNil := func(err error) bool { return err == nil }
	if !isNil(hold.Loss()) {
		t.Errorf("%T is an error that is not nil", hold.Loss())
	}
}

func TestACallerThatGivesUpLeavesTheQueue(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	answer := b.ask(ctx, LeaseSpec{})
	call := b.call()
	call.tell(event("waiting", said{Position: 1}))
	why := errors.New("no time left")
	cancel(why)
	if err := receive(t, "the answer", answer).err; !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
		t.Error(err)
	}
	receive(t, "the end of the stream", call.over)
}

func TestS14ACancelledCallerStillHoldsUntilItReleases(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	answer := b.ask(ctx, LeaseSpec{})
	call := b.call()
	if _, has := call.ctx.Deadline(); has {
		t.Error("the caller's deadline goes with the stream")
	}
	call.tell(grantedHere())
	hold := b.got(answer)
	cancel()
	receive(t, "the end of the context", hold.Context().Done())
	if !hold.Valid() || hold.Loss() != nil || !call.isOpen() {
		t.Error("the hold was given up")
	}
	b.mustRelease(hold)
	receive(t, "the end of the stream", call.over)
}

func TestASlowListenerKeepsNothingWaiting(t *testing.T) {
	b := newBench(t)
	stuck := make(chan struct{})
	defer close(stuck)
	answer := b.ask(t.Context(), LeaseSpec{OnEvent: func(HoldEvent) { <-stuck }})
	call := b.call()
	call.tell(grantedHere())
	hold := b.got(answer)
	call.tell(event("renewed", said{Until: 59_000, For: 59_000}))
	eventually(t, "the renewal is taken in", func() bool { return hold.ValidUntil() == at(1_059) })
	call.tell(lostToAnother)
	lossOf(t, hold)
}

func TestS22ANoticeEndsItsContextAndALossBoth(t *testing.T) {
	b := newBench(t)
	hold, call, events := b.held()
	if hold.Notice() != nil || hold.NoticeContext().Err() != nil {
		t.Error("there is no notice yet")
	}
	told := event("revoked", said{Until: 58_000, For: 58_000, By: "me"})
	told.GetRevoked().BreakNote.Reason = "deploy"
	call.tell(told)
	receive(t, "the notice", hold.Revoked())
	wanted := Notice{Deadline: at(1_058), Reason: "deploy", By: "me"}
	if event := want[Revoked](t, events); event.Notice != wanted || *hold.Notice() != wanted {
		t.Error(event, hold.Notice())
	}
	receive(t, "the end of the notice's context", hold.NoticeContext().Done())
	revoked := as[*RevokedError](t, context.Cause(hold.NoticeContext()))
	if revoked.Notice != wanted || !strings.Contains(revoked.Error(), `"me": deploy`) || !hold.Valid() || hold.Context().Err() != nil {
		t.Error(revoked, hold.Loss())
	}
	b.clock.advance(58)
	if loss := lossOf(t, hold); loss.Reason != LossReasonBroken || loss.BreakNote.BrokenBy != "me" {
		t.Error(loss)
	}
	other, call, _ := b.held()
	call.tell(lostToAnother)
	loss := lossOf(t, other)
	receive(t, "the end of the notice's context", other.NoticeContext().Done())
	if cause := context.Cause(other.NoticeContext()); cause != error(loss) || other.Notice() != nil {
		t.Error(cause, other.Notice())
	}
	select {
	case <-other.Revoked():
		t.Error("no notice was given")
	default:
	}
}

// withHold runs work under a lock that is granted at once, and gives what WithHold gave.
func (b *bench) withHold(ctx context.Context, work func(context.Context, *holdCall) error) (*holdCall, error) {
	b.Helper()
	calls, done := make(chan *holdCall, 1), make(chan error, 1)
	go func() {
		done <- b.client.WithHold(ctx, LeaseSpec{}, func(ctx context.Context, hold *Hold) error {
			if hold.Context() != ctx || !hold.Valid() {
				b.Error("it is not held")
			}
			return work(ctx, <-calls)
		})
	}()
	call := b.call()
	calls <- call
	call.tell(grantedHere())
	return call, receive(b.T, "the end", done)
}

func TestWithHoldReleasesHoweverTheWorkEndsAndHidesNoError(t *testing.T) {
	type work func(ctx context.Context, cancel func(), call *holdCall) error
	fail := func(context.Context, func(), *holdCall) error { return errWork }
	ends := map[string]struct {
		work     work
		isWanted func(err error) bool
	}{
		"well": {
			func(context.Context, func(), *holdCall) error { return nil },
			func(err error) bool { return err == nil },
		},
		"failed": {fail, func(err error) bool { return err == errWork }},
		"unconfirmed": {fail, func(err error) bool {
			var unconfirmed *ReleaseUnconfirmedError
			return errors.As(err, &unconfirmed) && errors.Is(err, errWork) && status.Code(unconfirmed.Err) == codes.Internal
		}},
		"cancelled": {
			func(ctx context.Context, cancel func(), _ *holdCall) error {
				cancel()
				<-ctx.Done()
				return ctx.Err()
			},
			func(err error) bool { return err == context.Canceled },
		},
		"lost": {
			func(ctx context.Context, _ func(), call *holdCall) error {
				call.tell(lostToAnother)
				<-ctx.Done()
				as[*LostError](t, context.Cause(ctx))
				return errWork
			},
			func(err error) bool {
				var lost *LostError
				return errors.As(err, &lost) && errors.Is(err, errWork) && lost.Reason == LossReasonTaken
			},
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if name == "unconfirmed" {
				fails[leaseholdv1.ReleaseLeaseRequest](b.sidecar, status.Error(codes.Internal, "the disk is full"))
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			call, err := b.withHold(ctx, func(ctx context.Context, call *holdCall) error { return end.work(ctx, cancel, call) })
			if !end.isWanted(err) {
				t.Error(err)
			}
			b.sidecar.wantCalls(t, released)
			receive(t, "the end of the stream, which releases the lock", call.over)
		})
	}
}

func TestAPanicAndGoexitRelease(t *testing.T) {
	for name, leave := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			done := make(chan any, 1)
			go func() {
				defer func() { done <- recover() }()
				_ = b.client.WithHold(t.Context(), LeaseSpec{}, func(context.Context, *Hold) error {
					leave()
					return nil
				})
			}()
			call := b.call()
			call.tell(grantedHere())
			if recovered := receive(t, "the end", done); (recovered == "boom") != (name == "panic") {
				t.Error(recovered)
			}
			b.sidecar.wantCalls(t, released)
			receive(t, "the end of the stream", call.over)
		})
	}
}

func TestAReleaseIsNotCutShortByTheEndThatItGivesTheHold(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.held()
	// As in the block of WithHold, whose context is the hold's.
	work, cancel := context.WithCancel(hold.Context())
	defer cancel()
	answers[leaseholdv1.ReleaseLeaseRequest](b.sidecar, &leaseholdv1.ReleaseLeaseResponse{Result: &leaseholdv1.ReleaseResult{
		Outcome: leaseholdv1.ReleaseOutcome_RELEASE_OUTCOME_RELEASED, CheckpointVersion: 7,
		CheckpointOutcome: leaseholdv1.CheckpointOutcome_CHECKPOINT_OUTCOME_SAVED,
	}})
	result, err := hold.Release(work, WithCheckpoint(nil), WithOutcome(RunOutcomeFailed))
	as[*OutcomeNotRecordedError](t, err)
	if checkpoint := hold.Checkpoint(); result.Outcome != ReleaseOutcomeReleased || checkpoint == nil || checkpoint.Version != 7 {
		t.Error(result, err, checkpoint)
	}
	if context.Cause(work) != ErrReleased {
		t.Error("the hold's context goes on")
	}
	// The first release decides, as by a defer.
	if again, repeated := hold.Release(t.Context()); again != result || repeated != err {
		t.Error(again, repeated)
	}
	if _, err := hold.Save(t.Context(), nil); !errors.Is(err, ErrReleased) {
		t.Error(err)
	}
	b.sidecar.wantCalls(t, `ReleaseLease lease-1 1 RUN_OUTCOME_FAILED ""`)
}

func TestAReleaseIsCutShortByItsCallerAndMayBeRepeated(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.held()
	ctx, cancel := context.WithCancel(t.Context())
	on(b.sidecar, func(*leaseholdv1.ReleaseLeaseRequest) (*leaseholdv1.ReleaseLeaseResponse, error) {
		cancel()
		return nil, errWork
	})
	if _, err := hold.Release(ctx); !errors.Is(as[*ReleaseUnconfirmedError](t, err), context.Canceled) {
		t.Error(err)
	}
	lost := &leaseholdv1.ReleaseLeaseResponse{Result: said{Outcome: "ALREADY_LOST", Loss: "TAKEN"}.result()}
	answers[leaseholdv1.ReleaseLeaseRequest](b.sidecar, lost)
	for range 2 {
		result, err := hold.Release(t.Context())
		if loss := as[*LostError](t, err); loss.Reason != LossReasonTaken || hold.Loss() != err ||
			result.Outcome != ReleaseOutcomeAlreadyLost || result.LossReason != LossReasonTaken {
			t.Error(result, err)
		}
	}
	b.sidecar.wantCalls(t, released, released)
}

func TestS13ClosingTheClientReleasesWhatIsHeldAndThenEndsTheConnections(t *testing.T) {
	b := newBench(t)
	hold, call, _ := b.held()
	if err := b.client.Close(); err != nil {
		t.Error(err)
	}
	lossOf(t, hold)
	b.sidecar.wantCalls(t, released)
	receive(t, "the end of the stream", call.over)
	if _, err := b.client.Hold(t.Context(), LeaseSpec{}); !errors.Is(err, ErrClosed) {
		t.Error("a closed client holds:", err)
	}
	if err := b.client.Close(); err != nil {
		t.Error(err)
	}
}

func TestClosingTellsOfAReleaseThatNobodyAnswers(t *testing.T) {
	b := newBench(t, WithReleaseTimeout(50*time.Millisecond))
	never := make(chan struct{})
	defer close(never)
	on(b.sidecar, func(*leaseholdv1.ReleaseLeaseRequest) (*leaseholdv1.ReleaseLeaseResponse, error) {
		<-never
		return nil, errGone
	})
	b.held()
	err := as[*ReleaseUnconfirmedError](t, b.client.Close())
	if !strings.Contains(err.Error(), "did not answer within 50ms") {
		t.Error(err)
	}
}

func TestS33ANoticeTellsAGreaterPriorityFromAnOperator(t *testing.T) {
	for name, wanted := range map[string]*uint32{"greater": proto.Uint32(7), "equal": proto.Uint32(0), "operator": nil} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			hold, call, _ := b.held()
			told := event("revoked", said{Until: 58_000, For: 58_000, By: "me"})
			told.GetRevoked().BreakNote.ForPriority = wanted
			call.tell(told)
			receive(t, "the notice", hold.Revoked())
			b.clock.advance(58)
			for where, told := range map[string]*uint32{
				"notice": hold.Notice().ForPriority, "loss": lossOf(t, hold).BreakNote.ForPriority,
			} {
				if (told == nil) != (wanted == nil) || (told != nil && *told != *wanted) {
					t.Error(where, told)
				}
			}
		})
	}
}
