package leasehold

import (
	"math"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func checkPlatform() error { return nil }

func readBootClock() BootInstant {
	var reading unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &reading); err != nil {
		// Linux has this clock since 2.6.39. Were it gone, the last of all moments only ends holds.
		return math.MaxInt64
	}
	return BootInstant(reading.Nano())
}

func readBootID() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
}
