package leaseholdtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// look is how often a condition is looked at.
	look = 10 * time.Millisecond
	// longestSocketPath fits Linux, which takes 107 bytes, and macOS, which takes 103.
	longestSocketPath = 100
)

// pauseScript stops a process until its own standard input is closed, which it is also when the test process dies.
const pauseScript = `
kill -STOP "$1" || exit 1
while :; do
    case $(cat "/proc/$1/stat" 2>/dev/null || ps -o stat= -p "$1") in
    *') T '* | T*) break ;;
    '' | *') Z '* | Z*) exit 1 ;;
    esac
done
echo paused
read -r _
kill -CONT "$1" 2>/dev/null
`

// process is a `leasehold serve` in a folder of its own. It ends with the test process, however that ends.
type process struct {
	folder string
	words  []string

	running *exec.Cmd
	stdin   io.Closer
	ended   chan struct{}

	pausing *exec.Cmd
	unpause io.Closer
}

func newProcess(program string, settings [][2]string) (*process, error) {
	folder, err := shortFolder()
	if err != nil {
		return nil, err
	}
	p := &process{folder: folder}
	p.words = []string{program, "serve", "--exit-on-stdin-close"}
	defaults := [][2]string{
		{"store.kind", "memory"},
		{"listen.unix", p.socket()},
		{"listen.tcp", ""},
		{"admin.listen", ""},
		{"admin.allow_break", "true"},
		{"host_id.host_type", "test"},
		{"locks.lease_duration", "15s"},
	}
	// The last one of a setting counts.
	for _, setting := range append(defaults, settings...) {
		p.words = append(p.words, "--set", setting[0]+"="+setting[1])
	}
	return p, nil
}

func shortFolder() (string, error) {
	if len(filepath.Join(os.TempDir(), "lh-1234567890", "s")) > longestSocketPath {
		return os.MkdirTemp("/tmp", "lh-")
	}
	return os.MkdirTemp("", "lh-")
}

func (p *process) socket() string { return filepath.Join(p.folder, "s") }

func (p *process) log() string {
	text, err := os.ReadFile(filepath.Join(p.folder, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// start starts it, and waits until it listens.
func (p *process) start(ctx context.Context) error {
	if p.running != nil {
		return errors.New("the sidecar runs already: Kill or Stop it before Start")
	}
	log, err := os.OpenFile(filepath.Join(p.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(p.words[0], p.words[1:]...)
	command.Stdout, command.Stderr, command.Dir = log, log, p.folder
	command.SysProcAttr = ownGroup()
	// Settings come from the test alone, whatever the environment has for the code under test.
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "LEASEHOLD_") {
			command.Env = append(command.Env, variable)
		}
	}
	if p.stdin, err = command.StdinPipe(); err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %w", p.words[0], err)
	}
	ended := make(chan struct{})
	p.running, p.ended = command, ended
	go func() {
		_ = command.Wait()
		close(ended)
	}()
	return p.awaitListening(ctx)
}

func (p *process) awaitListening(ctx context.Context) error {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		if conn, err := net.Dial("unix", p.socket()); err == nil {
			return conn.Close()
		}
		select {
		case <-p.ended:
			state := p.running.ProcessState
			p.forget()
			return fmt.Errorf("%s ended (%v) as it started:\n%s", strings.Join(p.words, " "), state, p.log())
		case <-ctx.Done():
			return fmt.Errorf("the sidecar does not listen at %s: %w. Its log:\n%s", p.socket(), ctx.Err(), p.log())
		case <-ticker.C:
		}
	}
}

var errNotRunning = errors.New("the sidecar does not run: Start it first")

// pause stops it (SIGSTOP) until resume.
func (p *process) pause() error {
	if p.running == nil {
		return errNotRunning
	}
	if p.pausing != nil {
		return errors.New("the sidecar is paused already")
	}
	pid := strconv.Itoa(p.running.Process.Pid)
	command := exec.Command("/bin/sh", "-c", pauseScript, "sh", pid)
	command.SysProcAttr = ownGroup()
	unpause, err := command.StdinPipe()
	if err != nil {
		return err
	}
	said, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("cannot start the shell that stops the sidecar: %w", err)
	}
	p.pausing, p.unpause = command, unpause
	if _, err := bufio.NewReader(said).ReadString('\n'); err != nil {
		p.resume()
		return fmt.Errorf("the sidecar, process %s, cannot be stopped: it has ended. Its log:\n%s", pid, p.log())
	}
	return nil
}

// resume lets it go on.
func (p *process) resume() {
	if p.pausing != nil {
		_ = p.unpause.Close()
		_ = p.pausing.Wait()
		p.pausing = nil
	}
}

// stop has it shut down, as at SIGTERM, and waits for that.
func (p *process) stop(ctx context.Context) error {
	if p.running == nil {
		return errNotRunning
	}
	if err := p.running.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("cannot stop the sidecar: %w. Its log:\n%s", err, p.log())
	}
	p.resume()
	select {
	case <-p.ended:
		p.forget()
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the sidecar has not shut down: %w. It waits for holders, up to drain.period. Its log:\n%s",
			ctx.Err(), p.log())
	}
}

// kill ends it as a crash does.
func (p *process) kill() {
	if p.running != nil {
		_ = p.running.Process.Kill()
		p.resume()
		<-p.ended
		p.forget()
	}
}

func (p *process) forget() {
	p.resume()
	_ = p.stdin.Close()
	p.running = nil
	// What is left of a sidecar that was killed would be taken for one that listens.
	_ = os.Remove(p.socket())
}
