package leasehold

import (
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

func refused(t *testing.T, code codes.Code, message string, details ...protoadapt.MessageV1) *RefusedError {
	t.Helper()
	st, err := status.New(code, message).WithDetails(details...)
	if err != nil {
		t.Fatal(err)
	}
	return refusal(st.Err())
}

func TestS19FieldViolationsComeAsData(t *testing.T) {
	err := refused(t, codes.InvalidArgument, "one field is wrong",
		&errdetails.ErrorInfo{Domain: reasonDomain, Reason: "INVALID_FIELD"},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: "spec.wait", Description: "is 25 h; 0 to 24 h are allowed"},
		}})
	if err.Reason != ReasonInvalidField || err.Violations[0].Field != "spec.wait" {
		t.Error(err)
	}
	if text := err.Error(); text != "one field is wrong; spec.wait: is 25 h; 0 to 24 h are allowed" {
		t.Error(text)
	}
}

func TestARetryDelayComesAsData(t *testing.T) {
	err := refused(t, codes.Unavailable, "", &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	if err.RetryAfter != time.Second || err.Error() != "UNAVAILABLE" || status.Code(err) != codes.Unavailable {
		t.Error(err, err.RetryAfter)
	}
}

func TestAReasonOfAnotherDomainIsNone(t *testing.T) {
	err := refused(t, codes.FailedPrecondition, "no", &errdetails.ErrorInfo{Domain: "example.com", Reason: "HOLD_LOST"})
	if err.Reason != "" || toldLost(err) != nil {
		t.Error(err.Reason)
	}
}

func TestALossForAnUnknownReasonIsALoss(t *testing.T) {
	if loss := toldLost(refusal(holdLost(t, "NEW_ONE"))); loss == nil || loss.Detail != "it is over" {
		t.Error(loss)
	}
}

func TestBusyIsSaidInTheWordsOfAllClients(t *testing.T) {
	held := LockRecord{LockPath: "locks/f", Holder: "pod\n7"}
	recorded := LockRecord{LockPath: "locks/f", Holder: "pod", HolderIsLastRecorded: true}
	for want, busy := range map[string]Busy{
		`the lock locks/f is busy: held by "pod\n7"`:                      {Reason: BusyReasonHeld, Record: held},
		`the lock locks/f is busy: held, last recorded holder "pod"`:      {Reason: BusyReasonHeld, Record: recorded},
		`the lock locks/f is busy: 2 permits of it are held`:              {Reason: BusyReasonHeld, Record: held, HeldPermits: 2},
		"the lock is busy: held by somebody else":                         {Reason: BusyReasonHeld},
		"the lock is busy: it rests, as its last holder asked (min_hold)": {Reason: BusyReasonResting},
		"the lock is busy: it was broken, and its lease has not expired yet (priority: not greater)": {
			Reason: BusyReasonBreaking, PriorityStatus: "NOT_GREATER",
		},
	} {
		if said := (&BusyError{Busy: busy}).Error(); said != want {
			t.Errorf("%s, not %s", said, want)
		}
	}
}
