package dev.leasehold.client;

import static dev.leasehold.client.ManualClock.OURS;
import static dev.leasehold.client.Messages.validity;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import dev.leasehold.client.Bench.Held;
import dev.leasehold.v1.CheckpointOutcome;
import dev.leasehold.v1.SaveCheckpointResponse;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

/** Saves, and releases with a save (S23 to S27). */
class CheckpointTest extends BenchTest {
  private void refuseSaves(StatusRuntimeException refusal) {
    bench.sidecar.save =
        request -> {
          throw refusal;
        };
  }

  private static Optional<Reason> refused(org.junit.jupiter.api.function.Executable call) {
    return assertThrows(RefusedException.class, call).reason();
  }

  @Test
  void s26TheNewestSaveIsTheCheckpointFromThenOn() throws Exception {
    Hold hold = bench.held().hold();
    CompletableFuture<Void> newer = new CompletableFuture<>();
    bench.sidecar.save =
        request -> {
          if (request.getValue().equals(ByteString.copyFromUtf8("first"))) {
            newer.join();
          }
          return SaveCheckpointResponse.newBuilder()
              .setVersion(7)
              .setValidity(validity(OURS, 1_060, 60))
              .build();
        };
    CompletableFuture<Long> first = hold.saveAsync("first".getBytes(StandardCharsets.UTF_8));
    assertEquals(7, hold.save("second"));
    newer.complete(null);
    assertEquals(7, soon(first));
    assertEquals("second", hold.checkpoint().orElseThrow().text());
    assertEquals(7, hold.checkpoint().orElseThrow().version());
  }

  @Test
  void aValueThatIsTooLongIsNotSentAndReleasesNothing() throws Exception {
    byte[] tooLong = new byte[2_049];
    Hold hold = bench.held().hold();
    assertEquals(Optional.of(Reason.INVALID_FIELD), refused(() -> hold.save(tooLong)));
    assertEquals(Optional.of(Reason.INVALID_FIELD), refused(() -> hold.release(tooLong)));
    assertEquals(
        Optional.of(Reason.INVALID_FIELD),
        refused(() -> Completion.succeeded().withCheckpoint(tooLong)));
    assertTrue(hold.isValid());
    assertEquals(List.of(), bench.sidecar.asked());
  }

  @Test
  void s27ASaveOfUnknownOutcomeHasAnExceptionOfItsOwn() throws Exception {
    Hold hold = bench.held().hold();
    Status.Code code = Status.Code.UNAVAILABLE;
    refuseSaves(Messages.error(code, "no", "CHECKPOINT_UNKNOWN", Map.of()));
    assertThrows(CheckpointUnknownException.class, () -> hold.save("x"));
    refuseSaves(Messages.unavailable());
    assertThrows(CheckpointUnknownException.class, () -> hold.save("x"));
    refuseSaves(Messages.error(code, "no", "STORE_THROTTLED", Map.of()));
    assertEquals(Optional.of(Reason.STORE_THROTTLED), refused(() -> hold.save("x")));
    assertTrue(hold.checkpoint().isEmpty());
    hold.release();
    int asked = bench.sidecar.asked().size();
    assertEquals(Optional.of(Reason.HOLD_RELEASED), refused(() -> hold.save("x")));
    assertEquals(asked, bench.sidecar.asked().size(), "S13: nothing is sent after a release");
  }

  @Test
  void s16ASaveThatWaitsForAResumeEndsWithTheValidity() throws Exception {
    Held held = bench.held();
    held.call().fail(Messages.unavailable());
    bench.sidecar.hold();
    CompletableFuture<Long> save = held.hold().saveAsync(new byte[1]);
    bench.clock.advance(58);
    failure(LostException.class, save);
    assertEquals(List.of(), bench.sidecar.asked());
  }

  @Test
  void s26ALossThatAReleaseFindsTellsWhatBecameOfTheCheckpoint() throws Exception {
    CheckpointOutcome outcome = CheckpointOutcome.CHECKPOINT_OUTCOME_UNKNOWN;
    Hold hold = bench.held().hold();
    bench.sidecar.released = HoldTest.taken().toBuilder().setCheckpointOutcome(outcome).build();
    LostException lost = assertThrows(LostException.class, () -> hold.release("row 9"));
    assertEquals(outcome, lost.checkpointOutcome());
  }

  @Test
  void s37AReleaseWhoseCheckpointWasIgnoredFails() throws Exception {
    Hold hold = bench.held().hold();
    assertEquals(Optional.of(Reason.UNSUPPORTED), refused(() -> hold.release("row 9")));
  }
}
