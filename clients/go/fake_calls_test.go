package leasehold

import (
	"context"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// validity is what the test wants to be answered to a question about it.
func (s *fakeSidecar) validity() (*leaseholdv1.Validity, error) {
	s.mutex.Lock()
	report := s.report
	s.mutex.Unlock()
	if report == nil {
		return nil, status.Error(codes.Unavailable, "not now")
	}
	return report()
}

func (s *fakeSidecar) GetHold(
	_ context.Context, request *leaseholdv1.GetHoldRequest,
) (*leaseholdv1.GetHoldResponse, error) {
	s.note("get hold of generation %d", request.GetGeneration())
	validity, err := s.validity()
	if err != nil {
		return nil, err
	}
	return &leaseholdv1.GetHoldResponse{
		Validity: validity, State: s.holdState, MaxHoldEnds: s.limit, BreakNote: s.breakNote,
		LockPath: "l", FencingToken: 65_536, Generation: request.GetGeneration(), Permit: 2,
	}, nil
}

func (s *fakeSidecar) GetServerInfo(
	context.Context, *leaseholdv1.GetServerInfoRequest,
) (*leaseholdv1.GetServerInfoResponse, error) {
	if s.info == nil {
		return nil, status.Error(codes.Unimplemented, "too old")
	}
	return s.info, nil
}

func (s *fakeSidecar) SaveCheckpoint(
	_ context.Context, request *leaseholdv1.SaveCheckpointRequest,
) (*leaseholdv1.SaveCheckpointResponse, error) {
	s.note("save %q of %s, generation %d", request.GetValue(), request.GetLeaseId(), request.GetGeneration())
	return s.save(request.GetValue())
}

// followCall is a WatchLocks call that the test answers.
type followCall struct {
	request *leaseholdv1.WatchLocksRequest
	answers chan any
	over    chan struct{}
}

func (c *followCall) changed(path, holder string) {
	record := &leaseholdv1.LockRecord{LockPath: path, Holder: holder}
	c.answers <- &leaseholdv1.WatchLocksResponse{Event: &leaseholdv1.WatchLocksResponse_Changed{Changed: record}}
}

func (c *followCall) gone(path string) {
	c.answers <- &leaseholdv1.WatchLocksResponse{Event: &leaseholdv1.WatchLocksResponse_Gone{Gone: path}}
}

func (c *followCall) listed(locks uint32) {
	listed := &leaseholdv1.Listed{Locks: locks}
	c.answers <- &leaseholdv1.WatchLocksResponse{Event: &leaseholdv1.WatchLocksResponse_Listed{Listed: listed}}
}

func (s *fakeSidecar) WatchLocks(
	request *leaseholdv1.WatchLocksRequest, stream grpc.ServerStreamingServer[leaseholdv1.WatchLocksResponse],
) error {
	call := &followCall{request: request, answers: make(chan any, 8), over: make(chan struct{})}
	defer close(call.over)
	s.follows <- call
	for {
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case answer := <-call.answers:
			event, isEvent := answer.(*leaseholdv1.WatchLocksResponse)
			if !isEvent {
				err, _ := answer.(error)
				return err
			}
			if err := stream.Send(event); err != nil {
				return err
			}
		}
	}
}

func (s *fakeSidecar) ListLocks(
	_ context.Context, request *leaseholdv1.ListLocksRequest,
) (*leaseholdv1.ListLocksResponse, error) {
	s.note("list %q %v %v %q", request.GetPageToken(), request.GetStates(), request.GetLabels(), request.GetShare())
	page := 0
	if token := request.GetPageToken(); token != "" {
		page = int(token[0] - '0')
	}
	answer := &leaseholdv1.ListLocksResponse{}
	for _, path := range s.pages[page] {
		answer.Records = append(answer.Records, &leaseholdv1.LockRecord{LockPath: path})
	}
	if page+1 < len(s.pages) {
		answer.NextPageToken = string(rune('1' + page))
	}
	return answer, nil
}

func (s *fakeSidecar) GetLock(
	_ context.Context, request *leaseholdv1.GetLockRequest,
) (*leaseholdv1.GetLockResponse, error) {
	if s.record == nil {
		return nil, status.Error(codes.Unimplemented, "no records")
	}
	s.note("get %s with checkpoint %v", request.GetLock().GetLockPath(), request.GetWithCheckpoint())
	return &leaseholdv1.GetLockResponse{Record: s.record}, nil
}

// connectTo makes the client of a sidecar that is not there yet.
func (b *bench) connectTo(more []Option) {
	t := b.T
	t.Helper()
	// Not t.TempDir: the path of a socket must be short.
	folder, err := os.MkdirTemp("", "leasehold")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	b.clock, b.socket = &manualClock{reading: at(1_000)}, filepath.Join(folder, "s")
	opts := append([]Option{WithEndpoint("unix://" + b.socket), withClock(b.clock)}, more...)
	b.client, err = Connect(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = b.client.Close()
		if b.sidecar != nil {
			b.sidecar.server.Stop()
		}
	})
}

// replace lets new connections meet another sidecar. Those that stand stay at the first one, which it gives.
func (b *bench) replace() *fakeSidecar {
	b.Helper()
	first := b.sidecar
	b.Cleanup(first.server.Stop)
	if err := os.Remove(b.socket); err != nil {
		b.Fatal(err)
	}
	b.start()
	return first
}

func grantAnything(*leaseholdv1.LeaseSpec) (*leaseholdv1.AcquireLeaseResponse, error) {
	return acquired(), nil
}
