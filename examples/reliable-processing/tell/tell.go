// Package tell says what a worker does, for `run` and `chaos`, and lets them kill it between two steps. A worker of your own
// does not need it.
package tell

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// Step is a step of the worker that is over.
type Step string

// The steps, in their order.
const (
	Fetched   Step = "fetched"
	Claimed   Step = "claimed"
	Performed Step = "performed"
	Recorded  Step = "recorded"
	Deleted   Step = "deleted"
)

// What else a worker tells.
const (
	// Works is told before each page.
	Works = "works"
	// Busy is told when the lock of a job is busy.
	Busy = "busy"
	// FindsDone is told when only the message of a job is left, which is deleted.
	FindsDone = "finds it done, deletes the message"
	// Refused is told when a write came too late.
	Refused = "refused"
)

// Say writes a line to the file EVENTS, on the machine's monotonic clock. It is one write, so a kill leaves whole lines.
func Say(what string, jobID uuid.UUID, token uint64) {
	path := os.Getenv("EVENTS")
	if path == "" {
		return
	}
	var now unix.Timespec
	must(unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	line, err := json.Marshal(map[string]any{
		"at": now.Nano(), "what": what, "job": jobID, "token": token, "worker": os.Getenv("WORKER"),
	})
	must(err)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	must(err)
	_, err = file.Write(append(line, '\n'))
	must(err)
	must(file.Close())
}

// Reached says that a step is over. If CRASH_AT names the step, it kills this process as `kill -9` does, once for each job:
// the file that it makes in the folder CRASHED tells later processes.
func Reached(step Step, jobID uuid.UUID, token uint64) {
	Say(string(step), jobID, token)
	if os.Getenv("CRASH_AT") != string(step) {
		return
	}
	mark, err := os.OpenFile(filepath.Join(os.Getenv("CRASHED"), jobID.String()), os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return
	}
	must(err)
	must(mark.Close())
	must(syscall.Kill(os.Getpid(), syscall.SIGKILL))
	select {}
}

// must ends the process: a test that does not see what happened must not pass.
func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "tell:", err)
		os.Exit(1)
	}
}
