package leasehold

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

func TestAWaiterThatHearsNothingAsksAgainElsewhereForWhatIsLeftOfItsWait(t *testing.T) {
	staged(t, func(s *stage) {
		asked := s.asks(s.Context(), LeaseSpec{Wait: time.Hour})
		for _, position := range []uint32{2, 2, 1} {
			s.says("waiting", said{Position: position})
		}
		// A repeated word is told once.
		s.wantTold("waiting 2", "waiting 1")
		s.pass(90_050)
		s.wantSent("hold wait 3600000", "hold wait 3509950")
		if s.wantAlive(2); s.on(2).by == s.on(1).by {
			t.Error("it is asked for over the silent connection")
		}
		s.granted(asked)
	})
	// A try is an error at once, and so is a wait that is over when no sidecar is back.
	staged(t, func(s *stage) {
		asked := s.asks(s.Context(), LeaseSpec{})
		if refused := as[*RefusedError](t, (<-asked).err); refused.Code != CodeUnavailable || s.clock() != 90_000 {
			t.Error(refused, s.clock())
		}
		asked = s.asks(s.Context(), LeaseSpec{Wait: 500 * time.Millisecond})
		s.says("waiting", said{Position: 1})
		s.kill()
		if as[*UnreachableError](t, (<-asked).err); s.clock() != 90_500 {
			t.Error(s.clock())
		}
	})
}

// watches watches a lock; told are the paths, and the error that ended it.
func (s *stage) watches(ctx context.Context) (told *[]string, over <-chan outcome[any]) {
	told = &[]string{}
	return told, later(func() (any, error) {
		for record, err := range s.client.WatchLock(ctx, LockPath("l")) {
			if err != nil {
				return nil, err
			}
			*told = append(*told, record.LockPath)
		}
		return nil, nil
	})
}

func (s *stage) records(paths ...string) {
	for _, path := range paths {
		s.on(0).said <- &leaseholdv1.WatchLockResponse{Record: &leaseholdv1.LockRecord{LockPath: path}}
	}
	synctest.Wait()
}

func TestAWatchTellsNoRecordTwiceAndGoesOnWhereNothingIsHeardOrItsSidecarRestarts(t *testing.T) {
	staged(t, func(s *stage) {
		ctx, cancel := context.WithCancel(s.Context())
		told, over := s.watches(ctx)
		s.records("a", "a", "b")
		s.pass(90_050)
		s.wantAlive(2)
		s.records("b", "c")
		s.kill()
		s.start()
		s.pass(100_000)
		s.records("d")
		if !slices.Equal(*told, []string{"a", "b", "c", "d"}) {
			t.Error(*told)
		}
		cancel()
		if err := (<-over).err; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		_, over = s.watches(s.Context())
		s.records("a")
		s.kill()
		as[*UnreachableError](t, (<-over).err)
		if s.clock() < 190_000 {
			t.Error("it tries on for 90 s:", s.clock())
		}
	})
}

// What a watch of many tells after a break is a row of tests/clients.
func TestAWatchOfManySendsWhatItIsOf(t *testing.T) {
	staged(t, func(s *stage) {
		for _, wanted := range []*leaseholdv1.WatchLocksRequest{
			{Under: &leaseholdv1.WatchLocksRequest_Prefix{Prefix: "p"}, Labels: map[string]string{"team": "a"}, Share: "s"},
			{Under: &leaseholdv1.WatchLocksRequest_HostId{HostId: "h"}},
		} {
			ctx, cancel := context.WithCancel(s.Context())
			options := WatchOptions{HostID: wanted.GetHostId(), Prefix: wanted.GetPrefix(), Labels: wanted.GetLabels(), Share: wanted.GetShare()}
			over := later(func() (any, error) { return nil, lastOf(s.client.WatchLocks(ctx, options)) })
			if sent := request[*leaseholdv1.WatchLocksRequest](s); !proto.Equal(sent, wanted) {
				t.Error(sent)
			}
			cancel()
			if err := (<-over).err; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			s.wantAlive()
		}
	})
}
