package leasehold

import (
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

var errGone = status.Error(codes.Unavailable, "gone")

func TestS16AHoldSurvivesARestartOfTheSidecar(t *testing.T) {
	b := newBench(t)
	hold, _, events := b.heldHere()
	b.kill()
	want[Interrupted](t, events)
	if !hold.Valid() {
		t.Error("the belief runs on")
	}
	b.start()
	call := b.call()
	resume := call.request.GetResume()
	if resume.GetResumeToken() != "resume-1" ||
		!proto.Equal(resume.GetToldValidUntil(), validity(ours, 1_058, 58).GetValidUntil()) {
		t.Error(resume)
	}
	b.clock.advance(10)
	call.tell(granted(validity(ours, 1_068, 58)))
	if event := want[Resumed](t, events); event.ValidUntil != at(1_068) || hold.Remaining() != 58*time.Second {
		t.Error(event)
	}
	call.tell(renewed(validity(ours, 1_069, 59)))
	want[Renewed](t, events)
	if _, err := hold.Release(t.Context()); err != nil {
		t.Error(err)
	}
	receive(t, "the end of the stream", call.over)
}

func TestS16TheNewestResumeTokenAndToldValidityAreSent(t *testing.T) {
	b := newBench(t)
	hold, call, events := b.heldHere()
	for _, token := range []string{"resume-2", "resume-3"} {
		call.fail(errGone)
		want[Interrupted](t, events)
		call = b.call()
		answer := granted(validity(ours, 1_058, 58))
		answer.GetGranted().ResumeToken = token
		call.tell(answer)
		want[Resumed](t, events)
	}
	call.tell(renewed(validity(ours, 1_059, 59)))
	want[Renewed](t, events)
	call.fail(errGone)
	resume := b.call().request.GetResume()
	if resume.GetResumeToken() != "resume-3" || span(resume.GetToldValidUntil().GetSinceBoot()) != 1_059*time.Second {
		t.Error(resume)
	}
	if !hold.Valid() {
		t.Error("the belief runs on")
	}
}

func TestS21ElsewhereAResumedHoldCountsFromBeforeTheTry(t *testing.T) {
	b := newBench(t)
	hold, call, events := b.held(validity(elsewhere, 70, 58))
	call.fail(errGone)
	want[Interrupted](t, events)
	call = b.call()
	b.clock.advance(10)
	call.tell(granted(validity(elsewhere, 80, 55)))
	want[Resumed](t, events)
	if hold.Remaining() != 45*time.Second {
		t.Error(hold.Remaining())
	}
}

func TestS16AStreamThatEndsWithoutAWordIsResumed(t *testing.T) {
	b := newBench(t)
	_, call, events := b.heldHere()
	call.fail(nil)
	want[Interrupted](t, events)
	b.call().tell(granted(validity(ours, 1_058, 58)))
	want[Resumed](t, events)
}

func TestS16WhatCannotGoOnIsLost(t *testing.T) {
	answers := map[string]func(*holdCall){
		"lost":    func(c *holdCall) { c.tell(lostFor(leaseholdv1.LossReason_LOSS_REASON_TAKEN)) },
		"refused": func(c *holdCall) { c.fail(status.Error(codes.InvalidArgument, "resume_token is not one of ours")) },
		"another hold": func(c *holdCall) {
			other := granted(validity(ours, 1_058, 58))
			other.GetGranted().FencingToken++
			c.tell(other)
		},
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			hold, call, events := b.heldHere()
			call.fail(errGone)
			want[Interrupted](t, events)
			call = b.call()
			answer(call)
			lossOf(t, hold)
			want[Lost](t, events)
			receive(t, "the end of the stream", call.over)
		})
	}
}

func TestS16ATryThatFailsIsRepeated(t *testing.T) {
	b := newBench(t)
	_, call, events := b.heldHere()
	call.fail(errGone)
	want[Interrupted](t, events)
	for _, code := range []codes.Code{codes.Unavailable, codes.Internal, codes.ResourceExhausted, codes.Unauthenticated} {
		b.call().fail(status.Error(code, "not now"))
	}
	b.call().tell(granted(validity(ours, 1_058, 58)))
	want[Resumed](t, events)
}

func TestS16ASidecarThatStaysAwayCostsTheHoldAtTheEndOfValidity(t *testing.T) {
	b := newBench(t)
	hold, _, events := b.heldHere()
	b.kill()
	want[Interrupted](t, events)
	b.clock.advance(57)
	if !hold.Valid() {
		t.Error("too early")
	}
	b.clock.advance(1)
	if loss := lossOf(t, hold); loss.Reason != leaseholdv1.LossReason_LOSS_REASON_EXPIRED {
		t.Error(loss)
	}
}

func TestS14ATryToResumeIsNotCutShortWhileTheHoldIsBelievedIn(t *testing.T) {
	b := newBench(t)
	hold, call, _ := b.heldHere()
	call.fail(errGone)
	call = b.call()
	if call.hasDeadline {
		t.Error("the try has a deadline")
	}
	b.clock.advance(57)
	if !hold.Valid() || !call.isOpen() {
		t.Error("it was cut short")
	}
	b.clock.advance(1)
	lossOf(t, hold)
	receive(t, "the end of the try", call.over)
}

func TestS16AStreamThatFellBehindIsResumedAndOneThatWasSupersededIsNot(t *testing.T) {
	for reason, lost := range map[string]bool{"STREAM_BEHIND": false, "SUPERSEDED": true} {
		info := &errdetails.ErrorInfo{Domain: reasonDomain, Reason: reason}
		aborted, err := status.New(codes.Aborted, "ended").WithDetails(info)
		if err != nil {
			t.Fatal(err)
		}
		if loss := finalRefusal(aborted.Err()); (loss != nil) != lost {
			t.Error(reason, loss)
		}
	}
}
