//go:build linux

package leaseholdtest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	leasehold "github.com/leasehold/leasehold/clients/go"
	"github.com/leasehold/leasehold/clients/go/leaseholdtest"
)

var job, part = leasehold.LockKey{Function: "job"}, leasehold.LockKey{Function: "job", Scope: "part"}

// needsProgram lets the check of this client alone go without a sidecar; tests/clients runs all with LEASEHOLD_PROGRAM.
func needsProgram(t *testing.T) {
	t.Helper()
	t.Parallel()
	if os.Getenv(leaseholdtest.ProgramVariable) == "" {
		t.Skip(leaseholdtest.ProgramVariable, "names no program")
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func want(t *testing.T, isSo bool, shown ...any) {
	t.Helper()
	if !isSo {
		t.Error(shown...)
	}
}

// hold waits for a lock. What happens to it is told on the channel.
func hold(t *testing.T, s *leaseholdtest.Sidecar, key leasehold.LockKey) (*leasehold.Hold, <-chan leasehold.HoldEvent) {
	t.Helper()
	told := make(chan leasehold.HoldEvent, 64)
	spec := leasehold.LeaseSpec{Key: key, Wait: leasehold.Forever, OnEvent: func(event leasehold.HoldEvent) { told <- event }}
	return must(s.Client().Hold(t.Context(), spec)), told
}

// until waits for an event of a kind.
func until[E leasehold.HoldEvent](told <-chan leasehold.HoldEvent) {
	for event := range told {
		if _, isIt := event.(E); isIt {
			return
		}
	}
}

func wantLost(t *testing.T, hold *leasehold.Hold, reason leasehold.LossReason) {
	t.Helper()
	<-hold.Context().Done()
	lost, isLost := hold.Loss().(*leasehold.LostError)
	want(t, isLost && lost.Reason == reason, hold.Loss())
}

func wantSaid(t *testing.T, said string, words ...string) {
	t.Helper()
	for _, word := range words {
		want(t, strings.Contains(said, word), word, "is not in", said)
	}
}

func TestALockIsLostAtOnceAndABreakIsToldAndLeavesTime(t *testing.T) {
	needsProgram(t)
	s := leaseholdtest.Start(t)
	lost, _ := hold(t, s, job)
	s.Lose(job)
	wantLost(t, lost, leasehold.LossReasonBroken)
	want(t, s.WaitUntilAvailable(job).BreakNote != nil, "the break leaves a note")
	told, _ := hold(t, s, part)
	s.Break(part, "a new version")
	<-told.Revoked()
	want(t, told.Notice().Reason == "a new version" && told.Valid(), told.Notice(), told)
	must(told.Release(t.Context()))
	s.WaitUntilAvailable(part)
}

func TestAHoldIsLostByItsOwnClockWhileTheSidecarIsPaused(t *testing.T) {
	needsProgram(t)
	s := leaseholdtest.Start(t)
	held, _ := hold(t, s, job)
	s.Paused(func() {
		wantSaid(t, failure(t, s, func(s *leaseholdtest.Sidecar) { s.Lose(job) }), "is paused")
		wantLost(t, held, leasehold.LossReasonExpired)
	})
	s.WaitUntilAvailable(job)
}

func TestAHoldIsResumedWhereLocksOutlastTheSidecar(t *testing.T) {
	needsProgram(t)
	s := leaseholdtest.Start(t, leaseholdtest.WithSetting("store.kind", "embedded"),
		leaseholdtest.WithSetting("store.embedded.path", filepath.Join(t.TempDir(), "locks.db")))
	held, told := hold(t, s, job)
	s.Kill()
	wantSaid(t, failure(t, s, func(s *leaseholdtest.Sidecar) { s.Lose(job) }), "does not run")
	s.Start()
	until[leasehold.Resumed](told)
	want(t, held.Valid(), held.Loss())
}

func TestWhoWaitsCanBeWaitedFor(t *testing.T) {
	needsProgram(t)
	s := leaseholdtest.Start(t)
	client := s.Client()
	first, _ := hold(t, s, job)
	want(t, s.WaitUntilHeld(job).WaitersHere == 0, "nobody waits")
	second := make(chan error, 1)
	go func() {
		spec := leasehold.LeaseSpec{Key: job, Wait: leasehold.Forever}
		second <- client.WithHold(t.Context(), spec, func(context.Context, *leasehold.Hold) error { return nil })
	}()
	s.WaitUntilWaiting(job, 1)
	must(first.Release(t.Context()))
	must(0, <-second)
}

func TestAShutdownIsTold(t *testing.T) {
	needsProgram(t)
	s := leaseholdtest.Start(t)
	held, told := hold(t, s, job)
	released := make(chan error, 1)
	go func() {
		until[leasehold.Draining](told)
		_, err := held.Release(t.Context())
		released <- err
	}()
	s.Stop()
	must(0, <-released)
	wantSaid(t, s.Log(), "shut down")
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
func run(t *testing.T, test func(testing.TB)) string {
	s, ended := &stranger{TB: t}, make(chan struct{})
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
	return run(t, func(tb testing.TB) { test(s.For(tb)) })
}

func TestWhatIsWrongFailsTheTestAndShowsTheLog(t *testing.T) {
	needsProgram(t)
	var endpoint string
	wantSaid(t, run(t, func(tb testing.TB) {
		s := leaseholdtest.Start(tb)
		endpoint = s.Endpoint()
		// What it logs is written by the time that it has ended.
		s.Stop()
		s.WaitUntilHeld(job)
	}), "the sidecar does not run", "the sidecar's log:", "listening", "shut down")
	_, err := os.Stat(filepath.Dir(strings.TrimPrefix(endpoint, "unix://")))
	want(t, os.IsNotExist(err), "the folder is left", err)
	wantSaid(t, run(t, func(tb testing.TB) { leaseholdtest.Start(tb).Hasty().WaitUntilHeld(job) }),
		`not after 1ns: the lock "job" is held. It is {`)
	wantSaid(t, run(t, func(tb testing.TB) { leaseholdtest.Start(tb).Lose(part) }),
		`the lock "job" of "part" cannot be lost or broken: nobody holds it`)
	wantSaid(t, run(t, func(tb testing.TB) { leaseholdtest.Start(tb, leaseholdtest.WithSetting("colour", "red")) }),
		"there is no setting colour")
}
