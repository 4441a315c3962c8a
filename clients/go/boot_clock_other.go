//go:build !linux && !darwin

package leasehold

import (
	"math"
	"runtime"
)

func checkPlatform() error { return &PlatformError{Platform: runtime.GOOS} }

// readBootClock gives the last of all moments, at which nothing is held.
func readBootClock() BootInstant { return math.MaxInt64 }

func readBootID() string { return "" }
