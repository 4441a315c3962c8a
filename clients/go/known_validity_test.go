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

func TestS21AnUnknownBootIDIsNotOurs(t *testing.T) {
	b := &knownValidity{}
	b.takeIn(validity("", 158, 58), instant(99), at(100), "")
	if _, mustAsk := b.nextQuestion(); !mustAsk {
		t.Error("nobody's clock was taken for ours")
	}
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
