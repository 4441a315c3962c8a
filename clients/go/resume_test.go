package leasehold

import (
	"errors"
	"strings"
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
		t.Error("the hold is still valid")
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
	if resume.GetResumeToken() != "resume-3" || duration(resume.GetToldValidUntil().GetSinceBoot()) != 1_059*time.Second {
		t.Error(resume)
	}
	if !hold.Valid() {
		t.Error("the hold is still valid")
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
	if loss := lossOf(t, hold); loss.Reason != LossReasonExpired {
		t.Error(loss)
	}
}

func TestS14ATryToResumeIsNotCutShortWhileTheHoldIsValid(t *testing.T) {
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

func TestS16LaterCallsCarryTheNewestGenerationAndTheNewestTokenResumes(t *testing.T) {
	b := newBench(t)
	hold, call, events := b.heldHere()
	if err := hold.Extend(t.Context(), 90*time.Second); err != nil {
		t.Fatal(err)
	}
	call.fail(errGone)
	want[Interrupted](t, events)
	call = b.call()
	first := call.request.GetResume()
	if first.GetResumeToken() != "resume-extended" || first.GetAttemptId() == "" || len(first.GetAttemptId()) > 64 {
		t.Error(first)
	}
	// Its answer is lost, so the very same resume is repeated.
	call.fail(errGone)
	call = b.call()
	if again := call.request.GetResume(); !proto.Equal(again, first) {
		t.Error(again, first)
	}
	call.tell(resumedAs(2))
	want[Resumed](t, events)
	event := renewed(validity(ours, 1_059, 59))
	event.GetRenewed().ResumeToken = "resume-renewed"
	call.tell(event)
	want[Renewed](t, events)
	call.fail(errGone)
	want[Interrupted](t, events)
	call = b.call()
	second := call.request.GetResume()
	if second.GetResumeToken() != "resume-renewed" || second.GetAttemptId() == first.GetAttemptId() {
		t.Error(second)
	}
	call.tell(resumedAs(3))
	want[Resumed](t, events)
	if _, err := hold.Release(t.Context()); err != nil {
		t.Error(err)
	}
	calls := strings.Join(b.sidecar.calls(), "; ")
	if calls != "extend lease-1 of generation 1; release lease-1 of generation 3" {
		t.Error(calls)
	}
}

func resumedAs(generation uint64) *leaseholdv1.HoldLeaseResponse {
	answer := granted(validity(ours, 1_058, 58))
	answer.GetGranted().Generation = generation
	return answer
}

func TestS16NothingIsReleasedWhileAResumeIsUnanswered(t *testing.T) {
	b := newBench(t)
	hold, call, events := b.heldHere()
	call.fail(errGone)
	want[Interrupted](t, events)
	call = b.call()
	released := make(chan error, 1)
	go func() {
		_, err := hold.Release(t.Context())
		released <- err
	}()
	receive(t, "the end of the hold", hold.Context().Done())
	b.clock.advance(58)
	if err := receive(t, "the end of the release", released); !errors.Is(err, errResumeUnanswered) {
		t.Error(err)
	}
	receive(t, "the end of the try", call.over)
	if calls := b.sidecar.calls(); len(calls) != 0 {
		t.Error(calls)
	}
}

func TestS16AReleaseWaitsForTheAnswerToAResumeAndCarriesItsGeneration(t *testing.T) {
	b := newBench(t)
	hold, call, events := b.heldHere()
	call.fail(errGone)
	want[Interrupted](t, events)
	call = b.call()
	released := make(chan error, 1)
	go func() {
		_, err := hold.Release(t.Context())
		released <- err
	}()
	receive(t, "the end of the hold", hold.Context().Done())
	// A try that fails is repeated also now.
	call.fail(errGone)
	b.call().tell(resumedAs(2))
	if err := receive(t, "the end of the release", released); err != nil {
		t.Error(err)
	}
	if calls := strings.Join(b.sidecar.calls(), "; "); calls != "release lease-1 of generation 2" {
		t.Error(calls)
	}
}

func TestS14TheKernelGoesWithEachCall(t *testing.T) {
	b := newBench(t)
	b.sidecar.acquire = func(*leaseholdv1.LeaseSpec) (*leaseholdv1.AcquireLeaseResponse, error) { return nil, errGone }
	_, _ = b.client.Acquire(t.Context(), LeaseSpec{Key: LockKey{Function: "f"}})
	if calls := strings.Join(b.sidecar.calls(), "; "); calls != "acquire [] ["+ours+"]" {
		t.Error(calls)
	}
}
