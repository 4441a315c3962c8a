package leasehold

import (
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// ask waits for the grant. Where no sidecar answers yet, the connection breaks while it waits, nothing is heard over it
// for long, or the sidecar is too old for what is asked (S37), it asks again for what is left of the wait. A caller that is paced waits for the first answer by itself.
func (k *keeper) ask(spec *leaseholdv1.LeaseSpec, paced bool) error {
	w := &waiting{keeper: k, spec: spec, until: time.Now().Add(spec.GetWait().AsDuration()), pause: firstPause}
	for {
		sent := k.client.clock.now()
		stream, err := w.ask()
		if err == nil {
			k.stream = &holdLine{stream, k.client.pool}
			k.state = newHoldState(k.client.clock, k.grant, k.grant, sent)
			return k.askFirst()
		}
		left := time.Until(w.until)
		withoutEnd := spec.GetWaitWithoutEnd()
		isOurs := !paced || w.heard || errors.Is(err, errSilent)
		mayAsk := (withoutEnd || left > 0) && k.ctx.Err() == nil
		if !(isOurs && comesBack(err) || isBelowNeeds(err)) || !mayAsk {
			return w.failure(err)
		}
		w.again = true
		pause := w.pause
		w.pause = min(2*pause, longestPause)
		if !withoutEnd {
			pause = min(pause, left)
			spec.Wait = wireDuration(max(left-pause, time.Millisecond))
		}
		select {
		case <-k.ctx.Done():
		case <-time.After(pause):
		}
	}
}

// waiting is a wait for a lock, over one stream after the other.
type waiting struct {
	keeper *keeper
	spec   *leaseholdv1.LeaseSpec
	// until is when it ends, unless it has no end.
	until  time.Time
	stream *holdStream
	// again is whether it has asked before, heard whether a sidecar has said that the caller waits, and last what it said.
	again, heard bool
	last         *leaseholdv1.Waiting
	// pause is that before the next try: a short one where a sidecar had the caller in its queue.
	pause time.Duration
}

// ask waits on one stream.
func (w *waiting) ask() (_ *holdStream, err error) {
	k := w.keeper
	request := &leaseholdv1.HoldLeaseRequest{Start: &leaseholdv1.HoldLeaseRequest_Spec{Spec: w.spec}}
	request.Needs = needs(request)
	w.stream, err = listenForHold(k.ctx, k.client.pool, w.again, rpc.HoldLease, request)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.stream.leave()
		}
	}()
	for {
		answer, err := w.stream.next()
		if errors.Is(err, io.EOF) {
			return nil, errNoReason
		}
		if err != nil {
			return nil, err
		}
		switch event := answer.GetEvent().(type) {
		case *leaseholdv1.HoldLeaseResponse_Granted:
			k.grant, k.place = event.Granted, w.stream.place
			return w.stream, nil
		case *leaseholdv1.HoldLeaseResponse_Busy:
			return nil, &BusyError{busyFrom(event.Busy)}
		case *leaseholdv1.HoldLeaseResponse_AlreadyDone:
			return nil, occurrenceDone(w.spec, event.AlreadyDone)
		case *leaseholdv1.HoldLeaseResponse_Skipped:
			return nil, occurrenceSkipped(w.spec, event.Skipped)
		case *leaseholdv1.HoldLeaseResponse_Lost:
			return nil, lossFrom(event.Lost)
		case *leaseholdv1.HoldLeaseResponse_Waiting:
			w.heard, w.pause = true, firstPause
			// The sidecar repeats what it said, so that a dead connection is noticed.
			if !proto.Equal(event.Waiting, w.last) {
				w.last = event.Waiting
				k.events.tell(Waiting{event.Waiting.GetPosition(), recordFrom(event.Waiting.GetRecord())})
			}
		}
	}
}

// failure gives an error of gRPC its type.
func (w *waiting) failure(err error) error {
	var refused *RefusedError
	if _, isStatus := status.FromError(err); !isStatus || errors.As(err, &refused) || w.stream == nil {
		return err
	}
	return w.stream.connection.failure(w.keeper.ctx, err)
}
