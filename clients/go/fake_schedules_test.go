package leasehold

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// subscribeCall is a SubscribeSchedule call that the test answers.
type subscribeCall struct {
	request *leaseholdv1.SubscribeScheduleRequest
	answers chan any
	over    chan struct{}
}

func (c *subscribeCall) fail(err error) { c.answers <- err }

func (c *subscribeCall) isOpen() bool {
	select {
	case <-c.over:
		return false
	default:
		return true
	}
}

// tell sends events.
func (c *subscribeCall) tell(events ...*leaseholdv1.SubscribeScheduleResponse) {
	for _, event := range events {
		c.answers <- event
	}
}

// fakeSchedules are a fake sidecar's calls about schedules.
type fakeSchedules struct {
	leaseholdv1.UnimplementedScheduleServiceServer
	sidecar       *fakeSidecar
	subscriptions chan *subscribeCall
	// completions are the answers to CompleteRun: an error or a result; RECORDED when there are no more.
	completions []any
	// completing is called before a completion is answered.
	completing func()
}

func (s *fakeSchedules) SubscribeSchedule(
	request *leaseholdv1.SubscribeScheduleRequest,
	stream grpc.ServerStreamingServer[leaseholdv1.SubscribeScheduleResponse],
) error {
	call := &subscribeCall{request: request, answers: make(chan any, 8), over: make(chan struct{})}
	defer close(call.over)
	s.subscriptions <- call
	for {
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case answer := <-call.answers:
			event, isEvent := answer.(*leaseholdv1.SubscribeScheduleResponse)
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

func (s *fakeSchedules) CompleteRun(
	_ context.Context, request *leaseholdv1.CompleteRunRequest,
) (*leaseholdv1.CompleteRunResponse, error) {
	outcome := strings.TrimPrefix(request.GetOutcome().String(), "RUN_OUTCOME_")
	s.sidecar.note("complete %s of %q generation %d: %s %q",
		request.GetRunId(), request.GetLeaseId(), request.GetGeneration(), outcome, request.GetDetail())
	if s.completing != nil {
		s.completing()
	}
	s.sidecar.mutex.Lock()
	defer s.sidecar.mutex.Unlock()
	response := &leaseholdv1.CompleteRunResponse{Result: leaseholdv1.CompletionResult_COMPLETION_RESULT_RECORDED}
	if request.Checkpoint != nil {
		response.CheckpointOutcome, response.CheckpointVersion = leaseholdv1.CheckpointOutcome_CHECKPOINT_OUTCOME_SAVED, 5
	}
	if len(s.completions) == 0 {
		return response, nil
	}
	answer := s.completions[0]
	s.completions = s.completions[1:]
	if err, isError := answer.(error); isError {
		return nil, err
	}
	response.Result, _ = answer.(leaseholdv1.CompletionResult)
	return response, nil
}

// scheduleOf says in its path what was asked for.
func scheduleOf(lock *leaseholdv1.LockSelector) *leaseholdv1.Schedule {
	path := lock.GetLockPath()
	if key := lock.GetKey(); key != nil {
		path = key.GetFunction() + "/" + key.GetScope()
	}
	return &leaseholdv1.Schedule{LockPath: path, Key: lock.GetKey()}
}

func (s *fakeSchedules) GetSchedule(
	_ context.Context, request *leaseholdv1.GetScheduleRequest,
) (*leaseholdv1.GetScheduleResponse, error) {
	schedule := scheduleOf(request.GetLock())
	spec, err := fullSpec().wire()
	schedule.Spec = spec
	return &leaseholdv1.GetScheduleResponse{Schedule: schedule}, err
}

func (s *fakeSchedules) ListSchedules(
	_ context.Context, request *leaseholdv1.ListSchedulesRequest,
) (*leaseholdv1.ListSchedulesResponse, error) {
	s.sidecar.note("list %v %q", request.GetHostId()+request.GetPrefix(), request.GetPageToken())
	if request.GetPageToken() == "" {
		return &leaseholdv1.ListSchedulesResponse{
			Schedules: []*leaseholdv1.Schedule{{LockPath: "a"}}, NextPageToken: "next",
		}, nil
	}
	return &leaseholdv1.ListSchedulesResponse{Schedules: []*leaseholdv1.Schedule{{LockPath: "b"}}}, nil
}

func (s *fakeSchedules) PreviewSchedule(
	_ context.Context, request *leaseholdv1.PreviewScheduleRequest,
) (*leaseholdv1.PreviewScheduleResponse, error) {
	response := &leaseholdv1.PreviewScheduleResponse{Understood: understoodSchedule()}
	for range request.GetCount() {
		response.Occurrences = append(response.Occurrences, &leaseholdv1.Occurrence{At: request.GetAfter()})
	}
	return response, nil
}

func (s *fakeSchedules) PauseSchedule(
	_ context.Context, request *leaseholdv1.PauseScheduleRequest,
) (*leaseholdv1.PauseScheduleResponse, error) {
	schedule := scheduleOf(request.GetLock())
	schedule.Paused = true
	return &leaseholdv1.PauseScheduleResponse{Schedule: schedule}, nil
}

func (s *fakeSchedules) ResumeSchedule(
	_ context.Context, request *leaseholdv1.ResumeScheduleRequest,
) (*leaseholdv1.ResumeScheduleResponse, error) {
	return &leaseholdv1.ResumeScheduleResponse{Schedule: scheduleOf(request.GetLock())}, nil
}

func (s *fakeSchedules) RemoveSchedule(
	_ context.Context, request *leaseholdv1.RemoveScheduleRequest,
) (*leaseholdv1.RemoveScheduleResponse, error) {
	schedule := scheduleOf(request.GetLock())
	if request.GetForce() {
		schedule.Removed = &leaseholdv1.ScheduleIntervention{Reason: request.GetReason()}
	}
	return &leaseholdv1.RemoveScheduleResponse{Schedule: schedule}, nil
}

func (s *fakeSchedules) ResetSchedule(
	_ context.Context, request *leaseholdv1.ResetScheduleRequest,
) (*leaseholdv1.ResetScheduleResponse, error) {
	schedule := scheduleOf(request.GetLock())
	schedule.Reset_ = &leaseholdv1.ScheduleIntervention{Reason: request.GetReason(), At: request.GetWatermark()}
	schedule.Spec = &leaseholdv1.ScheduleSpec{
		Timetable: &leaseholdv1.ScheduleSpec_Cron{Cron: "@daily"}, Revision: request.GetRevision(),
	}
	return &leaseholdv1.ResetScheduleResponse{Schedule: schedule}, nil
}

func (s *fakeSchedules) TriggerSchedule(
	_ context.Context, request *leaseholdv1.TriggerScheduleRequest,
) (*leaseholdv1.TriggerScheduleResponse, error) {
	schedule := scheduleOf(request.GetLock())
	schedule.WaitingRequestIds = []string{request.GetRequestId()}
	return &leaseholdv1.TriggerScheduleResponse{Schedule: schedule}, nil
}

func understoodSchedule() *leaseholdv1.UnderstoodSchedule {
	return &leaseholdv1.UnderstoodSchedule{
		Expression: "30 2 * * *", TimeZone: "Europe/Copenhagen",
		Description: "every day at 02:30, Europe/Copenhagen", ZoneData: "2026b",
	}
}

func standingBy() *leaseholdv1.SubscribeScheduleResponse {
	return &leaseholdv1.SubscribeScheduleResponse{Event: &leaseholdv1.SubscribeScheduleResponse_Standby{
		Standby: &leaseholdv1.Standby{NextAt: &timestamppb.Timestamp{Seconds: 1_800}, Understood: understoodSchedule()},
	}}
}

// aRun is a run of the occurrence at 1,800 s, valid until 1,058 s on our boot clock, as change wants it.
func aRun(change ...func(*leaseholdv1.Run)) *leaseholdv1.SubscribeScheduleResponse {
	run := &leaseholdv1.Run{
		Grant: proto.CloneOf(grantedHere().GetGranted()), RunId: "run-1", Kind: leaseholdv1.RunKind_RUN_KIND_SCHEDULED,
		ScheduledAt: &timestamppb.Timestamp{Seconds: 1_800}, Attempt: 2, MaxAttempts: 3, MissedCount: 7,
		LocalTime: "1970-01-01T01:30:00+01:00[Europe/Copenhagen]", NextAt: &timestamppb.Timestamp{Seconds: 3_600},
	}
	for _, change := range change {
		change(run)
	}
	return &leaseholdv1.SubscribeScheduleResponse{Event: &leaseholdv1.SubscribeScheduleResponse_Run{Run: run}}
}

func runRecorded() *leaseholdv1.SubscribeScheduleResponse {
	return &leaseholdv1.SubscribeScheduleResponse{Event: &leaseholdv1.SubscribeScheduleResponse_Recorded{
		Recorded: &leaseholdv1.Recorded{RunId: "run-1"},
	}}
}

func runLost(reason leaseholdv1.LossReason) *leaseholdv1.SubscribeScheduleResponse {
	return &leaseholdv1.SubscribeScheduleResponse{Event: &leaseholdv1.SubscribeScheduleResponse_Lost{
		Lost: &leaseholdv1.Lost{Reason: reason},
	}}
}
