package leasehold

import (
	"math"

	"golang.org/x/sys/unix"
)

func checkPlatform() error { return nil }

func readBootClock() BootInstant {
	var reading unix.Timespec
	// On macOS this clock counts while the machine sleeps; CLOCK_UPTIME_RAW is the one that does not.
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &reading); err != nil {
		// Were it gone, the last of all moments only ends holds.
		return math.MaxInt64
	}
	return BootInstant(reading.Nano())
}

func readBootID() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return id
}
