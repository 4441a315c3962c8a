package leasehold

import (
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

func instant(seconds int) *BootInstant {
	reading := at(seconds)
	return &reading
}

func after(validity *leaseholdv1.Validity, sent *BootInstant, now int) *knownValidity {
	b := &knownValidity{}
	b.takeIn(validity, sent, at(now), ours)
	return b
}

func wantUntil(t *testing.T, b *knownValidity, seconds int) {
	t.Helper()
	if b.until != at(seconds) {
		t.Errorf("until %v, not %d s", b.until.SinceBoot(), seconds)
	}
}

func TestS21SameKernelComparesClocksHoweverLateTheMessageIsRead(t *testing.T) {
	b := after(validity(ours, 158, 58), instant(99), 140)
	wantUntil(t, b, 158)
	if _, mustAsk := b.nextQuestion(); mustAsk {
		t.Error("the sidecar need not be asked")
	}
}

func TestS21ElsewhereTheDurationCountsFromBeforeTheRequest(t *testing.T) {
	b := after(validity(elsewhere, 9_158, 58), instant(99), 140)
	wantUntil(t, b, 99+58)
	wantQuestion(t, b, 99+29)
}

func wantQuestion(t *testing.T, b *knownValidity, seconds int) {
	t.Helper()
	if due, mustAsk := b.nextQuestion(); !mustAsk || due != at(seconds) {
		t.Errorf("asked at %v (%v), not at %d s", due.SinceBoot(), mustAsk, seconds)
	}
}

func TestS21ElsewhereARenewalIsAskedAboutAtOnceAndOnce(t *testing.T) {
	b := after(validity(elsewhere, 9_158, 58), instant(99), 100)
	// A question that crosses with the renewal may have been answered before it.
	b.takeIn(validity(elsewhere, 9_178, 58), nil, at(120), ours)
	wantQuestion(t, b, 120)
	b.takeIn(validity(elsewhere, 9_158, 38), instant(119), at(121), ours)
	wantQuestion(t, b, 120)
	b.takeIn(validity(elsewhere, 9_178, 56), instant(122), at(123), ours)
	wantUntil(t, b, 178)
	wantQuestion(t, b, 122+28)
}

func TestS21ElsewhereWhatPromisesHardlyMoreIsNotAskedAbout(t *testing.T) {
	b := after(validity(elsewhere, 9_160, 60), instant(100), 100)
	b.takeIn(validity(elsewhere, 9_166, 60), nil, at(106), ours)
	wantQuestion(t, b, 130)
	b.takeIn(validity(elsewhere, 9_167, 60), nil, at(107), ours)
	wantQuestion(t, b, 107)
}

func TestS21ElsewhereAMessageThatAnswersNothingExtendsNothing(t *testing.T) {
	b := after(validity(elsewhere, 9_158, 58), instant(99), 100)
	b.takeIn(validity(elsewhere, 9_178, 58), nil, at(120), ours)
	wantUntil(t, b, 157)
	if told := duration(b.told.GetSinceBoot()); told != 9_178*time.Second {
		t.Errorf("a resume says what was told, not %v", told)
	}
}

func TestS21AnUnknownBootIDIsNotOurs(t *testing.T) {
	b := &knownValidity{}
	b.takeIn(validity("", 158, 58), instant(99), at(100), "")
	if _, mustAsk := b.nextQuestion(); !mustAsk {
		t.Error("nobody's clock was taken for ours")
	}
}

func TestS21AShiftedClockWithOurBootIDIsFoundOut(t *testing.T) {
	// Ours is behind the sidecar's: taken at its word, the hold would seem to last 1,000 s longer.
	wantUntil(t, after(validity(ours, 1_158, 58), instant(99), 100), 157)
	// Ours is ahead.
	wantUntil(t, after(validity(ours, 158, 58), instant(1_099), 1_100), 1_157)
}

func TestAnOlderAnswerThatComesLaterChangesNothing(t *testing.T) {
	b := after(validity(ours, 178, 58), nil, 121)
	b.takeIn(validity(ours, 158, 58), instant(99), at(122), ours)
	wantUntil(t, b, 178)
}

func TestANewerMessageMayShorten(t *testing.T) {
	b := after(validity(ours, 178, 58), nil, 121)
	b.takeIn(validity(ours, 140, 15), nil, at(126), ours)
	wantUntil(t, b, 140)
}

func TestAnAbsentOrNegativeValidityEndsAtOnce(t *testing.T) {
	wantUntil(t, after(&leaseholdv1.Validity{ValidFor: durationpb.New(-5 * time.Second)}, instant(100), 101), 100)
	wantUntil(t, after(nil, instant(100), 101), 100)
}

func TestDurationsBeyondAllBoundsDoNotWrap(t *testing.T) {
	endless := &leaseholdv1.Validity{ValidFor: &durationpb.Duration{Seconds: 315_576_000_000}}
	if b := after(endless, instant(100), 101); b.until != math.MaxInt64 {
		t.Errorf("until %v", b.until)
	}
}

func TestS3TheBootClockNeverGoesBack(t *testing.T) {
	clock, err := newBootClock()
	if err != nil {
		t.Fatal(err)
	}
	first := clock.now()
	if first <= 0 || clock.now() < first || clock.bootID() == "" {
		t.Errorf("%v, then %v, boot id %q", first, clock.now(), clock.bootID())
	}
}
