package leasehold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// reasonDomain is the domain of the reasons in google.rpc.ErrorInfo.
const reasonDomain = "leasehold.dev"

// ErrReleased is the cause of the end of a hold's context when its holder has released it.
var ErrReleased = errors.New("the lock was released")

// ErrNotReleased says that a lock was not released, because the connection had broken and no sidecar has answered yet
// whether the hold goes on there. The lock is available when its lease runs out (S16).
var ErrNotReleased = errors.New("the lock was not released: the hold was being resumed, and no sidecar has answered " +
	"yet; the lock is available when its lease runs out")

// BusyError says that the lock was not to be had within the wait asked for, because somebody else has it or it rests.
type BusyError struct {
	// Busy is who has it and when to ask again, as the sidecar said it.
	Busy *leaseholdv1.Busy
}

func (e *BusyError) Error() string {
	record := e.Busy.GetRecord()
	text := "the lock is busy"
	if path := record.GetLockPath(); path != "" {
		text = fmt.Sprintf("the lock %s is busy", path)
	}
	if holder := record.GetHolder(); holder != "" {
		if record.GetHolderIsLastRecorded() {
			text += fmt.Sprintf(": last recorded holder %q", holder)
		} else {
			text += fmt.Sprintf(": held by %q", holder)
		}
	}
	if token := record.GetFencingToken(); token != 0 {
		text += fmt.Sprintf(", token %d", token)
	}
	return text
}

// LostError says that a hold is over, though its holder did not end it. It is the cause of the end of the hold's
// context: context.Cause gives it.
type LostError struct {
	// Reason is why. LOSS_REASON_UNSPECIFIED if the sidecar did not say.
	Reason leaseholdv1.LossReason
	// Detail is the same for people.
	Detail string
	// BreakNote says who broke the lock and why, where it was broken and that is known; else nil.
	BreakNote *leaseholdv1.BreakNote
}

func (e *LostError) Error() string {
	text := "the lock was lost: " + strings.TrimPrefix(e.Reason.String(), "LOSS_REASON_")
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

func lossFrom(lost *leaseholdv1.Lost) *LostError {
	return &LostError{Reason: lost.GetReason(), Detail: lost.GetDetail(), BreakNote: lost.GetBreakNote()}
}

// alreadyLost is the loss that a release tells of, if it does: the lease was another's, or gone, before (S13).
func alreadyLost(result *leaseholdv1.ReleaseResult) *LostError {
	if result.GetOutcome() != leaseholdv1.ReleaseOutcome_RELEASE_OUTCOME_ALREADY_LOST {
		return nil
	}
	return &LostError{Reason: result.GetLossReason(), Detail: "found when it was released"}
}

// ReleaseError says that it is not known whether the lock was given back. What was done under the lock was done under
// the lock. The stream was ended, so the sidecar gives the lock back when it learns of that, or the lease runs out.
type ReleaseError struct {
	// Err is why.
	Err error
}

func (e *ReleaseError) Error() string {
	return "whether the lock was given back is not known: " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *ReleaseError) Unwrap() error { return e.Err }

// EndpointError says that the endpoint, or what goes with it, makes no sense. Not worth repeating.
type EndpointError struct {
	// Endpoint is what was given.
	Endpoint string
	// Problem is what is wrong with it, and what would be right.
	Problem string
}

func (e *EndpointError) Error() string {
	return fmt.Sprintf("the endpoint %q cannot be used: %s", e.Endpoint, e.Problem)
}

// UnreachableError says that nobody answers at the endpoint.
type UnreachableError struct {
	// Endpoint is where the sidecar was looked for.
	Endpoint string
	// Err is what happened.
	Err error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no sidecar answers at %s; start one with `leasehold serve`, or say where it is with %s: %v",
		e.Endpoint, EndpointVariable, e.Err)
}

// Unwrap gives the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// ProtocolError says that the sidecar answered what no sidecar of this API may, so it is a newer or a broken one.
type ProtocolError struct {
	// Problem is what it answered.
	Problem string
}

func (e *ProtocolError) Error() string { return "the sidecar's answer makes no sense: " + e.Problem }

// RefusedError is an error that came by gRPC. Decide by Code and Reason, never by the text.
type RefusedError struct {
	// Code is the gRPC code.
	Code codes.Code
	// Reason is why; empty if the error did not come from a sidecar, as when a connection breaks.
	Reason Reason
	// Message is what to show to people.
	Message string
	// Violations are the fields that were wrong, with ReasonInvalidField (S19).
	Violations []FieldViolation
	// RetryAfter is when it makes sense to try again, counted from now; zero if that was not said.
	RetryAfter time.Duration
	// LossReason is why the hold is over, with ReasonHoldLost: EXPIRED and so on, or RELEASED.
	LossReason string

	status *status.Status
}

// FieldViolation is a field of a request that the sidecar refused.
type FieldViolation struct {
	// Field is its path, such as spec.key.function.
	Field string
	// Description is what is wrong with it, and the allowed range.
	Description string
}

func (e *RefusedError) Error() string {
	if e.Message == "" {
		return e.Code.String()
	}
	text := e.Message
	// The message names the first field at the most; the others must not stay unseen.
	for _, violation := range e.Violations {
		if !strings.Contains(e.Message, violation.Field) {
			text += fmt.Sprintf("; %s: %s", violation.Field, violation.Description)
		}
	}
	return text
}

// GRPCStatus gives the status as it came, for status.Code and its like.
func (e *RefusedError) GRPCStatus() *status.Status { return e.status }

// refusal reads an error of gRPC.
func refusal(err error) *RefusedError {
	st := status.Convert(err)
	refused := &RefusedError{Code: st.Code(), Message: st.Message(), status: st}
	for _, detail := range st.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.GetDomain() == reasonDomain {
				refused.Reason = Reason(detail.GetReason())
				refused.LossReason = detail.GetMetadata()["loss_reason"]
			}
		case *errdetails.BadRequest:
			for _, violation := range detail.GetFieldViolations() {
				refused.Violations = append(refused.Violations,
					FieldViolation{violation.GetField(), violation.GetDescription()})
			}
		case *errdetails.RetryInfo:
			refused.RetryAfter = span(detail.GetRetryDelay())
		}
	}
	return refused
}

// toldLost is the loss that an answer tells of, if it does.
func toldLost(err error) *LostError {
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Reason != ReasonHoldLost {
		return nil
	}
	number := leaseholdv1.LossReason_value["LOSS_REASON_"+refused.LossReason]
	return &LostError{Reason: leaseholdv1.LossReason(number), Detail: refused.Message}
}

// finalRefusal is the loss where an error says that no try to resume will ever work; anything else may pass (S16).
func finalRefusal(err error) *LostError {
	refused := refusal(err)
	switch refused.Code {
	case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.Aborted, codes.DataLoss,
		codes.Unimplemented:
	default:
		return nil
	}
	if refused.Reason == ReasonStreamBehind {
		return nil
	}
	if loss := toldLost(refused); loss != nil {
		return loss
	}
	return &LostError{Detail: "the sidecar will not resume it: " + refused.Error()}
}

// gaveUp is the error of a call that its caller has cancelled.
func gaveUp(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return fmt.Errorf("the call to the sidecar was given up: %w: %w", ctx.Err(), cause)
	}
	return fmt.Errorf("the call to the sidecar was given up: %w", ctx.Err())
}
