package leasehold

import (
	"context"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// line is the stream that a hold lives on, which ends with it or goes on: that of HoldLease, or of a subscription while
// it has a run.
type line interface {
	// next waits for what happens to the hold, in the words of HoldLease, until stop is closed.
	next(stop <-chan struct{}) (*leaseholdv1.HoldLeaseResponse, error)
	// resume asks for the hold on a new stream.
	resume(ctx context.Context, resume *leaseholdv1.Resume) (line, error)
	// place was taken beside the stream's.
	place() *place
	// hangUp ends the stream.
	hangUp()
	// over is called by who has read it when the hold is over and nobody reads it any more. stop is closed when the
	// holder waits for nothing, and silent are lines over which nothing was heard for long.
	over(state *holdState, stop <-chan struct{}, silent []line)
}

// holdLine is the stream of a HoldLease call.
type holdLine struct {
	stream *holdStream
	pool   *pool
}

func (l *holdLine) next(stop <-chan struct{}) (*leaseholdv1.HoldLeaseResponse, error) {
	return l.stream.nextUntil(stop)
}

func (l *holdLine) resume(ctx context.Context, resume *leaseholdv1.Resume) (line, error) {
	request := &leaseholdv1.HoldLeaseRequest{Start: &leaseholdv1.HoldLeaseRequest_Resume{Resume: resume}}
	request.Needs = needs(request)
	stream, err := listenForHold(ctx, l.pool, true, rpc.HoldLease, request)
	if err != nil {
		return nil, err
	}
	return &holdLine{stream, l.pool}, nil
}

func (l *holdLine) place() *place { return l.stream.place }

func (l *holdLine) hangUp() { l.stream.cancel() }

// over does nothing: all streams end with the keeper's context.
func (l *holdLine) over(*holdState, <-chan struct{}, []line) {}
