package leasehold

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// unsupported is an error if the sidecar did not understand a field that changes what the caller gets (S37).
func unsupported(spec *leaseholdv1.LeaseSpec, understood *leaseholdv1.Understood) error {
	var missed []string
	if spec.GetWaitWithoutEnd() && !understood.GetWaitWithoutEnd() {
		missed = append(missed, "wait_without_end")
	}
	if spec.GetPermits() > 1 && understood.GetPermits() != spec.GetPermits() {
		missed = append(missed, "permits")
	}
	if spec.GetPriority() != 0 && understood.GetPriority() != spec.GetPriority() {
		missed = append(missed, "priority")
	}
	if spec.GetYields() && !understood.GetYields() {
		missed = append(missed, "yields")
	}
	if spec.GetShare() != "" && understood.GetShare() != spec.GetShare() {
		missed = append(missed, "share")
	}
	if spec.GetRebalance() && !understood.GetRebalance() {
		missed = append(missed, "rebalance")
	}
	if spec.GetOccurrenceAt() != nil && !proto.Equal(spec.GetOccurrenceAt(), understood.GetOccurrenceAt()) {
		missed = append(missed, "occurrence_at")
	}
	if missed == nil {
		return nil
	}
	return unknownFields(missed...)
}

// unknownFields says that the sidecar does not know these fields of a request.
func unknownFields(fields ...string) error {
	return tooOld("the sidecar does not know " + strings.Join(fields, " and ") +
		", because it is older than this request: update the sidecar, or ask without that")
}

// unknownCalls says that the sidecar does not have these calls.
func unknownCalls(what string) error {
	return tooOld("the sidecar does not know " + what + ", because it is older than they are: update the sidecar")
}

// tooOld says that the sidecar does not know what was asked for.
func tooOld(message string) error {
	return &RefusedError{
		Code: CodeUnimplemented, Reason: ReasonUnsupported, Message: message,
		err: status.Error(codes.Unimplemented, message),
	}
}

// knowing says it plainly where an error is that of a sidecar without the call, which says only that (S37). One that has
// it, and may not use it, says why.
func knowing(what string, err error) error {
	var refused *RefusedError
	if errors.As(err, &refused) && refused.Code == CodeUnimplemented && refused.Reason == "" {
		return unknownCalls(what)
	}
	return err
}

// checkGrant releases what was granted by a sidecar that did not understand the request, and gives the error.
func (c *Client) checkGrant(ctx context.Context, spec *leaseholdv1.LeaseSpec, grant *leaseholdv1.Grant) error {
	err := unsupported(spec, grant.GetUnderstood())
	if err == nil {
		return nil
	}
	within, cancel := c.releaseContext(context.WithoutCancel(ctx))
	defer cancel()
	if _, failed := c.release(within, grant.GetLeaseId(), grant.GetGeneration(), releasing{}); failed != nil {
		return errors.Join(err, &ReleaseUnconfirmedError{grant.GetLockPath(), failed})
	}
	return err
}
