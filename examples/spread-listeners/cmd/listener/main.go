// Listener listens to queues, each in one replica of all, until SIGTERM.
//
// Usage: listener QUEUES
//
// EVENTS names a file that gets a line of JSON for each thing that happens; without it they are only printed.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	leasehold "github.com/leasehold/leasehold/clients/go"
	"golang.org/x/sys/unix"
)

const (
	share = "listeners"
	lease = 15 * time.Second
	// Where the next listener goes on is saved after so many messages, and at the end.
	saveEvery = 10
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := listenToAll(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func listenToAll(ctx context.Context) error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: listener QUEUES")
	}
	queues, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return fmt.Errorf("the number of queues: %w", err)
	}
	client, err := leasehold.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	var listeners sync.WaitGroup
	for queue := range queues {
		listeners.Go(func() {
			if err := listen(ctx, client, queue); err != nil && ctx.Err() == nil {
				fmt.Fprintf(os.Stderr, "queue %d: %v\n", queue, err)
			}
		})
	}
	say("ready", nil)
	listeners.Wait()
	return nil
}

// listen listens to a queue whenever this replica has it.
func listen(ctx context.Context, client *leasehold.Client, queue int) error {
	spec := leasehold.LeaseSpec{
		Key:           leasehold.LockKey{Function: "listener", Scope: fmt.Sprintf("queue-%d", queue)},
		LeaseDuration: lease,
		Share:         share,
		Yields:        true,
		Rebalance:     true,
	}
	return client.Lead(ctx, spec, func(ctx context.Context, term *leasehold.Hold) error {
		return handleMessages(ctx, term, queue)
	})
}

// handleMessages handles the queue's messages until the replica is to leave it to another, which goes on where this one
// stops.
func handleMessages(ctx context.Context, term *leasehold.Hold, queue int) error {
	done := 0
	if checkpoint := term.Checkpoint(); checkpoint != nil {
		if err := checkpoint.JSON(&done); err != nil {
			return err
		}
	}
	say("begins", map[string]any{"queue": queue, "done": done, "token": term.FencingToken()})
	for {
		select {
		case <-term.NoticeContext().Done():
			// By a notice, by a loss, or because the process is told to end.
			say("ends", map[string]any{"queue": queue, "done": done, "token": term.FencingToken()})
			_, err := term.Release(context.WithoutCancel(ctx), leasehold.WithCheckpoint([]byte(strconv.Itoa(done))))
			return err
		case <-time.After(200 * time.Millisecond): // a message
		}
		done++
		if done%saveEvery == 0 {
			if _, err := term.SaveJSON(ctx, done); err != nil && term.NoticeContext().Err() == nil {
				return err
			}
		}
	}
}

// say prints an event, and writes it to the file for events.
func say(what string, values map[string]any) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	event := map[string]any{"at": now.Nano(), "what": what, "replica": os.Getenv("REPLICA")}
	for name, value := range values {
		event[name] = value
	}
	line, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
	path := os.Getenv("EVENTS")
	if path == "" {
		return
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(err)
	}
	_ = file.Close()
}
