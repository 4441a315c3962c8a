package leasehold

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// Runs are the runs of a schedule that fall to this caller: see [Client.Runs].
type Runs struct {
	client  *Client
	spec    ScheduleSpec
	request *leaseholdv1.SubscribeScheduleRequest
	events  *eventQueue[ScheduleEvent]
	// closed ends with Close, and whatever waits with it.
	closed context.Context
	close  context.CancelFunc

	asking sync.Mutex
	// stream is between runs, and run has it while one goes on; both are nil when there is none.
	stream *runStream
	run    *Run
	// sent is when the stream was asked for.
	sent BootInstant
	// known is whether a sidecar has said how it understood the spec.
	known bool
	pause time.Duration
}

// Runs takes part in a schedule, beginning with the first [Runs.Next]. [Client.Every] runs a function on each run. Close
// it when no further run is wanted.
//
// Errors: [*RefusedError] with [ReasonInvalidField] for a spec that cannot be sent.
func (c *Client) Runs(spec ScheduleSpec) (*Runs, error) {
	request, err := spec.subscription()
	if err != nil {
		return nil, err
	}
	closed, cancel := context.WithCancel(context.Background())
	return &Runs{
		client: c, spec: spec, request: request, events: &eventQueue[ScheduleEvent]{handler: spec.OnEvent},
		closed: closed, close: cancel, pause: firstPause,
	}, nil
}

// All gives the runs one by one until ctx ends or the loop is left, and closes then. Complete each one before the next
// is asked for. An error is the last that it yields.
func (r *Runs) All(ctx context.Context) iter.Seq2[*Run, error] {
	return func(yield func(*Run, error) bool) {
		defer r.Close()
		for {
			run, err := r.Next(ctx)
			if !yield(run, err) || err != nil {
				return
			}
		}
	}
}

// Close takes part no longer. A run that goes on may finish.
func (r *Runs) Close() {
	r.close()
	r.asking.Lock()
	defer r.asking.Unlock()
	r.hangUp()
	if run := r.run; run != nil {
		r.run = nil
		go func() {
			if stream, goesOn := <-run.back; goesOn {
				stream.leave()
			}
		}()
	}
	r.events.close()
}

// Next waits for the next run, as long as that takes, and for the end of the one before. Where the sidecar restarts or the
// connection breaks, it subscribes again. Cancelling ctx ends the wait, and nothing is missed by that; after the grant it
// ends the run's context, and the run is still to be completed.
//
// Ask for the next run soon after one has ended: a run that is granted and that nobody asks for goes on until its deadline.
//
// Errors: [*RefusedError], with [ReasonUnsupported] if the sidecar is older than schedules and [ReasonInvalidField] for a
// spec that is not valid; [*UnreachableError], only before a sidecar was heard of; [*ProtocolError], [ErrClosed], that of
// ctx. Calling this again subscribes again.
func (r *Runs) Next(ctx context.Context) (*Run, error) {
	r.asking.Lock()
	defer r.asking.Unlock()
	if r.closed.Err() != nil {
		return nil, ErrClosed
	}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.closed, cancel)()
	for {
		run, err := r.next(ctx, within)
		switch {
		case run != nil:
			return run, nil
		case r.closed.Err() != nil:
			return nil, ErrClosed
		case ctx.Err() != nil:
			return nil, gaveUp(ctx)
		case err != nil:
			return nil, err
		}
	}
}

// next takes one step, until within ends; the run if it has come. The run's context is a child of ctx.
func (r *Runs) next(ctx, within context.Context) (*Run, error) {
	if r.run != nil {
		select {
		case <-within.Done():
		case stream := <-r.run.back:
			r.stream, r.run = stream, nil
		}
		return nil, nil
	}
	if r.stream == nil {
		return nil, r.subscribe()
	}
	answer, err := r.stream.nextUntil(within.Done())
	if errors.Is(err, errStopped) {
		return nil, nil
	}
	if err != nil {
		return nil, r.interrupted(within, err)
	}
	return r.hear(ctx, answer)
}

func (r *Runs) subscribe() error {
	request := proto.CloneOf(r.request)
	// T16: who was understood before is no new subscriber.
	request.Reconnected = r.known
	sent := r.client.clock.now()
	stream, err := r.listen(request)
	if err != nil {
		return err
	}
	r.stream, r.sent = stream, sent
	return nil
}

// listen opens a stream, which ends when it is told to: it has no deadline (S14).
func (r *Runs) listen(request *leaseholdv1.SubscribeScheduleRequest) (*runStream, error) {
	request.Needs = needs(request)
	return listenForHold(context.Background(), r.client.pool, r.known, rpc.SubscribeSchedule, request)
}

func (r *Runs) hangUp() {
	if r.stream != nil {
		r.stream.leave()
		r.stream = nil
	}
}

// hear takes in an event between runs. What is of a run that is over means nothing.
func (r *Runs) hear(ctx context.Context, answer *leaseholdv1.SubscribeScheduleResponse) (*Run, error) {
	switch event := answer.GetEvent().(type) {
	case *leaseholdv1.SubscribeScheduleResponse_Standby:
		if wire := event.Standby.GetUnderstood(); wire != nil {
			r.known = true
			r.events.tell(Subscribed{understoodFrom(wire)})
		}
		r.pause = firstPause
		r.events.tell(standbyFrom(event.Standby))
	case *leaseholdv1.SubscribeScheduleResponse_Run:
		return r.take(ctx, event.Run)
	case *leaseholdv1.SubscribeScheduleResponse_DefinitionInForce:
		r.events.tell(definitionFrom(event.DefinitionInForce))
	case *leaseholdv1.SubscribeScheduleResponse_Draining:
		r.events.tell(Draining{duration(event.Draining.GetTimeLeft())})
	}
	return nil, nil
}

// interrupted waits a little before the next try; the error, if another one does not help.
func (r *Runs) interrupted(within context.Context, err error) error {
	if errors.Is(err, io.EOF) {
		err = errNoReason
	}
	failure := knowing("schedules", r.stream.connection.failure(context.Background(), err))
	r.hangUp()
	if !isBelowNeeds(failure) && (!r.known || !passes(failure)) {
		return failure
	}
	r.events.tell(Interrupted{failure.Error()})
	select {
	case <-within.Done():
	case <-time.After(max(r.pause, retryAfter(failure))):
	}
	r.pause = min(2*r.pause, longestRunPause)
	return nil
}

// take begins a run that was granted. One whose validity is over, or cannot be learned, is given back.
func (r *Runs) take(ctx context.Context, wire *leaseholdv1.Run) (*Run, error) {
	if wire.GetGrant() == nil || wire.GetScheduledAt() == nil {
		r.hangUp()
		return nil, &ProtocolError{"a run came without its grant or its occurrence"}
	}
	c, grant := r.client, grantOf(wire)
	run := &Run{client: c, wire: wire, drain: func(time.Duration) {}, back: make(chan *runStream, 1)}
	keeperCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	keeper := &keeper{
		client: c, events: &eventQueue[HoldEvent]{handler: r.spec.OnHoldEvent}, ctx: keeperCtx, cancel: cancel,
		stream: &runLine{runs: r, run: run, stream: r.stream}, place: r.stream.place, grant: grant,
		state: newHoldState(c.clock, grant, grant, r.sent),
	}
	believed := keeper.askFirst()
	if believed != nil || !keeper.state.valid() {
		cancel()
		run.hold = &Hold{client: c, grant: grant, state: keeper.state, place: keeper.place}
		_ = run.giveBack(context.Background())
		return nil, nil
	}
	r.run, r.stream = run, nil
	keeper.begin(ctx, func(hold *Hold) {
		run.hold = hold
		hold.abandonRun = run.giveBack
		noticeCtx, notice := context.WithCancelCause(hold.NoticeContext())
		run.noticeCtx = noticeCtx
		run.drain = func(timeLeft time.Duration) { notice(&DrainingError{timeLeft}) }
	})
	if !run.Valid() {
		keeper.stream.over(keeper.state, keeperCtx.Done(), nil)
	}
	return run, nil
}
