package leasehold

import (
	"os"
	"path/filepath"
	"testing"
)

func TestS21AClockThatATimeNamespaceShiftsIsNotTheKernels(t *testing.T) {
	const zero = "monotonic           7         0\nboottime            0         0\n"
	const one, other = "time:[1]", "time:[2]"
	for _, told := range []struct {
		offsets, ours, ofChildren string
		shifted                   bool
	}{
		{zero, one, one, false},
		{"", "", "", false},
		{"monotonic 0 0\nboottime 9 0\n", one, one, true},
		{"boottime -1 500000000\n", one, one, true},
		{zero, one, other, true},
		{zero, "", "", true},
		{"", one, one, true},
		{"nonsense", one, one, true},
	} {
		process := t.TempDir()
		ok(t, os.Mkdir(filepath.Join(process, "ns"), 0o700))
		if told.offsets != "" {
			ok(t, os.WriteFile(filepath.Join(process, "timens_offsets"), []byte(told.offsets), 0o600))
		}
		if told.ours != "" {
			ok(t, os.Symlink(told.ours, filepath.Join(process, "ns/time")))
			ok(t, os.Symlink(told.ofChildren, filepath.Join(process, "ns/time_for_children")))
		}
		want(t, isShifted(process) == told.shifted, told)
	}
}
