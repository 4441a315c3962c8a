package dev.leasehold.client;

import static dev.leasehold.client.Bench.soon;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Timestamp;
import dev.leasehold.v1.AcquireLeaseResponse;
import dev.leasehold.v1.AlreadyDone;
import dev.leasehold.v1.CheckpointOutcome;
import dev.leasehold.v1.EndedRun;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.OutcomeResult;
import dev.leasehold.v1.ReleaseOutcome;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.RunOutcome;
import dev.leasehold.v1.Skipped;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Occurrences that the caller names: what is asked, what is answered, and what is told. */
@Timeout(60)
class OccurrenceTest {
  private static final Instant AT = Instant.ofEpochSecond(1_800_000_000);
  private static final Timestamp WIRE = FakeSchedules.at(1_800_000_000);
  private static final LeaseSpec REQUEST =
      LeaseSpec.of("f").occurrence(AT).occurrenceMaxAttempts(3);
  private static final AlreadyDone DONE =
      AlreadyDone.newBuilder()
          .setRun(
              EndedRun.newBuilder()
                  .setScheduledAt(WIRE)
                  .setOutcome(RunOutcome.RUN_OUTCOME_SUCCEEDED)
                  .setAttempt(2))
          .build();
  private static final Skipped SKIPPED = Skipped.newBuilder().setWatermark(WIRE).build();

  private Bench bench;

  @BeforeEach
  void open() throws Exception {
    bench = new Bench();
  }

  @AfterEach
  void close() throws Exception {
    bench.close();
  }

  private static dev.leasehold.v1.Grant grant() {
    return Messages.grantHere().toBuilder().setAttempt(2).build();
  }

  private CompletableFuture<Hold> ask(LeaseSpec request) {
    return bench.client.holdAsync(request, event -> {});
  }

  private Hold held() throws Exception {
    CompletableFuture<Hold> asked = ask(REQUEST);
    bench.sidecar.hold().tell(Messages.granted(grant()));
    return soon(asked);
  }

  private void answerReleases(OutcomeResult result) {
    bench.sidecar.released =
        ReleaseResult.newBuilder()
            .setOutcome(ReleaseOutcome.RELEASE_OUTCOME_RELEASED)
            .setOutcomeResult(result)
            .setCheckpointOutcome(CheckpointOutcome.CHECKPOINT_OUTCOME_SAVED)
            .build();
  }

  private Throwable answer(LeaseSpec request, HoldLeaseResponse answer) throws Exception {
    CompletableFuture<Hold> asked = ask(request);
    bench.sidecar.hold().tell(answer);
    return assertThrows(ExecutionException.class, () -> soon(asked)).getCause();
  }

  @Test
  void t2TheAttemptIsToldAndTheOutcomeGoesWithTheRelease() throws Exception {
    CompletableFuture<Hold> asked = ask(REQUEST);
    FakeSidecar.HoldCall call = bench.sidecar.hold();
    dev.leasehold.v1.LeaseSpec spec = call.request.getSpec();
    assertEquals(WIRE, spec.getOccurrenceAt());
    assertEquals(3, spec.getOccurrenceMaxAttempts());
    call.tell(Messages.granted(grant()));
    Hold hold = soon(asked);
    assertEquals(2, hold.attempt());
    answerReleases(OutcomeResult.OUTCOME_RESULT_RECORDED);
    hold.release(RunOutcome.RUN_OUTCOME_SUCCEEDED, "page 7".getBytes(StandardCharsets.UTF_8));
    hold.close();
    String release = "release lease-1 of generation 1 as RUN_OUTCOME_SUCCEEDED with page 7";
    assertEquals(List.of(release), bench.sidecar.asked());
  }

  @Test
  void t2AnOutcomeThatWasNotRecordedIsToldToTheCaller() throws Exception {
    for (OutcomeResult result :
        List.of(OutcomeResult.OUTCOME_RESULT_NOT_RECORDED, OutcomeResult.OUTCOME_RESULT_UNKNOWN)) {
      Hold hold = held();
      answerReleases(result);
      OutcomeNotRecordedException told =
          assertThrows(
              OutcomeNotRecordedException.class, () -> hold.release(RunOutcome.RUN_OUTCOME_FAILED));
      assertEquals(result, told.result().getOutcomeResult());
    }
  }

  @Test
  void s37ASidecarThatIgnoresTheOutcomeIsFoundOut() throws Exception {
    Hold hold = held();
    RefusedException told =
        assertThrows(RefusedException.class, () -> hold.release(RunOutcome.RUN_OUTCOME_SUCCEEDED));
    assertEquals(Optional.of(Reason.UNSUPPORTED), told.reason());
  }

  @Test
  void t2ThatAnOccurrenceIsOverIsAnAnswer() throws Exception {
    HoldLeaseResponse done = HoldLeaseResponse.newBuilder().setAlreadyDone(DONE).build();
    OccurrenceOverException over =
        assertInstanceOf(OccurrenceOverException.class, answer(REQUEST, done));
    assertEquals(DONE.getRun(), over.run().orElseThrow());
    assertEquals("the occurrence is done: SUCCEEDED", over.getMessage());
    HoldLeaseResponse skipped = HoldLeaseResponse.newBuilder().setSkipped(SKIPPED).build();
    over =
        assertInstanceOf(OccurrenceOverException.class, answer(REQUEST.waitWithoutEnd(), skipped));
    assertEquals(Optional.of(AT), over.watermark());
    assertTrue(over.run().isEmpty());
    assertInstanceOf(ProtocolException.class, answer(LeaseSpec.of("f"), done));
  }

  @Test
  void t2AnAcquireIsAnsweredTheSameWay() throws Exception {
    bench.sidecar.acquire =
        request -> AcquireLeaseResponse.newBuilder().setAlreadyDone(DONE).build();
    assertThrows(OccurrenceOverException.class, () -> bench.client.acquire(REQUEST));
    assertThrows(ProtocolException.class, () -> bench.client.acquire(LeaseSpec.of("f")));
    bench.sidecar.acquire =
        request -> AcquireLeaseResponse.newBuilder().setSkipped(SKIPPED).build();
    assertThrows(OccurrenceOverException.class, () -> bench.client.acquire(REQUEST));
    bench.sidecar.acquire =
        request -> AcquireLeaseResponse.newBuilder().setGranted(grant()).build();
    Grant grant = bench.client.acquire(REQUEST);
    assertEquals(2, grant.attempt());
    answerReleases(OutcomeResult.OUTCOME_RESULT_NOT_RECORDED);
    assertThrows(
        OutcomeNotRecordedException.class,
        () -> bench.client.release(grant.leaseId(), RunOutcome.RUN_OUTCOME_RETURNED));
    answerReleases(OutcomeResult.OUTCOME_RESULT_RECORDED);
    bench.client.release(grant.leaseId(), RunOutcome.RUN_OUTCOME_SUCCEEDED);
    assertEquals(
        "release lease-1 of generation 0 as RUN_OUTCOME_SUCCEEDED", bench.sidecar.asked().get(1));
  }
}
