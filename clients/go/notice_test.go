package leasehold

import (
	"context"
	"errors"
	"strings"
	"testing"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

func revokedBy(validity *leaseholdv1.Validity, by string) *leaseholdv1.HoldLeaseResponse {
	note := &leaseholdv1.BreakNote{Reason: "deploy", BrokenBy: by}
	return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Revoked{
		Revoked: &leaseholdv1.Revoked{Validity: validity, BreakNote: note},
	}}
}

func TestS22ANoticeIsGentlerThanALoss(t *testing.T) {
	b := newBench(t)
	hold, call, events := b.heldHere()
	if hold.Notice() != nil || hold.NoticeContext().Err() != nil {
		t.Error("there is no notice yet")
	}
	call.tell(revokedBy(validity(ours, 1_058, 58), "me"))
	receive(t, "the notice", hold.Revoked())
	wanted := Notice{Deadline: at(1_058), Reason: "deploy", By: "me"}
	if event := want[Revoked](t, events); event.Notice != wanted || *hold.Notice() != wanted {
		t.Error(event, hold.Notice())
	}
	receive(t, "the end of the notice's context", hold.NoticeContext().Done())
	var revoked *RevokedError
	if err := context.Cause(hold.NoticeContext()); !errors.As(err, &revoked) || revoked.Notice != wanted ||
		!strings.Contains(err.Error(), `"me": deploy`) {
		t.Error(err)
	}
	if !hold.Valid() || hold.Context().Err() != nil || hold.Loss() != nil {
		t.Error("it is lost already")
	}
	b.clock.advance(58)
	loss := lossOf(t, hold)
	if loss.Reason != LossReasonBroken || loss.BreakNote.BrokenBy != "me" {
		t.Error(loss)
	}
	want[Lost](t, events)
}

func TestS22ALossWithoutNoticeEndsBothContextsAndGivesNone(t *testing.T) {
	b := newBench(t)
	hold, call, _ := b.heldHere()
	call.tell(lostFor(leaseholdv1.LossReason_LOSS_REASON_BROKEN))
	loss := lossOf(t, hold)
	receive(t, "the end of the notice's context", hold.NoticeContext().Done())
	if cause := context.Cause(hold.NoticeContext()); cause != error(loss) || hold.Notice() != nil {
		t.Error(cause, hold.Notice())
	}
	select {
	case <-hold.Revoked():
		t.Error("no notice was given")
	default:
	}
}
