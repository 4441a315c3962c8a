package leasehold

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

type holdStream = listening[leaseholdv1.HoldLeaseResponse]

// keeper keeps a hold true: it reads the stream, watches the clock, and resumes when the sidecar was away.
type keeper struct {
	client *Client
	state  *holdState
	events *eventQueue[HoldEvent]
	// ctx has no deadline, and is cancelled only after the hold has ended here (S13). The streams of HoldLease end with it.
	ctx    context.Context
	cancel context.CancelFunc
	stream line
	place  *place
	// silent are tries to resume on which nothing was heard for long. As the stream itself, they are cancelled
	// only when the hold was resumed on another, because a sidecar that still hears this client would take that
	// for the holder's end (S14).
	silent []line
	// grant is the first one.
	grant *leaseholdv1.Grant
	// reading ends with the goroutine that reads the stream.
	reading sync.WaitGroup
	// asking is whether a question about the validity is under way.
	asking atomic.Bool
}

// open starts the keeper of a hold that was granted to ask.
func open(ctx context.Context, c *Client, spec LeaseSpec) (*Hold, error) {
	// What cancels the caller must not cut the stream of a hold that is valid, only the wait for one.
	streamCtx, cancelStream := context.WithCancel(context.WithoutCancel(ctx))
	stillWaiting := context.AfterFunc(ctx, cancelStream)
	events := &eventQueue[HoldEvent]{handler: spec.OnEvent}
	keeper := &keeper{client: c, events: events, ctx: streamCtx, cancel: cancelStream}
	err := keeper.ask(spec.wire(spec.Wait), spec.paced)
	if !stillWaiting() {
		err = gaveUp(ctx)
	}
	if err != nil {
		cancelStream()
		if keeper.place != nil {
			keeper.place.giveBack()
		}
		return nil, err
	}
	hold := keeper.begin(ctx, func(*Hold) {})
	if !hold.Valid() {
		keeper.place.giveBack()
		return nil, hold.Loss()
	}
	return hold, nil
}

// begin keeps the hold that was granted, unless it is over already. Its context is a child of ctx. It is shown to
// prepare before anything happens to it.
func (k *keeper) begin(ctx context.Context, prepare func(*Hold)) *Hold {
	holdCtx, cancel := context.WithCancelCause(ctx)
	noticeCtx, cancelNotice := context.WithCancelCause(holdCtx)
	k.state.cancel, k.state.cancelNotice = cancel, cancelNotice
	hold := &Hold{
		client: k.client, grant: k.grant, state: k.state, place: k.place, ctx: holdCtx, noticeCtx: noticeCtx,
		endStream: k.end,
	}
	// Of a hold whose end nobody has asked for, or was not answered.
	runtime.AddCleanup(hold, (*place).giveBack, k.place)
	prepare(hold)
	if !k.client.remember(hold) {
		k.state.lose(clientClosed())
	}
	if !k.state.valid() {
		k.cancel()
		k.client.forget(hold)
		return hold
	}
	k.events.tell(Granted{hold.LockPath(), hold.FencingToken(), hold.ValidUntil()})
	k.reading.Go(func() {
		k.read()
		k.stream.over(k.state, k.ctx.Done(), k.silent)
	})
	go func() {
		k.watchClock()
		k.client.forget(hold)
	}()
	return hold
}

// askFirst asks for the validity anew where a wait may have used it up: elsewhere than on the sidecar's kernel, the
// grant's duration counts from before the request (S21).
func (k *keeper) askFirst() error {
	asked := k.client.clock.now()
	if due, mustAsk := k.state.nextQuestion(); !mustAsk || asked < due {
		return nil
	}
	answer, err := k.client.getHold(k.ctx, k.id())
	if err == nil {
		k.state = newHoldState(k.client.clock, k.grant, answer, asked)
	}
	return err
}

// id names the hold, of the newest generation that was answered.
func (k *keeper) id() holdID {
	return holdID{k.grant.GetLeaseId(), k.state.answered(), k.place}
}

// end ends the stream, and waits until nobody reads it.
func (k *keeper) end() {
	k.cancel()
	k.reading.Wait()
}

// watchClock waits for the end of the hold. It reads the clock after every wake-up (S3).
func (k *keeper) watchClock() {
	timer := time.NewTimer(nap)
	defer timer.Stop()
	for left := k.state.remaining(); left > 0; left = k.state.remaining() {
		timer.Reset(min(left, nap, k.question()))
		select {
		case <-k.state.over:
		case <-k.state.heard:
		case <-timer.C:
		}
	}
	if loss := k.state.lost(); loss != nil {
		k.events.tell(Lost{loss})
		k.cancel()
	}
	// Where the holder is releasing, the stream lives until that is answered.
	k.events.close()
}

// question asks the sidecar for the validity when it is time to, and says when to come back (S21).
func (k *keeper) question() time.Duration {
	due, mustAsk := k.state.nextQuestion()
	if !mustAsk {
		return nap
	}
	now := k.client.clock.now()
	if now < due {
		return due.since(now)
	}
	if k.asking.CompareAndSwap(false, true) {
		go func() {
			defer k.asking.Store(false)
			within, cancel := context.WithTimeout(k.ctx, answerTimeout)
			defer cancel()
			id := k.id()
			answer, err := k.client.getHold(within, id)
			if err == nil {
				k.state.takeInLimit(answer.GetMaxHoldEnds(), &now)
				k.state.takeIn(answer.GetValidity(), &now)
				if answer.GetState() == leaseholdv1.HoldState_HOLD_STATE_REVOKED {
					k.revoked(answer.GetBreakNote())
				}
			} else if loss := toldLost(err); loss != nil {
				// Where that is no word of the hold as it is now, it is asked again when that is due.
				k.state.loseAs(id.generation, loss)
			}
		}()
	}
	return 4 * firstPause
}

// read reads the stream, and resumes when it breaks, until the hold is over.
func (k *keeper) read() {
	for k.state.valid() {
		answer, err := k.stream.next(k.ctx.Done())
		if err == nil {
			if loss := k.takeIn(answer); loss != nil {
				k.state.lose(loss)
			}
			continue
		}
		if errors.Is(err, io.EOF) {
			err = errNoReason
		}
		if loss := finalRefusal(err); loss != nil {
			k.state.lose(loss)
			return
		}
		if !k.state.valid() {
			return
		}
		k.events.tell(Interrupted{status.Convert(err).Message()})
		if loss := k.resume(); loss != nil {
			k.state.refuse(loss)
		}
	}
}

// takeIn takes in an event, and tells it if the hold goes on; the loss, if the event is one.
func (k *keeper) takeIn(answer *leaseholdv1.HoldLeaseResponse) *LostError {
	switch event := answer.GetEvent().(type) {
	case *leaseholdv1.HoldLeaseResponse_Renewed:
		k.state.replaceResumeToken(event.Renewed.GetResumeToken(), k.state.answered())
		k.state.takeInLimit(event.Renewed.GetMaxHoldEnds(), nil)
		if k.heard(event.Renewed.GetValidity()) {
			k.events.tell(Renewed{k.state.validUntil()})
		}
	case *leaseholdv1.HoldLeaseResponse_AtRisk:
		if k.heard(event.AtRisk.GetValidity()) {
			k.events.tell(AtRisk{k.state.validUntil(), reasonFrom(event.AtRisk.GetCause()), event.AtRisk.GetDetail()})
		}
	case *leaseholdv1.HoldLeaseResponse_Recovered:
		if k.heard(event.Recovered.GetValidity()) {
			k.events.tell(Recovered{k.state.validUntil()})
		}
	case *leaseholdv1.HoldLeaseResponse_Draining:
		k.events.tell(Draining{duration(event.Draining.GetTimeLeft())})
	case *leaseholdv1.HoldLeaseResponse_Revoked:
		if k.heard(event.Revoked.GetValidity()) {
			k.revoked(event.Revoked.GetBreakNote())
		}
	case *leaseholdv1.HoldLeaseResponse_Lost:
		return lossFrom(event.Lost)
	case *leaseholdv1.HoldLeaseResponse_Released:
		if loss := alreadyLost(event.Released.GetResult()); loss != nil {
			return loss
		}
		return &LostError{Reason: LossReasonUnspecified, Detail: "it was released by its lease id"}
	}
	return nil
}

// revoked takes in that the lock was broken, and tells it.
func (k *keeper) revoked(note *leaseholdv1.BreakNote) {
	if notice := k.state.revoke(noteFrom(note)); notice != nil {
		k.events.tell(Revoked{*notice})
	}
}

// heard takes in a validity that answers no request of ours. It says whether the hold goes on.
func (k *keeper) heard(validity *leaseholdv1.Validity) bool {
	if validity == nil {
		return k.state.valid()
	}
	return k.state.takeIn(validity, nil)
}

// resume tries until it has worked or the stream is given up; the loss, if it is lost by that (S16). A try is never cut
// short while the hold is valid, because the sidecar would read that as its end (S14).
func (k *keeper) resume() *LostError {
	// The same for every try, so that one whose answer was lost can be repeated.
	attemptID := rand.Text()
	for pause := firstPause; ; pause = min(2*pause, nap) {
		loss, err := k.tryResume(attemptID)
		if err == nil {
			return loss
		}
		if loss := finalRefusal(err); loss != nil {
			return loss
		}
		// A release waits for the answer, also when the hold is over (S16); it ends this, too.
		select {
		case <-k.ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

func (k *keeper) tryResume(attemptID string) (*LostError, error) {
	sent := k.client.clock.now()
	token, told, goesOn := k.state.beginResume()
	if !goesOn {
		return nil, nil
	}
	resume := &leaseholdv1.Resume{ResumeToken: token, ToldValidUntil: told, AttemptId: attemptID}
	stream, err := k.stream.resume(k.ctx, resume)
	if err != nil {
		return nil, err
	}
	// This place, or the old one.
	defer stream.place().giveBack()
	var grant *leaseholdv1.Grant
	for grant == nil {
		answer, err := stream.next(k.ctx.Done())
		if errors.Is(err, io.EOF) {
			err = status.Error(codes.Unavailable, "the stream ended without an answer")
		}
		if err != nil {
			k.giveUp(stream, err)
			return nil, err
		}
		switch event := answer.GetEvent().(type) {
		case *leaseholdv1.HoldLeaseResponse_Granted:
			grant = event.Granted
		case *leaseholdv1.HoldLeaseResponse_Lost:
			stream.hangUp()
			return lossFrom(event.Lost), nil
		}
	}
	// From here on the old stream's end means nothing, and the new one's does.
	for _, old := range append(k.silent, k.stream) {
		old.hangUp()
	}
	k.stream = stream
	k.place.move(stream.place())
	k.silent = nil
	if grant.GetFencingToken() != k.grant.GetFencingToken() {
		return &LostError{
			Reason: LossReasonTaken,
			Detail: "the sidecar resumed another hold than this one",
		}, nil
	}
	k.state.resumed(grant)
	k.state.takeInLimit(grant.GetMaxHoldEnds(), &sent)
	k.state.newerCheckpoint(checkpointFrom(grant.GetCheckpoint()))
	if !k.state.takeIn(grant.GetValidity(), &sent) {
		if k.state.lost() == nil {
			// The holder has ended the hold, and its release waits for this.
			return nil, nil
		}
		return &LostError{
			Reason: LossReasonExpired,
			Detail: "its validity ended before it was resumed",
		}, nil
	}
	k.events.tell(Resumed{k.state.validUntil()})
	return nil, nil
}

// giveUp leaves a stream over which the hold was not resumed.
func (k *keeper) giveUp(stream line, err error) {
	if errors.Is(err, errSilent) {
		k.silent = append(k.silent, stream)
		return
	}
	stream.hangUp()
}
