package dev.leasehold.client;

import static dev.leasehold.client.Bench.soon;
import static dev.leasehold.client.ManualClock.OURS;
import static dev.leasehold.client.Messages.validity;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.Bench.Held;
import dev.leasehold.client.FakeSidecar.HoldCall;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.Lost;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.Resume;
import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class ResumeTest {
  private Bench bench;

  @BeforeEach
  void open() throws Exception {
    bench = new Bench();
  }

  @AfterEach
  void close() throws Exception {
    bench.close();
  }

  @Test
  void s16AHoldSurvivesARestartOfTheSidecar() throws Exception {
    Held held = bench.held();
    bench.sidecar.kill();
    bench.next(HoldEvent.Interrupted.class);
    assertTrue(held.hold().isValid(), "the validity runs on");
    bench.sidecar.start();
    HoldCall call = bench.sidecar.hold();
    Resume resume = call.request.getResume();
    assertEquals("resume-1", resume.getResumeToken());
    assertEquals(validity(OURS, 1_058, 58).getValidUntil(), resume.getToldValidUntil());
    bench.clock.advance(10);
    call.tell(Messages.granted(Messages.grant(validity(OURS, 1_068, 58))));
    bench.next(HoldEvent.Resumed.class);
    assertEquals(Duration.ofSeconds(58), held.hold().remaining());
    call.tell(Messages.renewed(validity(OURS, 1_068, 58)));
    bench.next(HoldEvent.Renewed.class);
    held.hold().close();
    call.awaitEnd();
  }

  @Test
  void s16AStreamThatEndsWithoutAWordIsResumed() throws Exception {
    Held held = bench.held();
    held.call().complete();
    bench.next(HoldEvent.Interrupted.class);
    assertTrue(bench.sidecar.hold().request.hasResume());
    assertTrue(held.hold().isValid());
  }

  @Test
  void s16ATryThatFailsIsRepeated() throws Exception {
    Held held = bench.held();
    held.call().fail(Messages.unavailable());
    for (int failed = 0; failed < 3; failed++) {
      bench.sidecar.hold().fail(Messages.unavailable());
    }
    bench.sidecar.hold().tell(Messages.granted(Messages.grantHere()));
    bench.next(HoldEvent.Interrupted.class);
    bench.next(HoldEvent.Resumed.class);
    assertTrue(held.hold().isValid());
  }

  @Test
  void s16WhatWasTakenMeanwhileIsLost() throws Exception {
    Held held = bench.held();
    held.call().fail(Messages.unavailable());
    Lost taken = Lost.newBuilder().setReason(LossReason.LOSS_REASON_TAKEN).build();
    bench.sidecar.hold().tell(HoldLeaseResponse.newBuilder().setLost(taken).build());
    assertEquals(LossReason.LOSS_REASON_TAKEN, soon(held.hold().lost()).reason());
    assertFalse(held.hold().isValid());
  }

  @Test
  void s16AFinalRefusalIsALoss() throws Exception {
    Held held = bench.held();
    held.call().fail(Messages.unavailable());
    String message = "resume_token is not one of ours";
    bench
        .sidecar
        .hold()
        .fail(Messages.error(Status.Code.INVALID_ARGUMENT, message, "INVALID_FIELD", Map.of()));
    Loss loss = soon(held.hold().lost());
    assertTrue(loss.detail().contains(message), loss.detail());
  }

  @Test
  void s16AStreamThatFellBehindIsResumedAndOneThatWasSupersededIsNot() throws Exception {
    Held held = bench.held();
    held.call().fail(Messages.error(Status.Code.ABORTED, "ended", "STREAM_BEHIND", Map.of()));
    HoldCall call = bench.sidecar.hold();
    call.tell(Messages.granted(Messages.grantHere()));
    bench.next(HoldEvent.Interrupted.class);
    bench.next(HoldEvent.Resumed.class);
    call.fail(Messages.error(Status.Code.ABORTED, "ended", "SUPERSEDED", Map.of()));
    soon(held.hold().lost());
    assertFalse(bench.sidecar.isAskedToHold());
  }

  @Test
  void s16AnotherTokenIsAnotherHold() throws Exception {
    Held held = bench.held();
    held.call().fail(Messages.unavailable());
    HoldCall call = bench.sidecar.hold();
    call.tell(Messages.granted(Messages.grantHere().toBuilder().setFencingToken(65_537).build()));
    assertEquals(LossReason.LOSS_REASON_TAKEN, soon(held.hold().lost()).reason());
    call.awaitEnd();
  }

  @Test
  void s16ASidecarThatStaysAwayCostsTheHoldAtTheEndOfValidity() throws Exception {
    Held held = bench.held();
    bench.sidecar.kill();
    bench.next(HoldEvent.Interrupted.class);
    bench.clock.advance(57);
    assertTrue(held.hold().isValid());
    bench.clock.advance(1);
    assertEquals(LossReason.LOSS_REASON_EXPIRED, soon(held.hold().lost()).reason());
  }

  @Test
  void s16LaterCallsCarryTheNewestGenerationAndTheNewestTokenResumes() throws Exception {
    Held held = bench.held();
    held.hold().extend(Duration.ofSeconds(90));
    held.call().fail(Messages.unavailable());
    HoldCall call = bench.sidecar.hold();
    Resume first = call.request.getResume();
    assertEquals("resume-extended", first.getResumeToken());
    assertTrue(!first.getAttemptId().isEmpty() && first.getAttemptId().length() <= 64);
    // Its answer is lost, so the very same resume is repeated.
    call.fail(Messages.unavailable());
    call = bench.sidecar.hold();
    assertEquals(first, call.request.getResume());
    resume(call, 2);
    HoldLeaseResponse renewed = Messages.renewed(validity(OURS, 1_059, 59));
    call.tell(
        renewed.toBuilder()
            .setRenewed(renewed.getRenewed().toBuilder().setResumeToken("resume-renewed"))
            .build());
    bench.next(HoldEvent.Renewed.class);
    call.fail(Messages.unavailable());
    call = bench.sidecar.hold();
    Resume second = call.request.getResume();
    assertEquals("resume-renewed", second.getResumeToken());
    assertNotEquals(first.getAttemptId(), second.getAttemptId(), "another break");
    resume(call, 3);
    held.hold().release();
    assertEquals(
        List.of("extend 90 of generation 1", "release lease-1 of generation 3"),
        bench.sidecar.asked());
  }

  private void resume(HoldCall call, long generation) throws InterruptedException {
    call.tell(Messages.granted(Messages.grantHere().toBuilder().setGeneration(generation).build()));
    bench.next(HoldEvent.Interrupted.class);
    bench.next(HoldEvent.Resumed.class);
  }

  @Test
  void s16NothingIsReleasedWhileAResumeIsUnanswered() throws Exception {
    Held held = bench.held();
    held.call().fail(Messages.unavailable());
    HoldCall call = bench.sidecar.hold();
    CompletableFuture<ReleaseResult> released = held.hold().releaseAsync();
    assertFalse(held.hold().isValid());
    bench.clock.advance(58);
    ExecutionException failed = assertThrows(ExecutionException.class, () -> soon(released));
    assertInstanceOf(ReleaseUnconfirmedException.class, failed.getCause());
    call.awaitEnd();
    assertEquals(List.of(), bench.sidecar.asked());
  }

  @Test
  void s16AReleaseWaitsForTheAnswerToAResumeAndCarriesItsGeneration() throws Exception {
    Held held = bench.held();
    held.call().fail(Messages.unavailable());
    HoldCall call = bench.sidecar.hold();
    CompletableFuture<ReleaseResult> released = held.hold().releaseAsync();
    assertFalse(held.hold().isValid());
    // A try that fails is repeated also now.
    call.fail(Messages.unavailable());
    bench
        .sidecar
        .hold()
        .tell(Messages.granted(Messages.grantHere().toBuilder().setGeneration(2).build()));
    soon(released);
    assertEquals(List.of("release lease-1 of generation 2"), bench.sidecar.asked());
  }

  @Test
  void s14ATryToResumeIsNotCutShortWhileTheHoldIsValid() throws Exception {
    Held held = bench.held();
    held.call().fail(Messages.unavailable());
    HoldCall call = bench.sidecar.hold();
    bench.clock.advance(57);
    assertTrue(held.hold().isValid() && call.isOpen());
    bench.clock.advance(1);
    assertFalse(held.hold().isValid());
    call.awaitEnd();
  }
}
