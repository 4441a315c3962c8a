//go:build linux

package leaseholdtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	leasehold "github.com/leasehold/leasehold/clients/go"
	"github.com/leasehold/leasehold/clients/go/leaseholdtest"
)

var job = leasehold.LockKey{Function: "job"}

// needsProgram lets the check of this client alone go without a sidecar; tests/clients runs all with LEASEHOLD_PROGRAM.
func needsProgram(t *testing.T) {
	t.Helper()
	t.Parallel()
	if os.Getenv(leaseholdtest.ProgramVariable) == "" {
		t.Skip(leaseholdtest.ProgramVariable, "names no program")
	}
}

func hold(t *testing.T, s *leaseholdtest.Sidecar, key leasehold.LockKey) *leasehold.Hold {
	t.Helper()
	hold, err := s.Client().Hold(t.Context(), leasehold.LeaseSpec{Key: key, Wait: leasehold.Forever})
	if err != nil {
		t.Fatal(err)
	}
	return hold
}

func reason(t *testing.T, hold *leasehold.Hold) leasehold.LossReason {
	t.Helper()
	<-hold.Context().Done()
	var lost *leasehold.LostError
	if !errors.As(hold.Loss(), &lost) {
		t.Fatal(hold.Loss())
	}
	return lost.Reason
}

func TestALockIsLostAtOnceAndABreakIsToldAndLeavesTime(t *testing.T) {
	needsProgram(t)
	s := leaseholdtest.Start(t)
	lost := hold(t, s, job)
	s.Lose(job)
	if reason := reason(t, lost); reason != leasehold.LossReasonBroken {
		t.Error(reason)
	}
	if s.WaitUntilAvailable(job).BreakNote == nil {
		t.Error("the break leaves a note")
	}
	part := leasehold.LockKey{Function: "job", Scope: "part"}
	told := hold(t, s, part)
	s.Break(part, "a new version")
	<-told.Revoked()
	if note := told.Notice(); note.Reason != "a new version" || !told.Valid() {
		t.Error(note, told)
	}
	if _, err := told.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.WaitUntilAvailable(part)
}

func TestAHoldIsLostByItsOwnClockWhileTheSidecarIsPaused(t *testing.T) {
	needsProgram(t)
	s := leaseholdtest.Start(t)
	held := hold(t, s, job)
	s.Paused(func() {
		if said := failure(t, s, func(s *leaseholdtest.Sidecar) { s.Lose(job) }); !strings.Contains(said, "is paused") {
			t.Error(said)
		}
		if reason := reason(t, held); reason != leasehold.LossReasonExpired {
			t.Error(reason)
		}
	})
	s.WaitUntilAvailable(job)
}

func TestAHoldIsResumedWhereLocksOutlastTheSidecar(t *testing.T) {
	needsProgram(t)
	s := leaseholdtest.Start(t, leaseholdtest.WithSetting("store.kind", "embedded"),
		leaseholdtest.WithSetting("store.embedded.path", filepath.Join(t.TempDir(), "locks.db")))
	resumed := make(chan struct{})
	spec := leasehold.LeaseSpec{Key: job, OnEvent: func(event leasehold.HoldEvent) {
		if _, ok := event.(leasehold.Resumed); ok {
			close(resumed)
		}
	}}
	held, err := s.Client().Hold(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if said := failure(t, s, func(s *leaseholdtest.Sidecar) { s.Lose(job) }); !strings.Contains(said, "does not run") {
		t.Error(said)
	}
	s.Start()
	<-resumed
	if !held.Valid() {
		t.Error(held.Loss())
	}
}

func TestWhoWaitsCanBeWaitedFor(t *testing.T) {
	needsProgram(t)
	s := leaseholdtest.Start(t)
	client := s.Client()
	first := hold(t, s, job)
	if record := s.WaitUntilHeld(job); record.WaitersHere != 0 {
		t.Error(record)
	}
	second := make(chan error, 1)
	go func() {
		spec := leasehold.LeaseSpec{Key: job, Wait: leasehold.Forever}
		second <- client.WithHold(t.Context(), spec, func(context.Context, *leasehold.Hold) error { return nil })
	}()
	s.WaitUntilWaiting(job, 1)
	if _, err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Fatal(err)
	}
}

func TestAShutdownIsTold(t *testing.T) {
	needsProgram(t)
	s := leaseholdtest.Start(t)
	client := s.Client()
	draining := make(chan struct{})
	spec := leasehold.LeaseSpec{Key: job, OnEvent: func(event leasehold.HoldEvent) {
		if _, ok := event.(leasehold.Draining); ok {
			close(draining)
		}
	}}
	holding := make(chan error, 1)
	go func() {
		holding <- client.WithHold(t.Context(), spec, func(context.Context, *leasehold.Hold) error {
			<-draining
			return nil
		})
	}()
	s.WaitUntilHeld(job)
	s.Stop()
	if err := <-holding; err != nil {
		t.Error(err)
	}
	if !strings.Contains(s.Log(), "shut down") {
		t.Error(s.Log())
	}
}

// stranger is a test that may fail.
type stranger struct {
	testing.TB
	said     strings.Builder
	failed   bool
	cleanups []func()
}

func (s *stranger) Helper() {}
func (s *stranger) Fatal(args ...any) {
	s.failed = true
	fmt.Fprintln(&s.said, args...)
	runtime.Goexit()
}
func (s *stranger) Fatalf(format string, args ...any) { s.Fatal(fmt.Sprintf(format, args...)) }
func (s *stranger) Failed() bool                      { return s.failed }
func (s *stranger) Logf(format string, args ...any)   { fmt.Fprintf(&s.said, format, args...) }
func (s *stranger) Cleanup(cleanup func())            { s.cleanups = append(s.cleanups, cleanup) }

// run runs a test to its end; what it said.
func (s *stranger) run(test func(testing.TB)) string {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		test(s)
	}()
	<-ended
	for i := len(s.cleanups) - 1; i >= 0; i-- {
		s.cleanups[i]()
	}
	return s.said.String()
}

// failure runs what fails a test; what it said.
func failure(t *testing.T, s *leaseholdtest.Sidecar, test func(*leaseholdtest.Sidecar)) string {
	t.Helper()
	other := &stranger{TB: t}
	return other.run(func(tb testing.TB) { test(s.For(tb)) })
}

func TestWhatIsWrongFailsTheTestAndShowsTheLog(t *testing.T) {
	needsProgram(t)
	var endpoint string
	said := (&stranger{TB: t}).run(func(tb testing.TB) {
		s := leaseholdtest.Start(tb)
		endpoint = s.Endpoint()
		// What it logs is written by the time that it has ended.
		s.Stop()
		s.WaitUntilHeld(job)
	})
	for _, word := range []string{"the sidecar does not run", "the sidecar's log:", "listening", "shut down"} {
		if !strings.Contains(said, word) {
			t.Errorf("%q is not in %s", word, said)
		}
	}
	if _, err := os.Stat(filepath.Dir(strings.TrimPrefix(endpoint, "unix://"))); !os.IsNotExist(err) {
		t.Error("the folder is left", err)
	}
	said = (&stranger{TB: t}).run(func(tb testing.TB) { leaseholdtest.Start(tb).Hasty().WaitUntilHeld(job) })
	if !strings.Contains(said, `not after 1ns: the lock "job" is held. It is {`) {
		t.Error(said)
	}
	said = (&stranger{TB: t}).run(func(tb testing.TB) {
		leaseholdtest.Start(tb).Lose(leasehold.LockKey{Function: "job", Scope: "part"})
	})
	if !strings.Contains(said, `the lock "job" of "part" cannot be lost or broken: nobody holds it`) {
		t.Error(said)
	}
	said = (&stranger{TB: t}).run(func(tb testing.TB) {
		leaseholdtest.Start(tb, leaseholdtest.WithSetting("colour", "red"))
	})
	if !strings.Contains(said, "there is no setting colour") {
		t.Error(said)
	}
}
