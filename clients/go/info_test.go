package leasehold

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// deadline is a moment on the clock of a kernel, and how far off it was when it was told.
func deadline(bootID string, moment, after int) *leaseholdv1.Deadline {
	return &leaseholdv1.Deadline{
		At:    &leaseholdv1.BootTime{BootId: bootID, SinceBoot: durationpb.New(time.Duration(at(moment)))},
		After: durationpb.New(time.Duration(at(after))),
	}
}

func TestGetHoldTellsWhatTheSidecarKnowsAndReportsNoProgress(t *testing.T) {
	b := newBench(t)
	b.answerReports(validity(ours, 1_058, 58), nil)
	b.sidecar.holdState = leaseholdv1.HoldState_HOLD_STATE_AT_RISK
	b.sidecar.limit = deadline(ours, 1_200, 200)
	b.sidecar.breakNote = &leaseholdv1.BreakNote{Reason: "r", Mode: leaseholdv1.BreakMode_BREAK_MODE_NOW}
	info, err := b.client.GetHold(t.Context(), "lease-1")
	if err != nil {
		t.Fatal(err)
	}
	limit := Deadline{BootID: ours, At: at(1_200), After: 200 * time.Second}
	if info.State != HoldStateAtRisk || info.FencingToken != 65_536 || info.LockPath != "l" || info.Permit != 2 ||
		info.Validity.ValidUntil != at(1_058) || *info.MaxHoldEnds != limit || info.ProgressDue != nil ||
		info.BreakNote.Mode != BreakModeNow {
		t.Errorf("%+v", info)
	}
	if calls := strings.Join(b.sidecar.calls(), "; "); calls != "get hold of generation 0" {
		t.Error(calls)
	}
}

func TestAHoldThatAnotherReleasedIsLost(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.heldHere()
	info := &errdetails.ErrorInfo{Domain: reasonDomain, Reason: "HOLD_RELEASED"}
	released, err := status.New(codes.FailedPrecondition, "it was released").WithDetails(info)
	if err != nil {
		t.Fatal(err)
	}
	b.answerReports(nil, released.Err())
	var refused *RefusedError
	if err := hold.ReportProgress(t.Context()); !errors.As(err, &refused) || refused.Reason != ReasonHoldReleased {
		t.Error(err)
	}
	if loss := lossOf(t, hold); loss.Reason != LossReasonUnspecified || loss.Detail != "it was released" {
		t.Error(loss)
	}
}

func TestAReasonThatIsUnknownIsKept(t *testing.T) {
	for wire, wanted := range map[leaseholdv1.ErrorReason]Reason{
		leaseholdv1.ErrorReason_ERROR_REASON_STORE_DENIED: ReasonStoreDenied,
		leaseholdv1.ErrorReason_ERROR_REASON_UNSPECIFIED:  "",
		999: "999",
	} {
		if reason := reasonFrom(wire); reason != wanted {
			t.Error(wire, reason)
		}
	}
}

func TestEveryReasonOfTheAPIHasAConstant(t *testing.T) {
	constants := []Reason{
		ReasonInvalidField, ReasonUnknownLease, ReasonUnknownLock, ReasonHoldLost, ReasonHoldReleased,
		ReasonBreakNotEnabled, ReasonOtherHolder, ReasonContainerMissing, ReasonAccessDenied, ReasonOverrideForbidden, ReasonStoreDenied,
		ReasonUserNotAllowed, ReasonUnauthenticated, ReasonStoreUnavailable, ReasonStoreThrottled, ReasonShuttingDown,
		ReasonStoreFailed, ReasonStoreFull, ReasonTokenNotGrowing, ReasonTokenUnreadable, ReasonTooManyHolds, ReasonTooManyWaiters,
		ReasonSuperseded, ReasonStreamBehind, ReasonUnsupported, ReasonCheckpointUnknown,
		ReasonUnknownSchedule, ReasonOccurrenceInFuture, ReasonScheduleChangesNotEnabled, ReasonTooManyTriggers,
		ReasonScheduleUnreadable, ReasonScheduleRemoved, ReasonScheduleHasSubscribers, ReasonLockHasSchedule, ReasonLimitReached,
	}
	for number := range leaseholdv1.ErrorReason_name {
		reason := reasonFrom(leaseholdv1.ErrorReason(number))
		if reason != "" && !slices.Contains(constants, reason) {
			t.Error(reason)
		}
	}
}

func TestAListingIsFilteredByStatesAndLabels(t *testing.T) {
	b := newBench(t)
	b.sidecar.pages = [][]string{{}}
	options := ListOptions{
		States: []LockState{LockStateHeld, LockStateBreaking}, Labels: map[string]string{"team": "a"},
	}
	for _, err := range b.client.ListLocks(t.Context(), options) {
		t.Error(err)
	}
	wanted := `list "" [LOCK_STATE_HELD LOCK_STATE_BREAKING] map[team:a] ""`
	if calls := strings.Join(b.sidecar.calls(), "; "); calls != wanted {
		t.Error(calls)
	}
	for _, err := range b.client.ListLocks(t.Context(), ListOptions{States: []LockState{"held"}}) {
		if err == nil || !strings.Contains(err.Error(), `"held" is not the state`) {
			t.Error(err)
		}
	}
}
