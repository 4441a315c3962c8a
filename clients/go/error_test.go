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
