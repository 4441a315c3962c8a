package leasehold

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

var errGone = status.Error(codes.Unavailable, "gone")

func TestS16AHoldSurvivesARestartOfTheSidecar(t *testing.T) {
	b := newBench(t)
	hold, _, events := b.heldHere()
	b.kill()
	want[Interrupted](t, events)
	if !hold.Valid() {
		t.Error("the hold is still valid")
	}
	b.start()
	call := b.call()
	resume := call.request.GetResume()
	if resume.GetResumeToken() != "resume-1" ||
		!proto.Equal(resume.GetToldValidUntil(), validity(ours, 1_058, 58).GetValidUntil()) {
		t.Error(resume)
	}
	b.clock.advance(10)
	call.tell(granted(validity(ours, 1_068, 58)))
	if event := want[Resumed](t, events); event.ValidUntil != at(1_068) || hold.Remaining() != 58*time.Second {
		t.Error(event)
	}
	call.tell(renewed(validity(ours, 1_069, 59)))
	want[Renewed](t, events)
	if _, err := hold.Release(t.Context()); err != nil {
		t.Error(err)
	}
	receive(t, "the end of the stream", call.over)
}

func resumedAs(generation uint64) *leaseholdv1.HoldLeaseResponse {
	answer := granted(validity(ours, 1_058, 58))
	answer.GetGranted().Generation = generation
	return answer
}

func TestS14TheKernelGoesWithEachCall(t *testing.T) {
	b := newBench(t)
	b.sidecar.acquire = func(*leaseholdv1.LeaseSpec) (*leaseholdv1.AcquireLeaseResponse, error) { return nil, errGone }
	_, _ = b.client.Acquire(t.Context(), LeaseSpec{Key: LockKey{Function: "f"}})
	if calls := strings.Join(b.sidecar.calls(), "; "); calls != "acquire [] ["+ours+"]" {
		t.Error(calls)
	}
}
