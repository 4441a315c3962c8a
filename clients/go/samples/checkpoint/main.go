// Checkpoint counts: it goes on from the number that the last holder saved, adds one each second, and saves it. When the
// lock is broken or Ctrl-C is pressed, it saves the number with the release.
//
// Usage: go run ./samples/checkpoint [FUNCTION]
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"time"

	leasehold "github.com/leasehold/leasehold/clients/go"
)

func main() {
	key := leasehold.LockKey{Function: "checkpoint"}
	if len(os.Args) > 1 {
		key.Function = os.Args[1]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := count(ctx, key); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func count(ctx context.Context, key leasehold.LockKey) error {
	client, err := leasehold.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	spec := leasehold.LeaseSpec{Key: key, Wait: leasehold.Forever}
	return client.WithHold(ctx, spec, work)
}

func work(ctx context.Context, hold *leasehold.Hold) error {
	var done int
	if checkpoint := hold.Checkpoint(); checkpoint != nil {
		if err := checkpoint.JSON(&done); err != nil {
			return err
		}
	}
	fmt.Printf("going on from %d with token %d\n", done, hold.FencingToken())
	for {
		select {
		case <-hold.NoticeContext().Done():
			// Ended by a notice, by a loss, or by Ctrl-C.
			return finish(context.WithoutCancel(ctx), hold, done)
		case <-time.After(time.Second):
		}
		done++
		if _, err := hold.SaveJSON(ctx, done); err != nil && hold.NoticeContext().Err() == nil {
			return err
		}
		fmt.Printf("saved %d\n", done)
	}
}

// finish saves with the release, so that the next holder goes on from there.
func finish(ctx context.Context, hold *leasehold.Hold, done int) error {
	if notice := hold.Notice(); notice != nil {
		fmt.Printf("told to stop by %q: %s\n", notice.By, notice.Reason)
	}
	value, err := json.Marshal(done)
	if err != nil {
		return err
	}
	result, err := hold.Release(ctx, leasehold.WithCheckpoint(value))
	if err != nil {
		return err
	}
	fmt.Printf("saved %d as version %d\n", done, result.CheckpointVersion)
	return nil
}
