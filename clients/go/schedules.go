package leasehold

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// GetSchedule gives a schedule: its definition, and what is known of its runs.
//
// Errors: [*RefusedError], with [ReasonUnknownSchedule] if nobody ever subscribed to it and [ReasonUnsupported] if the
// sidecar knows no schedules; [*UnreachableError]; that of ctx.
func (c *Client) GetSchedule(ctx context.Context, lock LockSelector) (Schedule, error) {
	request := &leaseholdv1.GetScheduleRequest{Lock: lock.selector()}
	answer, err := callSchedules(ctx, c.pool, callTimeout, rpc.GetSchedule, request)
	if err != nil {
		return Schedule{}, err
	}
	if answer.GetSchedule() == nil {
		return Schedule{}, &ProtocolError{"it has no schedule"}
	}
	return *scheduleFrom(answer.GetSchedule()), nil
}

// ListSchedulesOptions says which schedules [Client.ListSchedules] lists. The zero value: all under the sidecar's host id.
type ListSchedulesOptions struct {
	// HostID lists those under this host id, in the sidecar's container and prefix.
	HostID string
	// Prefix lists those whose lock path begins with this text. HostID must be empty then.
	Prefix string
	// PageSize is how many schedules a call fetches at most: up to 200. Default: 100.
	PageSize uint32
}

// ListSchedules lists schedules in the order of their paths, page after page. An error is the last that it yields.
func (c *Client) ListSchedules(ctx context.Context, options ListSchedulesOptions) iter.Seq2[Schedule, error] {
	return func(yield func(Schedule, error) bool) {
		request := &leaseholdv1.ListSchedulesRequest{PageSize: options.PageSize}
		switch {
		case options.HostID != "" && options.Prefix != "":
			yield(Schedule{}, errors.New("schedules are listed by host id or by prefix, not by both"))
			return
		case options.HostID != "":
			request.Under = &leaseholdv1.ListSchedulesRequest_HostId{HostId: options.HostID}
		case options.Prefix != "":
			request.Under = &leaseholdv1.ListSchedulesRequest_Prefix{Prefix: options.Prefix}
		}
		for {
			page, err := callSchedules(ctx, c.pool, callTimeout, rpc.ListSchedules, request)
			if err != nil {
				yield(Schedule{}, err)
				return
			}
			for _, schedule := range page.GetSchedules() {
				if !yield(*scheduleFrom(schedule), nil) {
					return
				}
			}
			request.PageToken = page.GetNextPageToken()
			if request.PageToken == "" {
				return
			}
		}
	}
}

// PreviewSchedule checks a spec, and gives its next occurrences after a moment (the zero time: now): 1 to 100 of them,
// and 10 for a count of 0. It asks no store and changes nothing. With a key, it tells when they start.
//
// Errors: [*RefusedError], with [ReasonInvalidField] if the spec is not valid; [*UnreachableError]; that of ctx.
func (c *Client) PreviewSchedule(
	ctx context.Context, spec ScheduleSpec, after time.Time, count uint32,
) (SchedulePreview, error) {
	wire, err := spec.wire()
	if err != nil {
		return SchedulePreview{}, err
	}
	request := &leaseholdv1.PreviewScheduleRequest{Spec: wire, Count: count}
	if !after.IsZero() {
		request.After = timestamppb.New(after)
	}
	if spec.Key != (LockKey{}) {
		request.Key = spec.Key.wire()
	}
	request.Needs = needs(request)
	answer, err := callSchedules(ctx, c.pool, callTimeout, rpc.PreviewSchedule, request)
	if err != nil {
		return SchedulePreview{}, err
	}
	preview := SchedulePreview{Understood: understoodFrom(answer.GetUnderstood())}
	for _, occurrence := range answer.GetOccurrences() {
		preview.Occurrences = append(preview.Occurrences, Occurrence{
			moment(occurrence.GetAt()), occurrence.GetLocalTime(), moment(occurrence.GetStartsAt()),
		})
	}
	return preview, nil
}

// PauseSchedule pauses a schedule: a run that goes on may finish, and what falls due is skipped. May be repeated (T18).
// It gives the schedule as it is now; nil if the caller may not read it.
//
// Errors: as [Client.GetSchedule], and [ReasonScheduleChangesNotEnabled] unless the operator enabled it.
func (c *Client) PauseSchedule(ctx context.Context, lock LockSelector) (*Schedule, error) {
	request := &leaseholdv1.PauseScheduleRequest{Lock: lock.selector()}
	answer, err := callSchedules(ctx, c.pool, callTimeout, rpc.PauseSchedule, request)
	return scheduleFrom(answer.GetSchedule()), err
}

// ResumeSchedule ends a pause: the schedule goes on after the store's time. May be repeated.
//
// Errors: as [Client.PauseSchedule].
func (c *Client) ResumeSchedule(ctx context.Context, lock LockSelector) (*Schedule, error) {
	request := &leaseholdv1.ResumeScheduleRequest{Lock: lock.selector()}
	answer, err := callSchedules(ctx, c.pool, callTimeout, rpc.ResumeSchedule, request)
	return scheduleFrom(answer.GetSchedule()), err
}

// RemoveSchedule removes a schedule: its subscribers are told, and a new subscription begins it anew (T25). The reason is
// kept; force also where this sidecar has subscribers.
//
// Errors: as [Client.PauseSchedule], and [ReasonScheduleHasSubscribers].
func (c *Client) RemoveSchedule(ctx context.Context, lock LockSelector, reason string, force bool) (*Schedule, error) {
	request := &leaseholdv1.RemoveScheduleRequest{Lock: lock.selector(), Reason: reason, Force: force}
	answer, err := callSchedules(ctx, c.pool, callTimeout, rpc.RemoveSchedule, request)
	return scheduleFrom(answer.GetSchedule()), err
}

// ScheduleReset is where a schedule begins anew.
type ScheduleReset struct {
	// Reason is why, and is kept. Needed.
	Reason string
	// Watermark is after which instant it begins. Default: the store's time.
	Watermark time.Time
	// Revision, if it is not nil, is what its definition has from then on.
	Revision *uint64
}

// ResetSchedule lets a schedule begin anew (T25).
//
// Errors: as [Client.PauseSchedule].
func (c *Client) ResetSchedule(ctx context.Context, lock LockSelector, reset ScheduleReset) (*Schedule, error) {
	request := &leaseholdv1.ResetScheduleRequest{
		Lock: lock.selector(), Reason: reset.Reason, Revision: reset.Revision,
	}
	if !reset.Watermark.IsZero() {
		request.Watermark = timestamppb.New(reset.Watermark)
	}
	answer, err := callSchedules(ctx, c.pool, callTimeout, rpc.ResetSchedule, request)
	return scheduleFrom(answer.GetSchedule()), err
}

// TriggerSchedule asks for a run by hand. The request id is the caller's, 1 to 64 of A-Z a-z 0-9 . _ -: a repeated call
// with the same one is one run.
//
// Errors: as [Client.PauseSchedule], and [ReasonTooManyTriggers] when 8 wait already.
func (c *Client) TriggerSchedule(ctx context.Context, lock LockSelector, requestID string) (*Schedule, error) {
	request := &leaseholdv1.TriggerScheduleRequest{Lock: lock.selector(), RequestId: requestID}
	answer, err := callSchedules(ctx, c.pool, callTimeout, rpc.TriggerSchedule, request)
	return scheduleFrom(answer.GetSchedule()), err
}

// Completion is how a run ended, and why.
type Completion struct {
	// Outcome is how it ended: SUCCEEDED, FAILED, FAILED_FINAL or RETURNED. Needed.
	Outcome RunOutcome
	// Detail is why, for the sidecar's log. What is longer than 512 bytes is cut. Not for secrets.
	Detail string
	// Checkpoint is saved in the same write, if it is not nil: at most 2,048 bytes. Only while the run's hold goes on.
	Checkpoint []byte
}

// CompletedRun is the answer to the completion of a run.
type CompletedRun struct {
	// Result is what became of the outcome.
	Result CompletionResult
	// RetryAt is when the occurrence is tried again; zero if it is not.
	RetryAt time.Time
	// NextAt is the occurrence that is waited for now; zero if there is none.
	NextAt time.Time
	// CheckpointOutcome is what became of the checkpoint; [CheckpointOutcomeNone] if there was none.
	CheckpointOutcome CheckpointOutcome
	// CheckpointVersion is the version of the checkpoint; with SAVED only.
	CheckpointVersion uint64
}

// CompleteRun says how a run ended, by its id alone: for a process that wrote down the id of a run and was restarted. Else
// [Run.Complete] is for that. May be repeated, at any sidecar (T8).
//
// Errors: [*RefusedError], [*UnreachableError]; that of ctx.
func (c *Client) CompleteRun(ctx context.Context, runID string, completion Completion) (CompletedRun, error) {
	request, err := completion.wire(runID)
	if err != nil {
		return CompletedRun{}, err
	}
	return c.completeRun(ctx, c.named(""), request)
}

// completeRun completes the run of a hold.
func (c *Client) completeRun(
	ctx context.Context, of holdID, request *leaseholdv1.CompleteRunRequest,
) (CompletedRun, error) {
	request.LeaseId, request.Generation = of.leaseID, of.generation
	answer, err := callAbout(ctx, of, completionTimeout, rpc.CompleteRun, request)
	if err != nil {
		return CompletedRun{}, knowing("schedules", err)
	}
	return CompletedRun{
		Result:  completionResultFrom(answer.GetResult()),
		RetryAt: moment(answer.GetRetryAt()), NextAt: moment(answer.GetNextAt()),
		CheckpointOutcome: checkpointOutcomeFrom(answer.GetCheckpointOutcome()),
		CheckpointVersion: answer.GetCheckpointVersion(),
	}, nil
}

func (c Completion) wire(runID string) (*leaseholdv1.CompleteRunRequest, error) {
	if err := checkSize(c.Checkpoint, "checkpoint"); err != nil {
		return nil, err
	}
	outcome := leaseholdv1.RunOutcome_value["RUN_OUTCOME_"+string(c.Outcome)]
	return &leaseholdv1.CompleteRunRequest{
		RunId: runID, Outcome: leaseholdv1.RunOutcome(outcome), Detail: cut(c.Detail), Checkpoint: c.Checkpoint,
	}, nil
}

// cut makes a detail that can be sent: not more than the sidecar takes, and whole characters.
func cut(detail string) string {
	detail = strings.ToValidUTF8(detail, "\uFFFD")
	if len(detail) <= detailBytes {
		return detail
	}
	end := detailBytes
	for !utf8.RuneStart(detail[end]) {
		end--
	}
	return detail[:end]
}

// callSchedules is call, which says it plainly where the sidecar is older than schedules.
func callSchedules[Q, A any](
	ctx context.Context, p *pool, patience time.Duration,
	method func(rpc, context.Context, *Q, ...grpc.CallOption) (*A, error), request *Q,
) (*A, error) {
	answer, err := call(ctx, p, patience, method, request)
	return answer, knowing("schedules", err)
}
