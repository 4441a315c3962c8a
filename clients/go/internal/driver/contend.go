package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/leasehold/leasehold/clients/go"
)

// contend adds one to the number in a file many times, under a lock, among others that do the same.
func (d *driver) contend(ctx context.Context, client *leasehold.Client, c command) error {
	tokens := make([]uint64, 0, c.Times)
	spec := leasehold.LeaseSpec{Key: leasehold.LockKey{Function: "contend"}, Wait: leasehold.Forever}
	for range c.Times {
		err := client.WithLock(ctx, spec, func(_ context.Context, hold *leasehold.Hold) error {
			tokens = append(tokens, hold.FencingToken())
			return increment(c.File, hold)
		})
		if err != nil {
			return err
		}
	}
	d.emit(c.ID, "done", fields{"tokens": tokens})
	return nil
}

func increment(file string, hold *leasehold.Hold) error {
	number, err := readNumber(file)
	if err != nil {
		return err
	}
	greatest, err := readNumber(file + ".token")
	if err != nil {
		return err
	}
	if hold.FencingToken() <= greatest {
		return fmt.Errorf("the token %d came after %d", hold.FencingToken(), greatest)
	}
	if !hold.Valid() {
		return errors.New("the lock was lost")
	}
	if err := writeNumber(file+".token", hold.FencingToken()); err != nil {
		return err
	}
	return writeNumber(file, number+1)
}

// readNumber reads the number in a file; zero if there is no file yet.
func readNumber(file string) (uint64, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if strings.TrimSpace(string(text)) == "" {
		return 0, nil
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
}

func writeNumber(file string, number uint64) error {
	return os.WriteFile(file, fmt.Appendf(nil, "%d\n", number), 0o666)
}
