package leasehold

import (
	"math"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// BootInstant is a moment on this machine's boot clock (CLOCK_BOOTTIME), which goes on counting while the machine
// sleeps: readings of it compare, whatever the wall clock does (S3).
type BootInstant time.Duration

// SinceBoot is the time from boot to this moment.
func (i BootInstant) SinceBoot() time.Duration { return time.Duration(i) }

// add gives the moment a span later; the last of all moments if there is none so late. The span is not negative.
func (i BootInstant) add(span time.Duration) BootInstant {
	if later := i + BootInstant(span); later >= i {
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
	// bootID says whose boot it counts from; empty if the kernel does not tell.
	bootID() string
}

// bootClock is the machine's boot clock, and the only thing here that reads one.
type bootClock struct{ id string }

func newBootClock() bootClock {
	// A kernel that does not tell is nobody's: then the sidecar is asked from time to time (S21).
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return bootClock{strings.TrimSpace(string(text))}
}

func (bootClock) now() BootInstant {
	var reading unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &reading); err != nil {
		// Linux has this clock since 2.6.39. Were it gone, the last of all moments only ends holds.
		return math.MaxInt64
	}
	return BootInstant(reading.Nano())
}

func (c bootClock) bootID() string { return c.id }
