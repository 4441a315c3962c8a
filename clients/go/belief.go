package leasehold

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// belief is until when this client believes that it holds, and from which message (S21). Pure: readings of the clock
// are arguments. The zero value believes nothing.
type belief struct {
	// until is the end of validity. Past it the hold is lost.
	until BootInstant
	// asOf is when the newest message was made, or the request sent that it answers: an older one changes nothing.
	asOf BootInstant
	// told is the latest validity in the sidecar's own words, for a resume (S16).
	told *leaseholdv1.BootTime
	// sameKernel is whether the sidecar's boot clock is ours. If it is not, the sidecar must be asked from time to time.
	sameKernel bool
}

// takeIn takes in a validity that was read at now, in an answer to a request sent at sent if there was one. Whether
// the old belief still holds is for the caller to check before.
func (b *belief) takeIn(validity *leaseholdv1.Validity, sent *BootInstant, now BootInstant, bootID string) {
	until, asOf, sameKernel, counts := readValidity(validity, sent, now, bootID)
	if !counts {
		// Said, though it cannot be counted here: the sidecar keeps to it.
		b.told = validity.GetValidUntil()
		return
	}
	if asOf >= b.asOf {
		*b = belief{until: until, asOf: asOf, told: validity.GetValidUntil(), sameKernel: sameKernel}
	}
}

// readValidity says what a validity means on our clock; counts is false if nothing can be counted from it.
func readValidity(
	validity *leaseholdv1.Validity, sent *BootInstant, now BootInstant, bootID string,
) (until, asOf BootInstant, sameKernel, counts bool) {
	validFor := span(validity.GetValidFor())
	if told := validity.GetValidUntil(); told != nil && bootID != "" && told.GetBootId() == bootID {
		until = BootInstant(span(told.GetSinceBoot()))
		made := BootInstant(until.since(BootInstant(validFor)))
		// A message made after it was read, or before it was asked for, was made by another clock after all: time
		// namespaces shift the boot clock and keep the boot id.
		if made <= now && (sent == nil || *sent <= made) {
			return until, made, true, true
		}
	}
	if sent == nil {
		return 0, 0, false, false
	}
	return sent.add(validFor), *sent, false, true
}

// span is a span from the wire; zero for an absent or negative one, which only ends holds earlier.
func span(wire *durationpb.Duration) time.Duration {
	return max(0, wire.AsDuration())
}
