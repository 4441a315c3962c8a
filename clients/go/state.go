package leasehold

import (
	"context"
	"sync"
	"time"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// holdState is a hold's validity and its end, looked at under one mutex, so that lost is final (S4).
type holdState struct {
	clock clock
	// cancel cancels the context of the code that runs under the lock.
	cancel context.CancelCauseFunc
	// over is closed when the hold is over: it was ended by its holder, or lost.
	over chan struct{}
	// revoked is closed, and cancelNotice called, when the lock was broken and the hold goes on until its deadline (S22).
	revoked      chan struct{}
	cancelNotice context.CancelCauseFunc
	// heard has room for one word that the sidecar has told of a validity without being asked.
	heard chan struct{}

	mutex sync.Mutex
	local knownValidity
	// limit is when MaxHold ends.
	limit knownDeadline
	ended bool
	loss  *LostError
	// notice and breakNote are what was told when the lock was broken; nil if it was not.
	notice    *Notice
	breakNote *BreakNote
	// checkpoint is the lock's; saves is how many saves were begun, and saved which of them checkpoint is of.
	checkpoint   *Checkpoint
	saves, saved uint64
	// generation is the newest that was answered, resumeToken the newest, and resuming whether a resume was sent of
	// which it is not known whether it has made a newer generation (S16).
	generation  uint64
	resumeToken string
	resuming    bool
	// refused is why no try to resume will ever work, and released whether a release was sent.
	refused  *LostError
	released bool
}

// limits are what the sidecar says of the end of a hold.
type limits interface {
	GetValidity() *leaseholdv1.Validity
	GetMaxHoldEnds() *leaseholdv1.Deadline
}

// newHoldState is the hold of a grant, with the limits that were told in answer to a request sent at sent.
func newHoldState(clock clock, grant *leaseholdv1.Grant, told limits, sent BootInstant) *holdState {
	state := &holdState{
		clock: clock, cancel: func(error) {}, cancelNotice: func(error) {}, over: make(chan struct{}),
		revoked: make(chan struct{}), heard: make(chan struct{}, 1), checkpoint: checkpointFrom(grant.GetCheckpoint()),
		generation: grant.GetGeneration(), resumeToken: grant.GetResumeToken(),
	}
	state.local.takeIn(told.GetValidity(), &sent, clock.now(), clock.bootID())
	state.limit.takeIn(told.GetMaxHoldEnds(), &sent, clock.now(), clock.bootID())
	return state
}

// answered is the newest generation that was answered.
func (s *holdState) answered() uint64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.generation
}

// releasable is the generation to release. It is false while a resume is unanswered, because a sidecar that has not
// noticed the break would hand the lock on while another takes the hold up (S16). Where no resume will ever work, it
// gives the loss.
func (s *holdState) releasable() (generation uint64, answered bool, refused *LostError) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.refused == nil && !s.resuming {
		s.released = true
	}
	return s.generation, !s.resuming, s.refused
}

// beginResume is called before a resume is sent, and gives its token and the validity that was told. It is false once the hold is
// lost, or its release was sent: then it is not to be taken up again.
func (s *holdState) beginResume() (string, *leaseholdv1.BootTime, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.loss != nil || s.released {
		return "", nil, false
	}
	s.resuming = true
	if s.ended {
		return s.resumeToken, nil, true
	}
	return s.resumeToken, s.local.told, true
}

// refuse says that no try to resume will ever work.
func (s *holdState) refuse(loss *LostError) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.refused = loss
	s.endLocked(loss)
}

// resumed takes in the grant of a resume.
func (s *holdState) resumed(grant *leaseholdv1.Grant) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.generation, s.resumeToken, s.resuming = grant.GetGeneration(), grant.GetResumeToken(), false
}

// replaceResumeToken takes in the token that came with new bounds of this generation of the hold. An empty one replaces none,
// and nor does one of an older generation (S16).
func (s *holdState) replaceResumeToken(token string, generation uint64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if token != "" && generation == s.generation {
		s.resumeToken = token
	}
}

func (s *holdState) validUntil() BootInstant {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.local.until
}

// remaining is the time left; zero if the hold is over. Being past validity is being lost, whoever finds out first (S21).
func (s *holdState) remaining() time.Duration {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.remainingLocked()
}

func (s *holdState) remainingLocked() time.Duration {
	if s.ended {
		return 0
	}
	left := s.local.until.since(s.clock.now())
	if left == 0 {
		s.endLocked(s.expiredLocked())
	}
	return left
}

func (s *holdState) valid() bool { return s.remaining() > 0 }

// takeIn takes in what the sidecar says, unless the hold is over (S4). It says whether the hold goes on.
func (s *holdState) takeIn(validity *leaseholdv1.Validity, sent *BootInstant) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.remainingLocked() == 0 {
		return false
	}
	s.local.takeIn(validity, sent, s.clock.now(), s.clock.bootID())
	if sent == nil {
		select {
		case s.heard <- struct{}{}:
		default:
		}
	}
	return s.remainingLocked() > 0
}

// takeInLimit takes in when MaxHold ends.
func (s *holdState) takeInLimit(deadline *leaseholdv1.Deadline, sent *BootInstant) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.limit.takeIn(deadline, sent, s.clock.now(), s.clock.bootID())
}

func (s *holdState) maxHoldEnds() (BootInstant, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.limit.at, s.limit.known
}

// nextQuestion is when the sidecar should be asked next for the validity. It is false where its words are enough (S21).
func (s *holdState) nextQuestion() (BootInstant, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.local.nextQuestion()
}

// lose says that the hold is lost, unless it is over already.
func (s *holdState) lose(loss *LostError) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.endLocked(loss)
}

// loseAs takes in that a sidecar has said that the hold is over, when it was asked about this generation. It is false where
// that is no word of the hold as it is now: a newer generation was answered since, or a resume is unanswered, by which
// another sidecar may have the hold (S16).
func (s *holdState) loseAs(generation uint64, loss *LostError) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.resuming || generation != s.generation {
		return false
	}
	s.endLocked(loss)
	return true
}

// isResuming is whether a resume is unanswered.
func (s *holdState) isResuming() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.resuming
}

// end ends the hold on the holder's side (S13). It gives the loss if the hold was lost before.
func (s *holdState) end() *LostError {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.remainingLocked() > 0 {
		s.endLocked(nil)
	}
	return s.loss
}

func (s *holdState) endLocked(loss *LostError) {
	if s.ended {
		return
	}
	s.ended, s.loss = true, loss
	if loss != nil {
		s.cancel(loss)
	} else {
		s.cancel(ErrReleased)
	}
	close(s.over)
}

// foundLost says that the release found the hold to be lost before, and gives the loss.
func (s *holdState) foundLost(loss *LostError) *LostError {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.loss == nil {
		s.loss = loss
	}
	return s.loss
}

func (s *holdState) lost() *LostError {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.loss
}
