package leasehold

import (
	"context"
	"fmt"
)

// Notice says that the lock was broken, and that the hold ends at a deadline: finish, save the checkpoint and release
// before (S22). Until then the hold is valid. At the deadline it is lost, with [LossReasonBroken].
type Notice struct {
	// Deadline is the end of validity on this machine's boot clock.
	Deadline BootInstant
	// Reason is why the lock was broken, in words; empty if that is not known.
	Reason string
	// By is who broke it; empty if that is not known.
	By string
	// ForPriority is the priority of the caller that takes over, such as a newer version; nil if an operator broke the lock.
	ForPriority *uint32
}

// RevokedError is the cause of the end of [Hold.NoticeContext] when the lock was broken, and is not lost yet.
type RevokedError struct {
	// Notice is what was told.
	Notice Notice
}

func (e *RevokedError) Error() string {
	text := "the lock was broken, and is lost at the end of its validity"
	if e.Notice.By != "" {
		text += fmt.Sprintf("; broken by %q", e.Notice.By)
	}
	if e.Notice.Reason != "" {
		text += ": " + e.Notice.Reason
	}
	return text
}

// Revoked is closed when the sidecar gives notice: see [Notice]. It stays open where the hold is lost without one.
func (h *Hold) Revoked() <-chan struct{} { return h.state.revoked }

// Notice is the notice that was given; nil if none was.
func (h *Hold) Notice() *Notice {
	notice := h.state.noticed()
	if notice == nil {
		return nil
	}
	theirs := *notice
	return &theirs
}

// NoticeContext is a child of [Hold.Context] that is cancelled by a notice already, with a [*RevokedError] as its cause.
// It is for work that is to stop in time; saving and releasing take the other one.
func (h *Hold) NoticeContext() context.Context { return h.noticeCtx }

// revoke takes in that the lock was broken; the notice, if the hold goes on and none was given before.
func (s *holdState) revoke(note *BreakNote) *Notice {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.notice != nil || s.remainingLocked() == 0 {
		return nil
	}
	s.notice, s.breakNote = &Notice{Deadline: s.local.until}, note
	if note != nil {
		s.notice.Reason, s.notice.By = note.Reason, note.BrokenBy
		s.notice.ForPriority = note.ForPriority
	}
	s.cancelNotice(&RevokedError{*s.notice})
	close(s.revoked)
	return s.notice
}

func (s *holdState) noticed() *Notice {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.notice
}

// expiredLocked is the loss of a hold whose validity ended.
func (s *holdState) expiredLocked() *LostError {
	if s.notice != nil {
		return &LostError{
			Reason: LossReasonBroken, Detail: "it was broken, and its validity has ended", BreakNote: s.breakNote,
		}
	}
	if s.limit.known && s.limit.at <= s.local.until {
		return &LostError{Reason: LossReasonMaxHoldReached, Detail: "it lasted as long as MaxHold allows"}
	}
	return &LostError{Reason: LossReasonExpired, Detail: "its validity ended without a renewal"}
}
