package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Timestamp;
import dev.leasehold.v1.AcquireLeaseResponse;
import dev.leasehold.v1.AlreadyDone;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.OutcomeResult;
import dev.leasehold.v1.ReleaseOutcome;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.RunOutcome;
import dev.leasehold.v1.Skipped;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

/** Occurrences that the caller names: what is asked, what is answered, and what is told. */
class OccurrenceTest extends BenchTest {
  private static final Instant AT = Instant.ofEpochSecond(1_800_000_000);
  private static final Timestamp WIRE = FakeSchedules.at(1_800_000_000);
  private static final LeaseSpec REQUEST =
      LeaseSpec.of("f").occurrence(AT).occurrenceMaxAttempts(3);
  private static final RunOutcome FAILED = RunOutcome.RUN_OUTCOME_FAILED;
  private static final dev.leasehold.v1.Grant GRANT =
      Messages.grantHere().toBuilder().setAttempt(2).build();

  private Hold held() throws Exception {
    CompletableFuture<Hold> asked = ask(REQUEST);
    FakeSidecar.HoldCall call = bench.sidecar.hold();
    assertEquals(WIRE, call.request.getSpec().getOccurrenceAt());
    assertEquals(3, call.request.getSpec().getOccurrenceMaxAttempts());
    call.tell(Messages.granted(GRANT));
    assertEquals(2, soon(asked).attempt());
    return soon(asked);
  }

  @Test
  void t2AnOutcomeThatWasNotRecordedIsToldToTheCaller() throws Exception {
    bench.sidecar.acquire = request -> AcquireLeaseResponse.newBuilder().setGranted(GRANT).build();
    assertEquals(2, bench.client.acquire(REQUEST).attempt());
    for (OutcomeResult result : OutcomeResult.values()) {
      if (result == OutcomeResult.UNRECOGNIZED) {
        continue;
      }
      bench.sidecar.released =
          ReleaseResult.newBuilder()
              .setOutcome(ReleaseOutcome.RELEASE_OUTCOME_RELEASED)
              .setOutcomeResult(result)
              .build();
      Hold hold = held();
      switch (result) {
        case OUTCOME_RESULT_RECORDED -> {
          hold.release(FAILED);
          bench.client.release("lease-1", FAILED);
        }
        // S37: the sidecar says what became of it, if it knows of occurrences.
        case OUTCOME_RESULT_UNSPECIFIED -> {
          RefusedException told = assertThrows(RefusedException.class, () -> hold.release(FAILED));
          assertEquals(Optional.of(Reason.UNSUPPORTED), told.reason());
        }
        default -> {
          OutcomeNotRecordedException told =
              assertThrows(OutcomeNotRecordedException.class, () -> hold.release(FAILED));
          assertEquals(result, told.result().getOutcomeResult());
          assertThrows(
              OutcomeNotRecordedException.class, () -> bench.client.release("lease-1", FAILED));
        }
      }
    }
  }

  @Test
  void t2ThatAnOccurrenceIsOverIsAnAnswer() throws Exception {
    AlreadyDone.Builder done = AlreadyDone.newBuilder();
    done.getRunBuilder().setScheduledAt(WIRE).setOutcome(RunOutcome.RUN_OUTCOME_SUCCEEDED);
    Skipped.Builder skipped = Skipped.newBuilder().setWatermark(WIRE);
    CompletableFuture<Hold> asked = ask(REQUEST);
    bench.sidecar.hold().tell(HoldLeaseResponse.newBuilder().setAlreadyDone(done).build());
    OccurrenceOverException over = failure(OccurrenceOverException.class, asked);
    assertEquals(done.getRun(), over.run().orElseThrow());
    asked = ask(REQUEST.waitWithoutEnd());
    bench.sidecar.hold().tell(HoldLeaseResponse.newBuilder().setSkipped(skipped).build());
    over = failure(OccurrenceOverException.class, asked);
    assertEquals(Optional.of(AT), over.watermark());
    assertTrue(over.run().isEmpty());
    asked = ask(LeaseSpec.of("f"));
    bench.sidecar.hold().tell(HoldLeaseResponse.newBuilder().setAlreadyDone(done).build());
    failure(ProtocolException.class, asked);

    bench.sidecar.acquire =
        request -> AcquireLeaseResponse.newBuilder().setAlreadyDone(done).build();
    assertThrows(OccurrenceOverException.class, () -> bench.client.acquire(REQUEST));
    assertThrows(ProtocolException.class, () -> bench.client.acquire(LeaseSpec.of("f")));
    bench.sidecar.acquire =
        request -> AcquireLeaseResponse.newBuilder().setSkipped(skipped).build();
    assertThrows(OccurrenceOverException.class, () -> bench.client.acquire(REQUEST));
  }
}
