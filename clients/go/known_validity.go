package leasehold

import (
	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// worthAsking is how much of a promised validity is worth a question: a tenth.
const worthAsking = 10

// knownValidity is the validity as this client counts it on its own clock, and from which message (S21). Pure: readings
// of the clock are arguments. The zero value ended long ago.
type knownValidity struct {
	// until is the end of validity. Past it the hold is lost.
	until BootInstant
	// asOf is when the newest message was made, or the request sent that it answers: an older one changes nothing.
	asOf BootInstant
	// told is the latest validity in the sidecar's own words, for a resume (S16).
	told *leaseholdv1.BootTime
	// sameKernel is whether the sidecar's boot clock is ours. If it is not, the sidecar must be asked from time to time.
	sameKernel bool
	// longerHeard is when the sidecar last told of a validity that is noticeably longer, and cannot be counted before it
	// is asked; nil if it did not.
	longerHeard *BootInstant
}

// nextQuestion is when the sidecar should be asked next for the validity: at once when it has told of one that cannot
// be counted here, which it does at each renewal, and else when half of this one is over. It is false where the
// sidecar's words are enough.
func (v *knownValidity) nextQuestion() (BootInstant, bool) {
	if v.longerHeard != nil {
		return *v.longerHeard, !v.sameKernel
	}
	return v.asOf.add(v.until.since(v.asOf) / 2), !v.sameKernel
}

// takeIn takes in a validity that was read at now, in an answer to a request sent at sent if there was one. Whether
// the old one has ended is for the caller to check before.
func (v *knownValidity) takeIn(validity *leaseholdv1.Validity, sent *BootInstant, now BootInstant, bootID string) {
	until, asOf, sameKernel, counts := readValidity(validity, sent, now, bootID)
	if !counts {
		// Said, though it cannot be counted here: the sidecar keeps to it.
		v.told = validity.GetValidUntil()
		validFor := duration(validity.GetValidFor())
		if now.add(validFor) > v.until.add(validFor/worthAsking) {
			v.longerHeard = &now
		}
		return
	}
	if asOf < v.asOf {
		return
	}
	longerHeard := v.longerHeard
	// An answer to a question from before says nothing of what was told since.
	if longerHeard != nil && (sameKernel || asOf >= *longerHeard) {
		longerHeard = nil
	}
	*v = knownValidity{until, asOf, validity.GetValidUntil(), sameKernel, longerHeard}
}

// knownDeadline is a moment that the sidecar told, as this client counts it on its own clock (S21). The zero value: none
// was told.
type knownDeadline struct {
	at    BootInstant
	asOf  BootInstant
	known bool
}

// takeIn takes in a moment, as knownValidity takes in an end of validity. An absent one changes nothing.
func (d *knownDeadline) takeIn(deadline *leaseholdv1.Deadline, sent *BootInstant, now BootInstant, bootID string) {
	if deadline == nil {
		return
	}
	as := &leaseholdv1.Validity{ValidUntil: deadline.GetAt(), ValidFor: deadline.GetAfter()}
	at, asOf, _, counts := readValidity(as, sent, now, bootID)
	if counts && asOf >= d.asOf {
		*d = knownDeadline{at, asOf, true}
	}
}

// readValidity says what a validity means on our clock; counts is false if nothing can be counted from it.
func readValidity(
	validity *leaseholdv1.Validity, sent *BootInstant, now BootInstant, bootID string,
) (until, asOf BootInstant, sameKernel, counts bool) {
	validFor := duration(validity.GetValidFor())
	if told := validity.GetValidUntil(); told != nil && bootID != "" && told.GetBootId() == bootID {
		until = BootInstant(duration(told.GetSinceBoot()))
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
