package leasehold

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

func TestS13TheHoldEndsBeforeTheReleaseIsSentAndTheStreamAfter(t *testing.T) {
	b := newBench(t)
	hold, call, _ := b.heldHere()
	var valid, open bool
	b.sidecar.onRelease = func() error {
		valid, open = hold.Valid() || hold.Context().Err() == nil, call.isOpen()
		return nil
	}
	result, err := hold.Release(t.Context())
	if err != nil || result.Outcome != ReleaseOutcomeReleased {
		t.Error(result, err)
	}
	if valid || !open {
		t.Errorf("valid: %v, stream open: %v", valid, open)
	}
	if context.Cause(hold.Context()) != ErrReleased || hold.Loss() != nil {
		t.Error(context.Cause(hold.Context()))
	}
	receive(t, "the end of the stream", call.over)
	// As by a defer after a release.
	if again, err := hold.Release(t.Context()); err != nil || again != result {
		t.Error(again, err)
	}
	if calls := b.sidecar.calls(); len(calls) != 1 || calls[0] != "release lease-1 of generation 1" {
		t.Error(calls)
	}
}

func TestAReleaseIsNotCutShortByTheEndThatItGivesTheHold(t *testing.T) {
	b := newBench(t)
	b.sidecar.released = &leaseholdv1.ReleaseResult{
		Outcome:           leaseholdv1.ReleaseOutcome_RELEASE_OUTCOME_RELEASED,
		CheckpointOutcome: leaseholdv1.CheckpointOutcome_CHECKPOINT_OUTCOME_SAVED,
	}
	hold, _, _ := b.heldHere()
	// As in the block of WithHold, whose context is the hold's.
	work, cancel := context.WithCancel(hold.Context())
	defer cancel()
	result, err := hold.Release(work, WithCheckpoint([]byte("last")))
	if err != nil || result.Outcome != ReleaseOutcomeReleased || result.CheckpointOutcome != CheckpointOutcomeSaved {
		t.Error(result, err)
	}
	if work.Err() == nil {
		t.Error("the hold's context goes on")
	}
}

func TestAReleaseIsCutShortByItsCaller(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.heldHere()
	ctx, cancel := context.WithCancel(t.Context())
	boom := errors.New("boom")
	b.sidecar.onRelease = func() error {
		cancel()
		return boom
	}
	var release *ReleaseUnconfirmedError
	if _, err := hold.Release(ctx); !errors.As(err, &release) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestS13ReleasingWhatIsLostIsALostErrorAndSaysThatItIsKnown(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.heldHere()
	b.clock.advance(58)
	result, err := hold.Release(t.Context())
	var lost *LostError
	if !errors.As(err, &lost) || err != hold.Loss() || result.Outcome != ReleaseOutcomeAlreadyLost ||
		result.LossReason != LossReasonExpired {
		t.Error(result, err)
	}
	if calls := b.sidecar.calls(); len(calls) != 1 || calls[0] != "release lease-1 of generation 1" {
		t.Error(calls)
	}
}

func TestS13ClosingTheClientReleasesWhatIsHeldAndThenEndsTheConnections(t *testing.T) {
	b := newBench(t)
	hold, call, _ := b.heldHere()
	if err := b.client.Close(); err != nil {
		t.Error(err)
	}
	lossOf(t, hold)
	if calls := b.sidecar.calls(); len(calls) != 1 || calls[0] != "release lease-1 of generation 1" {
		t.Error(calls)
	}
	receive(t, "the end of the stream", call.over)
	if _, err := b.client.Hold(t.Context(), LeaseSpec{}); !errors.Is(err, ErrClosed) {
		t.Error("a closed client holds:", err)
	}
	if err := b.client.Close(); err != nil {
		t.Error(err)
	}
}

func TestLossIsNilAsAnErrorWhileTheHoldIsValid(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.heldHere()
	isNil := func(err error) bool { return err == nil }
	if !isNil(hold.Loss()) {
		t.Errorf("%T is an error that is not nil", hold.Loss())
	}
}

func TestS13AReleaseThatFindsTheLockLostIsALostErrorAgainAndAgain(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.heldHere()
	b.sidecar.released = &leaseholdv1.ReleaseResult{
		Outcome:    leaseholdv1.ReleaseOutcome_RELEASE_OUTCOME_ALREADY_LOST,
		LossReason: leaseholdv1.LossReason_LOSS_REASON_TAKEN,
	}
	for range 2 {
		var lost *LostError
		result, err := hold.Release(t.Context())
		if !errors.As(err, &lost) || lost.Reason != LossReasonTaken || hold.Loss() != err ||
			result.Outcome != ReleaseOutcomeAlreadyLost || result.LossReason != LossReasonTaken {
			t.Error(result, err, hold.Loss())
		}
	}
	if calls := b.sidecar.calls(); len(calls) != 1 {
		t.Error(calls)
	}
}

// deaf is a bench whose sidecar answers no release.
func deaf(t *testing.T) *bench {
	t.Helper()
	b := newBenchWith(t, []Option{WithReleaseTimeout(50 * time.Millisecond)})
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	b.sidecar.onRelease = func() error {
		<-never
		return nil
	}
	return b
}

func TestAReleaseThatNobodyAnswersIsUnconfirmedAfterItsTimeout(t *testing.T) {
	forms := map[string]func(*bench) error{
		"Release": func(b *bench) error {
			hold, _, _ := b.heldHere()
			_, err := hold.Release(b.Context())
			return err
		},
		"WithHold": func(b *bench) error {
			done := b.withHold(b.Context(), func(context.Context, *Hold, *holdCall) error { return errWork })
			err := receive(b.T, "the end", done)
			if !errors.Is(err, errWork) {
				b.Error("the error of the work is hidden:", err)
			}
			return err
		},
		"Close": func(b *bench) error {
			b.heldHere()
			return b.client.Close()
		},
	}
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			var release *ReleaseUnconfirmedError
			err := form(deaf(t))
			if !errors.As(err, &release) || !strings.Contains(err.Error(), "did not answer within 50ms") {
				t.Error(err)
			}
		})
	}
}

func TestAReleaseTimeoutMustBeMoreThanZero(t *testing.T) {
	var invalid *EndpointError
	if _, err := Connect(t.Context(), WithReleaseTimeout(0)); !errors.As(err, &invalid) {
		t.Error(err)
	}
}
