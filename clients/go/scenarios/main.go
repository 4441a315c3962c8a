// Driver is what the scenarios drive that all clients share: JSON lines on stdin are commands, JSON lines on stdout
// are events. It uses the public interface of the client, and the generated stub to compare it with.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	leasehold "github.com/leasehold/leasehold/clients/go"
)

// command is a line of stdin. Durations are in milliseconds; an absent one is unset.
type command struct {
	ID              string            `json:"id"`
	Do              string            `json:"do"`
	Function        string            `json:"function"`
	Scope           string            `json:"scope"`
	Wait            *int64            `json:"wait_ms"`
	Lease           *int64            `json:"lease_ms"`
	MaxHold         *int64            `json:"max_hold_ms"`
	MinHold         *int64            `json:"min_hold_ms"`
	ProgressTimeout *int64            `json:"progress_timeout_ms"`
	Labels          map[string]string `json:"labels"`
	LeaseID         string            `json:"lease_id"`
	Token           uint64            `json:"token"`
	Reason          string            `json:"reason"`
	Now             bool              `json:"now"`
	Times           int               `json:"times"`
	File            string            `json:"file"`
	Permits         uint32            `json:"permits"`
	Priority        uint32            `json:"priority"`
	Yields          bool              `json:"yields"`
	Share           string            `json:"share"`
	Rebalance       bool              `json:"rebalance"`
	WaitForever     bool              `json:"wait_forever"`
	Value           string            `json:"value"`
	Checkpoint      *string           `json:"checkpoint"`
	Prefix          string            `json:"prefix"`
	Every           *int64            `json:"every_ms"`
	Backoff         *int64            `json:"backoff_ms"`
	RunTimeout      *int64            `json:"run_timeout_ms"`
	// At is an occurrence in seconds since 1970, and Outcome how it, or a run, ended.
	At      int64  `json:"at"`
	Outcome string `json:"outcome"`
	// Form is whether a hold is released by a call ("call") or by leaving the block.
	Form string `json:"form"`
}

// fields are those of an event.
type fields map[string]any

// driver runs commands, each on a goroutine of its own.
type driver struct {
	output  sync.Mutex
	encoder *json.Encoder

	mutex   sync.Mutex
	client  *leasehold.Client
	running map[string]*running
	// ended is closed when the program is to end, though stdin is open.
	ended chan struct{}
	// left are iterators that were left open.
	left []func()
}

// running is a command that others may speak to.
type running struct {
	cancel context.CancelFunc
	// told carries release and fail to the block.
	told chan command

	mutex       sync.Mutex
	hold        *leasehold.Hold
	interrupted bool
}

func main() {
	driver := &driver{
		encoder: json.NewEncoder(os.Stdout), running: map[string]*running{}, ended: make(chan struct{}),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		driver.read()
	}()
	select {
	case <-done:
	case <-driver.ended:
	}
}

// read takes commands until stdin ends.
func (d *driver) read() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var command command
		if err := json.Unmarshal(lines.Bytes(), &command); err != nil {
			fmt.Fprintln(os.Stderr, "driver: not a command:", err)
			os.Exit(2)
		}
		d.start(command)
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		os.Exit(1)
	}
}

func (d *driver) emit(id, event string, more fields) {
	line := fields{"id": id, "event": event}
	for name, value := range more {
		line[name] = value
	}
	d.output.Lock()
	defer d.output.Unlock()
	if err := d.encoder.Encode(line); err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		os.Exit(1)
	}
}

// start runs a command. What is said to a running one is said before the next line is read.
func (d *driver) start(c command) {
	switch c.Do {
	case "release", "fail", "cancel", "interrupt", "progress", "validity", "save", "info", "stop_leading", "complete":
		if err := d.tell(c); err != nil {
			d.fail(c.ID, err)
		}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	one := &running{cancel: cancel, told: make(chan command, 1)}
	d.mutex.Lock()
	d.running[c.ID] = one
	d.mutex.Unlock()
	go func() {
		defer cancel()
		client, err := d.connect(ctx)
		if err == nil {
			err = d.run(ctx, client, c, one)
		}
		if err != nil {
			d.fail(c.ID, err)
		}
	}()
}

// connect gives the one client of all commands.
func (d *driver) connect(ctx context.Context) (*leasehold.Client, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.client == nil {
		client, err := leasehold.Connect(ctx, options()...)
		if err != nil {
			return nil, err
		}
		d.client = client
	}
	return d.client, nil
}

// options are those that the environment asks for.
func options() []leasehold.Option {
	var options []leasehold.Option
	for variable, option := range map[string]func(time.Duration) leasehold.Option{
		"LEASEHOLD_DRIVER_KEEP_ALIVE_MS":      leasehold.WithKeepAlive,
		"LEASEHOLD_DRIVER_RELEASE_TIMEOUT_MS": leasehold.WithReleaseTimeout,
	} {
		if milliseconds, err := strconv.ParseInt(os.Getenv(variable), 10, 64); err == nil {
			options = append(options, option(duration(&milliseconds)))
		}
	}
	return options
}

// tell passes a command on to the one that has its id.
func (d *driver) tell(c command) error {
	d.mutex.Lock()
	one := d.running[c.ID]
	d.mutex.Unlock()
	if one == nil {
		return fmt.Errorf("no command has the id %q", c.ID)
	}
	if c.Do == "cancel" || c.Do == "interrupt" || c.Do == "stop_leading" {
		one.mutex.Lock()
		one.interrupted = c.Do == "interrupt"
		one.mutex.Unlock()
		one.cancel()
		return nil
	}
	if c.Do == "complete" {
		one.told <- c
		return nil
	}
	one.mutex.Lock()
	hold := one.hold
	one.mutex.Unlock()
	if hold == nil {
		return fmt.Errorf("%q holds nothing", c.ID)
	}
	switch c.Do {
	case "validity":
		d.emit(c.ID, "validity", fields{"valid": hold.Valid(), "remaining_ms": hold.Remaining().Milliseconds()})
	case "progress", "info":
		go func() {
			if err := d.askOf(hold, c); err != nil {
				d.fail(c.ID, err)
			}
		}()
	case "save":
		go d.save(hold, c)
	default:
		select {
		case one.told <- c:
		default:
		}
	}
	return nil
}

// askOf runs a command about a hold.
func (d *driver) askOf(hold *leasehold.Hold, c command) error {
	if c.Do == "info" {
		info, err := hold.Info(context.Background())
		if err != nil {
			return err
		}
		d.emit(c.ID, "info", fields{"state": info.State, "token": info.FencingToken})
		return nil
	}
	if err := hold.ReportProgress(context.Background()); err != nil {
		return err
	}
	d.emit(c.ID, "progressed", nil)
	return nil
}

// save saves a checkpoint, and tells how that went.
func (d *driver) save(hold *leasehold.Hold, c command) {
	version, err := hold.Save(context.Background(), []byte(c.Value))
	var lost *leasehold.LostError
	var unknown *leasehold.CheckpointUnknownError
	var refused *leasehold.RefusedError
	switch {
	case err == nil:
		d.emit(c.ID, "saved", fields{"version": version})
	case errors.As(err, &lost), errors.Is(err, leasehold.ErrReleased):
		d.emit(c.ID, "save_failed", fields{"reason": leasehold.ReasonHoldLost, "message": err.Error()})
	case errors.As(err, &unknown):
		d.emit(c.ID, "save_failed", fields{"reason": leasehold.ReasonCheckpointUnknown, "message": err.Error()})
	case errors.As(err, &refused):
		d.emit(c.ID, "save_failed", fields{"reason": refused.Reason, "message": err.Error()})
	default:
		d.emit(c.ID, "save_failed", fields{"reason": "", "message": err.Error()})
	}
}

func (c command) key() leasehold.LockKey {
	return leasehold.LockKey{Function: c.Function, Scope: c.Scope}
}

func (c command) spec() leasehold.LeaseSpec {
	spec := leasehold.LeaseSpec{
		Key:             c.key(),
		LeaseDuration:   duration(c.Lease),
		Wait:            duration(c.Wait),
		MaxHold:         duration(c.MaxHold),
		MinHold:         duration(c.MinHold),
		ProgressTimeout: duration(c.ProgressTimeout),
		Labels:          c.Labels,
		Permits:         c.Permits,
		Priority:        c.Priority,
		Yields:          c.Yields,
		Share:           c.Share,
		Rebalance:       c.Rebalance,
	}
	if c.WaitForever || (c.Wait != nil && *c.Wait == -1) {
		spec.Wait = leasehold.Forever
	}
	return spec
}

func duration(milliseconds *int64) time.Duration {
	if milliseconds == nil {
		return 0
	}
	return time.Duration(*milliseconds) * time.Millisecond
}
