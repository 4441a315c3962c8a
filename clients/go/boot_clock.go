package leasehold

import (
	"fmt"
	"math"
	"time"
)

// BootInstant is a moment on this machine's boot clock, which goes on counting while the machine sleeps: readings of it
// compare, whatever the wall clock does (S3). The clock is CLOCK_BOOTTIME on Linux and CLOCK_MONOTONIC on macOS.
type BootInstant time.Duration

// SinceBoot is the time from boot to this moment.
func (i BootInstant) SinceBoot() time.Duration { return time.Duration(i) }

// add gives the moment a duration later; the last of all moments if there is none so late. It is not negative.
func (i BootInstant) add(duration time.Duration) BootInstant {
	if later := i + BootInstant(duration); later >= i {
		return later
	}
	return math.MaxInt64
}

// since gives the time from an earlier moment to this one; zero if that one is later.
func (i BootInstant) since(earlier BootInstant) time.Duration {
	return max(0, time.Duration(i-earlier))
}

// clock is where the time comes from: the machine, or a test.
type clock interface {
	// now is the present moment.
	now() BootInstant
	// bootID says whose boot it counts from; empty if the kernel does not tell, or a time namespace shifts the clock.
	// Then none is sent, and the sidecar is asked from time to time (S21).
	bootID() string
}

// bootClock is the machine's boot clock, and the only thing here that reads one.
type bootClock struct{ id string }

func newBootClock() (clock, error) {
	if err := checkPlatform(); err != nil {
		return nil, err
	}
	return bootClock{readBootID()}, nil
}

func (bootClock) now() BootInstant { return readBootClock() }

func (c bootClock) bootID() string { return c.id }

// PlatformError says that this platform has no clock that a holder could go by. Not worth repeating.
type PlatformError struct {
	// Platform is the operating system, as GOOS names it.
	Platform string
}

func (e *PlatformError) Error() string {
	return fmt.Sprintf("Leasehold's client needs Linux or macOS: %s has no clock here that counts while the machine "+
		"sleeps, and without one a holder cannot know when its lock has expired", e.Platform)
}
