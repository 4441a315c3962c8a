// Package loss shows how the loss of a lock is tested: LEASEHOLD_PROGRAM=… go test ./samples/loss
package loss

import (
	"context"
	"errors"
	"testing"

	leasehold "github.com/leasehold/leasehold/clients/go"
	"github.com/leasehold/leasehold/clients/go/leaseholdtest"
)

func TestTheReportStopsWhenTheLockIsLost(t *testing.T) {
	if _, err := leaseholdtest.FindProgram(); err != nil {
		t.Skip(err)
	}
	s := leaseholdtest.Start(t)
	key := leasehold.LockKey{Function: "nightly-report"}
	err := s.Client().WithHold(t.Context(), leasehold.LeaseSpec{Key: key}, func(ctx context.Context, hold *leasehold.Hold) error {
		s.Lose(key)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	var lost *leasehold.LostError
	if !errors.As(err, &lost) {
		t.Fatal("not lost:", err)
	}
}
