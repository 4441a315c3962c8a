package leasehold

import (
	"context"
	"slices"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

func (stories) AWaiterThatHearsNothingAsksAgainElsewhereForWhatIsLeftOfItsWait(s *stage) {
	asked := s.asks(s.Context(), LeaseSpec{Wait: time.Hour})
	for _, position := range []uint32{2, 2, 1} {
		s.says("waiting", said{Position: position})
	}
	// A repeated word is told once.
	s.wantTold("waiting 2", "waiting 1")
	s.pass(90_050)
	s.wantSent("hold wait 3600000", "hold wait 3509950")
	s.wantAlive(2)
	want(s, s.on(2).by != s.on(1).by, "it is asked for over the silent connection")
	s.granted(asked)
}

func (stories) ATryThatHearsNothingIsAnErrorAndSoIsAWaitThatIsOverWhenNoSidecarIsBack(s *stage) {
	asked := s.asks(s.Context(), LeaseSpec{})
	refused := as[*RefusedError](s, (<-asked).err)
	want(s, refused.Code == CodeUnavailable && s.clock() == 90_000, refused, s.clock())
	asked = s.asks(s.Context(), LeaseSpec{Wait: 500 * time.Millisecond})
	s.says("waiting", said{Position: 1})
	s.kill()
	as[*UnreachableError](s, (<-asked).err)
	want(s, s.clock() == 90_500, s.clock())
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

func (stories) AWatchTellsNoRecordTwiceAndGoesOnWhereNothingIsHeardOrItsSidecarRestarts(s *stage) {
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
	want(s, slices.Equal(*told, []string{"a", "b", "c", "d"}), *told)
	cancel()
	wantIs(s, (<-over).err, context.Canceled)
	_, over = s.watches(s.Context())
	s.records("a")
	s.kill()
	as[*UnreachableError](s, (<-over).err)
	want(s, s.clock() >= 190_000, "it tries on for 90 s:", s.clock())
}

// What a watch of many tells after a break is a row of tests/clients.
func (stories) AWatchOfManySendsWhatItIsOf(s *stage) {
	for _, wanted := range []*leaseholdv1.WatchLocksRequest{
		{Under: &leaseholdv1.WatchLocksRequest_Prefix{Prefix: "p"}, Labels: map[string]string{"team": "a"}, Share: "s"},
		{Under: &leaseholdv1.WatchLocksRequest_HostId{HostId: "h"}},
	} {
		ctx, cancel := context.WithCancel(s.Context())
		options := WatchOptions{HostID: wanted.GetHostId(), Prefix: wanted.GetPrefix(), Labels: wanted.GetLabels(), Share: wanted.GetShare()}
		over := later(func() (any, error) { return nil, lastOf(s.client.WatchLocks(ctx, options)) })
		sent := request[*leaseholdv1.WatchLocksRequest](s)
		want(s, proto.Equal(sent, wanted), sent)
		cancel()
		wantIs(s, (<-over).err, context.Canceled)
		s.wantAlive()
	}
}
