package leasehold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// reasonDomain is the domain of the reasons in google.rpc.ErrorInfo.
const reasonDomain = "leasehold.dev"

// ErrClosed says that the client was closed.
var ErrClosed = errors.New("the client was closed")

// ErrReleased is the cause of the end of a hold's context when its holder has released it.
var ErrReleased = errors.New("the lock was released")

// errResumeUnanswered says that a lock was not released, because the connection had broken and no sidecar has answered yet
// whether the hold goes on there. The lock is available when its lease runs out (S16).
var errResumeUnanswered = errors.New("the lock was not released: the hold was being resumed, and no sidecar has answered " +
	"yet; the lock is available when its lease runs out")

// BusyError says that the lock was not acquired within the wait asked for, because somebody else holds it or it rests.
type BusyError struct {
	// Busy is who holds it and when to ask again.
	Busy Busy
}

// Error says why in the words that all of Leasehold's clients use.
func (e *BusyError) Error() string {
	text := "the lock is busy: "
	if path := e.Busy.Record.LockPath; path != "" {
		text = fmt.Sprintf("the lock %s is busy: ", path)
	}
	text += e.Busy.why()
	if status := e.Busy.PriorityStatus; status != PriorityStatusNone {
		text += fmt.Sprintf(" (priority: %s)", strings.ToLower(strings.ReplaceAll(string(status), "_", " ")))
	}
	return text
}

func (b Busy) why() string {
	switch {
	case b.Reason == BusyReasonBreaking:
		return "it was broken, and its lease has not expired yet"
	case b.Reason == BusyReasonResting:
		return "it rests, as its last holder asked (min_hold)"
	case b.HeldPermits > 1:
		return fmt.Sprintf("%d permits of it are held", b.HeldPermits)
	case b.Record.Holder == "":
		return "held by somebody else"
	case b.Record.HolderIsLastRecorded:
		return fmt.Sprintf("held, last recorded holder %q", b.Record.Holder)
	default:
		return fmt.Sprintf("held by %q", b.Record.Holder)
	}
}

// LostError says that a hold is over, though its holder did not end it. It is the cause of the end of the hold's
// context: context.Cause gives it.
type LostError struct {
	// Reason is why; [LossReasonUnspecified] if the sidecar did not say.
	Reason LossReason
	// Detail is the same for people.
	Detail string
	// BreakNote says who broke the lock and why, where it was broken and that is known; else nil.
	BreakNote *BreakNote
}

func (e *LostError) Error() string {
	text := "the lock was lost: " + string(e.Reason)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

func lossFrom(lost *leaseholdv1.Lost) *LostError {
	return &LostError{
		Reason: lossReasonFrom(lost.GetReason()), Detail: lost.GetDetail(), BreakNote: noteFrom(lost.GetBreakNote()),
	}
}

// alreadyLost is the loss that a release tells of, if it does: the lease was another's, or gone, before (S13).
func alreadyLost(result *leaseholdv1.ReleaseResult) *LostError {
	if result.GetOutcome() != leaseholdv1.ReleaseOutcome_RELEASE_OUTCOME_ALREADY_LOST {
		return nil
	}
	return &LostError{Reason: lossReasonFrom(result.GetLossReason()), Detail: "found when it was released"}
}

// ReleaseUnconfirmedError says that the release of the lock was not confirmed. What was done under the lock was done while it was
// held. The lock becomes available when its lease expires, if not before.
type ReleaseUnconfirmedError struct {
	// LockPath is the path of the lock.
	LockPath string
	// Err is why.
	Err error
}

func (e *ReleaseUnconfirmedError) Error() string {
	return fmt.Sprintf("the release of the lock %s was not confirmed, and it becomes available when its lease expires, "+
		"if not before: %v", e.LockPath, e.Err)
}

// Unwrap gives the cause.
func (e *ReleaseUnconfirmedError) Unwrap() error { return e.Err }

// EndpointError says that the endpoint, or an option that goes with it, is invalid. Not worth repeating.
type EndpointError struct {
	// Endpoint is what was given.
	Endpoint string
	// Problem is what is wrong with it, and what would be right.
	Problem string
}

func (e *EndpointError) Error() string {
	return fmt.Sprintf("the endpoint %q cannot be used: %s", e.Endpoint, e.Problem)
}

// UnreachableError says that no sidecar answers at the endpoint, or that it refuses this client's certificate.
type UnreachableError struct {
	// Endpoint is where the sidecar was looked for.
	Endpoint string
	// Err is what happened.
	Err error
}

func (e *UnreachableError) Error() string {
	if strings.Contains(e.Err.Error(), wantsCertificate) {
		return fmt.Sprintf("the sidecar at %s refuses the connection: give a certificate with WithClientCertificate: %v",
			e.Endpoint, e.Err)
	}
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

func (e *ProtocolError) Error() string { return "the sidecar's answer is invalid: " + e.Problem }

// RefusedError is an error that came by gRPC. Decide by Code and Reason, never by the text.
type RefusedError struct {
	// Code is the gRPC code.
	Code Code
	// Reason is why; empty if the error did not come from a sidecar, as when a connection breaks.
	Reason Reason
	// Message is what to show to people.
	Message string
	// Violations are the fields that were wrong, with ReasonInvalidField (S19).
	Violations []FieldViolation
	// RetryAfter is when to try again, counted from now; zero if that was not said.
	RetryAfter time.Duration
	// LossReason is why the hold is lost; with ReasonHoldLost only, empty otherwise.
	LossReason LossReason

	// isBelowNeeds is whether the sidecar's revision is below what the request needs; then it has said both.
	isBelowNeeds bool
	err          error
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
		return string(e.Code)
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

// Unwrap gives the error as it came by gRPC, for status.Code and its like.
func (e *RefusedError) Unwrap() error { return e.err }

// isNoAnswer is whether no sidecar said this: the connection broke, or the answer did not come in time.
func (e *RefusedError) isNoAnswer() bool {
	switch e.Code {
	case CodeUnavailable, CodeDeadlineExceeded, CodeCancelled, CodeInternal:
		return e.Reason == ""
	}
	return false
}

// refusal reads an error of gRPC.
func refusal(err error) *RefusedError {
	st := status.Convert(err)
	refused := &RefusedError{Code: codeFrom(st.Code()), Message: st.Message(), err: err}
	for _, detail := range st.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.GetDomain() == reasonDomain {
				refused.Reason = Reason(detail.GetReason())
				_, refused.isBelowNeeds = detail.GetMetadata()["needs"]
				if refused.Reason == ReasonHoldLost {
					refused.LossReason = lossReasonNamed(detail.GetMetadata()["loss_reason"])
				}
			}
		case *errdetails.BadRequest:
			for _, violation := range detail.GetFieldViolations() {
				refused.Violations = append(refused.Violations,
					FieldViolation{violation.GetField(), violation.GetDescription()})
			}
		case *errdetails.RetryInfo:
			refused.RetryAfter = duration(detail.GetRetryDelay())
		}
	}
	return refused
}

// toldLost is the loss that an answer tells of, if it does. To be released by somebody else who knows the lease id is to
// lose the lock.
func toldLost(err error) *LostError {
	var refused *RefusedError
	if !errors.As(err, &refused) {
		return nil
	}
	switch refused.Reason {
	case ReasonHoldLost:
		return &LostError{Reason: refused.LossReason, Detail: refused.Message}
	case ReasonHoldReleased:
		return &LostError{Reason: LossReasonUnspecified, Detail: refused.Message}
	default:
		return nil
	}
}

// lossReasonNamed is the reason with a name of the API.
func lossReasonNamed(name string) LossReason {
	return lossReasonFrom(leaseholdv1.LossReason(leaseholdv1.LossReason_value["LOSS_REASON_"+name]))
}

// finalRefusal is the loss where an error says that no try to resume will ever work; anything else may pass (S16), also
// that this sidecar is too old (S37).
func finalRefusal(err error) *LostError {
	refused := refusal(err)
	switch refused.Code {
	case CodeInvalidArgument, CodeNotFound, CodeFailedPrecondition, CodeAborted, CodeDataLoss, CodeUnimplemented:
	default:
		return nil
	}
	if refused.Reason == ReasonStreamBehind || refused.isBelowNeeds {
		return nil
	}
	if loss := toldLost(refused); loss != nil {
		return loss
	}
	return &LostError{
		Reason: LossReasonUnspecified, Detail: "the sidecar will not resume it: " + refused.Error(),
	}
}

// gaveUp is the error of a call that its caller has cancelled.
func gaveUp(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return fmt.Errorf("the call to the sidecar was abandoned: %w: %w", ctx.Err(), cause)
	}
	return fmt.Errorf("the call to the sidecar was abandoned: %w", ctx.Err())
}

// reasonFrom gives the name of a reason; its number where this version does not know it, and empty where there is none.
func reasonFrom(wire leaseholdv1.ErrorReason) Reason {
	if _, known := leaseholdv1.ErrorReason_name[int32(wire)]; !known {
		return Reason(wire.String())
	}
	return nameOf(wire, "ERROR_REASON_", Reason(""))
}

// nameOf gives the name of an enum's value on the wire without the enum's prefix; otherwise where it is unspecified, or
// a number that this version does not know.
func nameOf[E ~string](wire fmt.Stringer, prefix string, otherwise E) E {
	name, known := strings.CutPrefix(wire.String(), prefix)
	if !known || name == "UNSPECIFIED" {
		return otherwise
	}
	return E(name)
}
