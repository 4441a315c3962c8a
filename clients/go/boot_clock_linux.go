package leasehold

import (
	"math"
	"os"
	"path/filepath"
	"slices"
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
	if isShifted("/proc/self") {
		return ""
	}
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
}

// isShifted says whether a time namespace shifts the clock of this process, or may: processes of other namespaces then
// read another clock under the same boot id (S21).
func isShifted(process string) bool {
	offsets, notTold := os.ReadFile(filepath.Join(process, "timens_offsets"))
	ours, unnamed := os.Readlink(filepath.Join(process, "ns/time"))
	if notTold != nil && unnamed != nil {
		// A kernel without time namespaces.
		return false
	}
	// The kernel tells the shift of the namespace that children get.
	children, err := os.Readlink(filepath.Join(process, "ns/time_for_children"))
	if notTold != nil || unnamed != nil || err != nil || ours != children {
		return true
	}
	return !slices.ContainsFunc(strings.Split(string(offsets), "\n"), func(line string) bool {
		return slices.Equal(strings.Fields(line), []string{"boottime", "0", "0"})
	})
}
