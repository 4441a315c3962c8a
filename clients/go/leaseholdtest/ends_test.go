//go:build linux

package leaseholdtest_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/clients/go/leaseholdtest"
)

// childVariable has a process of this test start a sidecar, and wait to be killed.
const childVariable = "LEASEHOLD_TEST_CHILD"

func TestChild(t *testing.T) {
	how := os.Getenv(childVariable)
	if how == "" {
		t.Skip("only a process that another test starts does it")
	}
	s := leaseholdtest.Start(t)
	if how == "paused" {
		s.Pause()
	}
	fmt.Printf("sidecar %d\n", s.Process())
	select {}
}

func TestASidecarEndsWithATestProcessThatIsKilled(t *testing.T) {
	needsProgram(t)
	for _, how := range []string{"running", "paused"} {
		t.Run(how, func(t *testing.T) {
			child := exec.Command(os.Args[0], "-test.run=^TestChild$")
			child.Env = append(os.Environ(), childVariable+"="+how)
			said := must(child.StdoutPipe())
			must(0, child.Start())
			var text string
			for lines := bufio.NewScanner(said); text == "" && lines.Scan(); {
				text, _ = strings.CutPrefix(lines.Text(), "sidecar ")
			}
			sidecar := must(unix.PidfdOpen(must(strconv.Atoi(text)), 0))
			defer unix.Close(sidecar)
			must(0, child.Process.Kill())
			_ = child.Wait()
			ended, err := []unix.PollFd{{Fd: int32(sidecar), Events: unix.POLLIN}}, error(unix.EINTR)
			for err == unix.EINTR {
				_, err = unix.Poll(ended, 30_000)
			}
			want(t, err == nil && ended[0].Revents != 0, "it runs though nobody is left to use it", err)
		})
	}
}

func TestTheProgramIsFoundOrSaid(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("PATH", folder)
	t.Setenv(leaseholdtest.ProgramVariable, "")
	_, err := leaseholdtest.FindProgram()
	wantSaid(t, fmt.Sprint(err), leaseholdtest.ProgramVariable, "pip install leasehold-sidecar", "PATH (not in "+folder+")")
	for _, name := range []string{"leasehold", "other"} {
		path := filepath.Join(folder, name)
		must(0, os.WriteFile(path, nil, 0o700))
		if name == "other" {
			t.Setenv(leaseholdtest.ProgramVariable, path)
		}
		found, err := leaseholdtest.FindProgram()
		want(t, err == nil && found == path, found, err)
	}
	t.Setenv(leaseholdtest.ProgramVariable, folder)
	_, err = leaseholdtest.FindProgram()
	wantSaid(t, fmt.Sprint(err), "which is not an executable file")
}
