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
			said, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			var text string
			for lines := bufio.NewScanner(said); text == "" && lines.Scan(); {
				text, _ = strings.CutPrefix(lines.Text(), "sidecar ")
			}
			pid, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			sidecar, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(sidecar)
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = child.Wait()
			ended := []unix.PollFd{{Fd: int32(sidecar), Events: unix.POLLIN}}
			for {
				_, err = unix.Poll(ended, 30_000)
				if err != unix.EINTR {
					break
				}
			}
			if err != nil || ended[0].Revents == 0 {
				t.Fatal("it runs though nobody is left to use it", err)
			}
		})
	}
}

func TestTheProgramIsFoundOrSaid(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("PATH", folder)
	t.Setenv(leaseholdtest.ProgramVariable, "")
	_, err := leaseholdtest.FindProgram()
	if err == nil {
		t.Fatal("there is none")
	}
	for _, word := range []string{leaseholdtest.ProgramVariable, "pip install leasehold-sidecar", "PATH (not in " + folder + ")"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in %v", word, err)
		}
	}
	inPath, named := filepath.Join(folder, "leasehold"), filepath.Join(folder, "other")
	for _, path := range []string{inPath, named} {
		if err := os.WriteFile(path, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := leaseholdtest.FindProgram(); err != nil || found != inPath {
		t.Error(found, err)
	}
	t.Setenv(leaseholdtest.ProgramVariable, named)
	if found, err := leaseholdtest.FindProgram(); err != nil || found != named {
		t.Error(found, err)
	}
	t.Setenv(leaseholdtest.ProgramVariable, folder)
	if _, err := leaseholdtest.FindProgram(); err == nil || !strings.Contains(err.Error(), "which is not an executable file") {
		t.Error(err)
	}
}
