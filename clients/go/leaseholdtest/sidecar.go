// Package leaseholdtest starts a sidecar for a test, with its locks in memory, and makes it lose, break and delay holds.
//
//	s := leaseholdtest.Start(t)
//	client := s.Client()
//
// The sidecar ends with the test, and with the test process however that ends. Its log is shown with a test that fails. Tests
// may run in parallel, each with its own. It runs the program that LEASEHOLD_PROGRAM names, or else leasehold in PATH.
package leaseholdtest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	leasehold "github.com/leasehold/leasehold/clients/go"
)

const defaultTimeout = 30 * time.Second

// Option says how a sidecar is started.
type Option func(*options)

type options struct {
	program  string
	settings [][2]string
	timeout  time.Duration
}

// WithSetting gives the sidecar a setting, as `leasehold serve --set` does. It replaces what the sidecar would have: its store is
// the memory, its leases last for 15 s where a caller names no duration, and locks may be broken.
func WithSetting(key, value string) Option {
	return func(o *options) { o.settings = append(o.settings, [2]string{key, value}) }
}

// WithProgram starts this program. Default: that of [FindProgram].
func WithProgram(path string) Option {
	return func(o *options) { o.program = path }
}

// WithTimeout says how long the sidecar's start, its end and the Wait methods wait before they fail the test. Default: 30 s.
func WithTimeout(timeout time.Duration) Option {
	return func(o *options) { o.timeout = timeout }
}

// Sidecar is a sidecar of one test. What goes wrong in its methods fails the test at once, so call them in the test's own goroutine.
type Sidecar struct {
	t       testing.TB
	process *process
	timeout time.Duration
	client  *leasehold.Client
}

// Start starts a sidecar, which ends with the test.
func Start(t testing.TB, opts ...Option) *Sidecar {
	t.Helper()
	o := options{timeout: defaultTimeout}
	for _, opt := range opts {
		opt(&o)
	}
	if o.program == "" {
		program, err := FindProgram()
		if err != nil {
			t.Fatal(err)
		}
		o.program = program
	}
	process, err := newProcess(o.program, o.settings)
	if err != nil {
		t.Fatal(err)
	}
	s := &Sidecar{t: t, process: process, timeout: o.timeout}
	t.Cleanup(s.end)
	s.Start()
	if s.client, err = leasehold.Connect(t.Context(), leasehold.WithEndpoint(s.Endpoint())); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Sidecar) end() {
	if s.client != nil {
		_ = s.client.Close()
	}
	s.process.kill()
	if s.t.Failed() {
		s.t.Logf("the sidecar's log:\n%s", s.process.log())
	}
	if err := os.RemoveAll(s.process.folder); err != nil {
		s.t.Error(err)
	}
}

// Endpoint is where it is, for [leasehold.WithEndpoint] or LEASEHOLD_ENDPOINT.
func (s *Sidecar) Endpoint() string { return "unix://" + s.process.socket() }

// Log is what it has logged so far.
func (s *Sidecar) Log() string { return s.process.log() }

// Client connects a client, which is closed at the end of the test.
func (s *Sidecar) Client(opts ...leasehold.Option) *leasehold.Client {
	s.t.Helper()
	opts = append([]leasehold.Option{leasehold.WithEndpoint(s.Endpoint())}, opts...)
	client, err := leasehold.Connect(s.t.Context(), opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		s.process.resume()
		// A hold that the test has had lost on purpose, or whose sidecar it has killed, cannot be released.
		_ = client.Close()
	})
	return client
}

// Lose has the holder lose the lock at once, with the reason BROKEN; the lock is available then. Somebody has to hold it.
func (s *Sidecar) Lose(key leasehold.LockKey) {
	s.t.Helper()
	s.breakLock(key, leasehold.BreakOptions{Reason: "lost by a test", Now: true})
}

// Break breaks the lock as an operator does: its holder is told, and loses it when its lease has run out. Somebody has to hold it.
func (s *Sidecar) Break(key leasehold.LockKey, reason string) {
	s.t.Helper()
	s.breakLock(key, leasehold.BreakOptions{Reason: reason})
}

func (s *Sidecar) breakLock(key leasehold.LockKey, how leasehold.BreakOptions) {
	s.t.Helper()
	// One that was never acquired does not exist, and cannot be asked to be broken.
	held := s.record(key).State != leasehold.LockStateAvailable
	if held {
		result, err := s.client.BreakLock(s.t.Context(), key, how)
		if err != nil {
			s.t.Fatal(err)
		}
		held = result.Outcome != leasehold.BreakOutcomeNotHeld
	}
	if !held {
		s.t.Fatalf("%s cannot be lost or broken: nobody holds it. WaitUntilHeld waits for a holder", name(key))
	}
}

// Paused stops the sidecar's process while the function runs, so that grants, renewals and answers are late. A hold is not told
// of it: its client finds by its own clock that its validity is over.
func (s *Sidecar) Paused(during func()) {
	s.t.Helper()
	s.Pause()
	defer s.Resume()
	during()
}

// Pause stops the sidecar's process until Resume.
func (s *Sidecar) Pause() {
	s.t.Helper()
	if err := s.process.pause(); err != nil {
		s.t.Fatal(err)
	}
}

// Resume lets the sidecar's process go on, if it is paused.
func (s *Sidecar) Resume() { s.process.resume() }

// Kill ends the sidecar as a crash does. What is in memory is forgotten: all its locks.
func (s *Sidecar) Kill() { s.process.kill() }

// Stop has the sidecar shut down, as an update does, and waits for it: holders are told, and have `drain.period` to release.
func (s *Sidecar) Stop() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), s.timeout)
	defer cancel()
	if err := s.process.stop(ctx); err != nil {
		s.t.Fatal(err)
	}
}

// Start starts the sidecar again at the same endpoint, after Kill or Stop.
func (s *Sidecar) Start() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), s.timeout)
	defer cancel()
	if err := s.process.start(ctx); err != nil {
		s.t.Fatal(err)
	}
}

// WaitUntilHeld waits until somebody holds the lock.
func (s *Sidecar) WaitUntilHeld(key leasehold.LockKey) leasehold.LockRecord {
	s.t.Helper()
	return s.WaitUntil(key, "is held", func(record leasehold.LockRecord) bool {
		return record.State == leasehold.LockStateHeld
	})
}

// WaitUntilAvailable waits until nobody holds the lock.
func (s *Sidecar) WaitUntilAvailable(key leasehold.LockKey) leasehold.LockRecord {
	s.t.Helper()
	return s.WaitUntil(key, "is available", func(record leasehold.LockRecord) bool {
		return record.State == leasehold.LockStateAvailable
	})
}

// WaitUntilWaiting waits until so many callers, or more, wait for the lock.
func (s *Sidecar) WaitUntilWaiting(key leasehold.LockKey, callers uint32) leasehold.LockRecord {
	s.t.Helper()
	return s.WaitUntil(key, fmt.Sprintf("has %d waiting", callers), func(record leasehold.LockRecord) bool {
		return record.WaitersHere >= callers
	})
}

// WaitUntil waits until the lock's record meets the condition, and gives the record; what is for the message of a failure.
func (s *Sidecar) WaitUntil(
	key leasehold.LockKey, what string, condition func(leasehold.LockRecord) bool,
) leasehold.LockRecord {
	s.t.Helper()
	late := time.NewTimer(s.timeout)
	defer late.Stop()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		record := s.record(key)
		if condition(record) {
			return record
		}
		select {
		case <-late.C:
			s.t.Fatalf("not after %v: %s %s. It is %+v", s.timeout, name(key), what, record)
		case <-ticker.C:
		}
	}
}

func (s *Sidecar) record(key leasehold.LockKey) leasehold.LockRecord {
	s.t.Helper()
	if s.process.running == nil {
		s.t.Fatal(errNotRunning)
	}
	if s.process.pausing != nil {
		s.t.Fatalf("the sidecar is paused, and cannot be asked about %s: Resume it first", name(key))
	}
	record, err := s.client.GetLock(s.t.Context(), key)
	if err != nil {
		s.t.Fatal(err)
	}
	return record
}

func name(key leasehold.LockKey) string {
	if key.Scope == "" {
		return fmt.Sprintf("the lock %q", key.Function)
	}
	return fmt.Sprintf("the lock %q of %q", key.Function, key.Scope)
}
