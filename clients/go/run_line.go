package leasehold

import (
	"context"

	"google.golang.org/protobuf/proto"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

type runStream = listening[leaseholdv1.SubscribeScheduleResponse]

// runLine is the stream of a subscription while a run goes on, which is the life line of the run's hold (S14).
type runLine struct {
	runs   *Runs
	run    *Run
	stream *runStream
	// told is whether the sidecar has said on this stream that the run is over, lost whether by its loss, and broken whether
	// the stream is over.
	told, lost, broken bool
}

// grantOf is the hold of a run, which is to end at the run's deadline here: the sidecar's lasts a little longer, in which the
// outcome still counts (T12).
func grantOf(run *leaseholdv1.Run) *leaseholdv1.Grant {
	grant := run.GetGrant()
	if grant == nil || run.GetDeadline() == nil {
		return grant
	}
	grant = proto.CloneOf(grant)
	grant.MaxHoldEnds = run.GetDeadline()
	return grant
}

func (l *runLine) next(stop <-chan struct{}) (*leaseholdv1.HoldLeaseResponse, error) {
	for {
		answer, err := l.stream.nextUntil(stop)
		if err != nil {
			l.broken = err != errStopped
			return nil, err
		}
		if event := l.ofHold(answer); event != nil {
			return event, nil
		}
	}
}

// ofHold is what an event means for the hold; nil if nothing.
func (l *runLine) ofHold(answer *leaseholdv1.SubscribeScheduleResponse) *leaseholdv1.HoldLeaseResponse {
	switch event := answer.GetEvent().(type) {
	case *leaseholdv1.SubscribeScheduleResponse_Run:
		grant := grantOf(event.Run)
		return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Granted{Granted: grant}}
	case *leaseholdv1.SubscribeScheduleResponse_Renewed:
		return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Renewed{Renewed: event.Renewed}}
	case *leaseholdv1.SubscribeScheduleResponse_AtRisk:
		return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_AtRisk{AtRisk: event.AtRisk}}
	case *leaseholdv1.SubscribeScheduleResponse_Recovered:
		return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Recovered{Recovered: event.Recovered}}
	case *leaseholdv1.SubscribeScheduleResponse_Revoked:
		return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Revoked{Revoked: event.Revoked}}
	case *leaseholdv1.SubscribeScheduleResponse_Draining:
		l.run.drain(duration(event.Draining.GetTimeLeft()))
		return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Draining{Draining: event.Draining}}
	case *leaseholdv1.SubscribeScheduleResponse_Lost:
		l.told, l.lost = true, true
		return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Lost{Lost: event.Lost}}
	case *leaseholdv1.SubscribeScheduleResponse_Recorded:
		// Otherwise it is of an earlier run.
		if event.Recorded.GetRunId() == l.run.ID() {
			l.told = true
			return &leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Released{
				Released: &leaseholdv1.Released{},
			}}
		}
	case *leaseholdv1.SubscribeScheduleResponse_DefinitionInForce:
		l.runs.events.tell(definitionFrom(event.DefinitionInForce))
	}
	return nil
}

func (l *runLine) resume(_ context.Context, resume *leaseholdv1.Resume) (line, error) {
	request := proto.CloneOf(l.runs.request)
	request.Reconnected, request.Resume, request.RunId = true, resume, l.run.ID()
	stream, err := l.runs.listen(request)
	if err != nil {
		return nil, err
	}
	return &runLine{runs: l.runs, run: l.run, stream: stream}, nil
}

func (l *runLine) place() *place { return l.stream.place }

func (l *runLine) hangUp() { l.stream.cancel() }

// over gives the stream back for the next run, if the outcome of this one was told and the sidecar has taken it. Else it
// ends the stream: a run that was lost, and whose work may go on, is followed by another one only if that is asked for
// (T24).
func (l *runLine) over(state *holdState, stop <-chan struct{}, silent []line) {
	defer close(l.run.back)
	defer func() {
		for _, old := range silent {
			old.hangUp()
		}
	}()
	if state.lost() != nil {
		within, cancel := context.WithTimeout(context.Background(), lastWord)
		defer cancel()
		stop = within.Done()
	}
	for !l.told && !l.broken {
		if _, err := l.next(stop); err != nil {
			break
		}
	}
	if l.broken || l.lost || state.lost() != nil || !l.told && !l.run.isCompleted() {
		l.hangUp()
		return
	}
	// Before this run gives back its own.
	l.stream.place = l.stream.connection.stay()
	l.run.back <- l.stream
}
