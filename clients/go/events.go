package leasehold

import (
	"sync"
	"time"
)

// HoldEvent is what happens to a hold: one of [Waiting], [Granted], [Renewed], [AtRisk], [Recovered], [Draining],
// [Interrupted], [Resumed], [Revoked], [Lost]. Later versions may have more.
type HoldEvent interface{ event() }

// Waiting says that the lock is busy, and the caller waits for it.
type Waiting struct {
	// Position is the place among those who wait at this sidecar; 1 is next.
	Position uint32
	// Record is the lock's record, as far as it is known.
	Record LockRecord
}

// Granted says that the caller holds the lock.
type Granted struct {
	// LockPath is the path of the lock.
	LockPath string
	// FencingToken is greater than every token granted for this lock before.
	FencingToken uint64
	// ValidUntil is the end of validity.
	ValidUntil BootInstant
}

// Renewed says that the hold was renewed.
type Renewed struct {
	// ValidUntil is the end of validity.
	ValidUntil BootInstant
}

// AtRisk says that renewals fail: stop what cannot be interrupted later (S9).
type AtRisk struct {
	// ValidUntil is the end of validity, which is the deadline.
	ValidUntil BootInstant
	// Cause is what fails.
	Cause Reason
	// Detail is the same for people.
	Detail string
}

// Recovered says that renewals succeed again.
type Recovered struct {
	// ValidUntil is the end of validity.
	ValidUntil BootInstant
}

// Draining says that the sidecar is shutting down: finish and release (S15).
type Draining struct {
	// TimeLeft is how long the sidecar still waits, from when it said so.
	TimeLeft time.Duration
}

// Interrupted says that the stream to the sidecar broke; the hold goes on until its validity ends, and is being
// resumed (S16).
type Interrupted struct {
	// Detail is what happened, for people.
	Detail string
}

// Resumed says that the hold was resumed at the sidecar.
type Resumed struct {
	// ValidUntil is the end of validity.
	ValidUntil BootInstant
}

// Revoked says that the lock was broken, and when the hold ends by that: see [Notice].
type Revoked struct {
	// Notice is what was told.
	Notice Notice
}

// Lost says that the hold is over. Nothing comes after this.
type Lost struct {
	// Loss is why.
	Loss *LostError
}

func (Waiting) event()     {}
func (Granted) event()     {}
func (Renewed) event()     {}
func (AtRisk) event()      {}
func (Recovered) event()   {}
func (Draining) event()    {}
func (Interrupted) event() {}
func (Resumed) event()     {}
func (Revoked) event()     {}
func (Lost) event()        {}

// eventQueue calls a handler with one event after the other, however slow it is, without keeping the hold waiting.
type eventQueue[E any] struct {
	handler func(E)

	mutex   sync.Mutex
	pending []E
	running bool
	closed  bool
}

// tell queues an event, unless the last one was told.
func (q *eventQueue[E]) tell(event E) {
	if q.handler == nil {
		return
	}
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.closed {
		return
	}
	q.pending = append(q.pending, event)
	if !q.running {
		q.running = true
		go q.run()
	}
}

// close lets nothing follow what is queued.
func (q *eventQueue[E]) close() {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.closed = true
}

func (q *eventQueue[E]) run() {
	for {
		q.mutex.Lock()
		if len(q.pending) == 0 {
			q.running = false
			q.mutex.Unlock()
			return
		}
		event := q.pending[0]
		q.pending = q.pending[1:]
		q.mutex.Unlock()
		q.handler(event)
	}
}
