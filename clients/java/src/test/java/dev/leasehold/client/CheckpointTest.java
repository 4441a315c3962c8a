package dev.leasehold.client;

import static dev.leasehold.client.Bench.soon;
import static dev.leasehold.client.ManualClock.OURS;
import static dev.leasehold.client.ManualClock.at;
import static dev.leasehold.client.Messages.validity;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import dev.leasehold.client.Bench.Held;
import dev.leasehold.client.FakeSidecar.HoldCall;
import dev.leasehold.v1.CheckpointOutcome;
import dev.leasehold.v1.Grant;
import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.ReleaseOutcome;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.SaveCheckpointResponse;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Saves, and releases with a save (S23 to S27). */
@Timeout(60)
class CheckpointTest {
  private static final byte[] TOO_LONG = new byte[2_049];

  private Bench bench;

  @BeforeEach
  void open() throws Exception {
    bench = new Bench();
  }

  @AfterEach
  void close() throws Exception {
    bench.close();
  }

  private static SaveCheckpointResponse saved(long version) {
    return SaveCheckpointResponse.newBuilder()
        .setVersion(version)
        .setValidity(validity(OURS, 1_060, 60))
        .build();
  }

  private void refuseSaves(Status.Code code, String reason, Map<String, String> metadata) {
    StatusRuntimeException refusal = Messages.error(code, "no", reason, metadata);
    bench.sidecar.save =
        request -> {
          throw refusal;
        };
  }

  @Test
  void s24ASaveTellsItsVersionAndIsTheCheckpointFromThenOn() throws Exception {
    Hold hold = bench.held().hold();
    bench.sidecar.save = request -> saved(65_536);
    assertEquals(65_536, hold.save("row 8"));
    assertEquals("row 8", hold.checkpoint().orElseThrow().text());
    assertEquals(65_536, hold.checkpoint().orElseThrow().version());
    assertEquals(at(1_060), hold.validUntil(), "S21: an answer to the client's own request");
    assertEquals(List.of("save row 8 of generation 1"), bench.sidecar.asked());
  }

  @Test
  void s26ASaveThatANewerOneReplacedDoesNotCount() throws Exception {
    Hold hold = bench.held().hold();
    CompletableFuture<Void> newer = new CompletableFuture<>();
    bench.sidecar.save =
        request -> {
          if (request.getValue().equals(ByteString.copyFromUtf8("first"))) {
            newer.join();
          }
          return saved(7);
        };
    CompletableFuture<Long> first = hold.saveAsync("first".getBytes(StandardCharsets.UTF_8));
    hold.save("second");
    newer.complete(null);
    assertEquals(7, soon(first));
    assertEquals("second", hold.checkpoint().orElseThrow().text());
  }

  @Test
  void aValueThatIsTooLongIsNotSentAndReleasesNothing() throws Exception {
    Hold hold = bench.held().hold();
    RefusedException save = assertThrows(RefusedException.class, () -> hold.save(TOO_LONG));
    assertEquals(Reason.INVALID_FIELD, save.reason().orElseThrow());
    assertEquals("value", save.violations().get(0).field());
    RefusedException release = assertThrows(RefusedException.class, () -> hold.release(TOO_LONG));
    assertEquals("checkpoint", release.violations().get(0).field());
    assertTrue(hold.isValid());
    assertEquals(List.of(), bench.sidecar.asked());
  }

  @Test
  void s24ASaveOfAHoldThatIsLostSaysSoAndEndsIt() throws Exception {
    Hold hold = bench.held().hold();
    Status.Code code = Status.Code.FAILED_PRECONDITION;
    refuseSaves(code, "HOLD_LOST", Map.of("loss_reason", "TAKEN"));
    LostException lost = assertThrows(LostException.class, () -> hold.save("x"));
    assertEquals(LossReason.LOSS_REASON_TAKEN, lost.loss().reason());
    assertFalse(hold.isValid());
    assertThrows(LostException.class, () -> hold.save("y"));
    assertEquals(1, bench.sidecar.asked().size(), "nothing is sent under a lost hold");
  }

  @Test
  void s13ASaveAfterTheReleaseIsNotSent() throws Exception {
    Hold hold = bench.held().hold();
    hold.release();
    RefusedException refusal = assertThrows(RefusedException.class, () -> hold.save("x"));
    assertEquals(Reason.HOLD_RELEASED, refusal.reason().orElseThrow());
    assertEquals(List.of("release lease-1 of generation 1"), bench.sidecar.asked());
  }

  @Test
  void s27ASaveOfUnknownOutcomeHasAnExceptionOfItsOwn() throws Exception {
    Hold hold = bench.held().hold();
    refuseSaves(Status.Code.UNAVAILABLE, "CHECKPOINT_UNKNOWN", Map.of());
    assertThrows(CheckpointUnknownException.class, () -> hold.save("x"));
    bench.sidecar.save =
        request -> {
          throw Messages.unavailable();
        };
    assertThrows(CheckpointUnknownException.class, () -> hold.save("x"));
    refuseSaves(Status.Code.UNAVAILABLE, "STORE_THROTTLED", Map.of());
    assertThrows(RefusedException.class, () -> hold.save("x"));
    assertTrue(hold.checkpoint().isEmpty());
  }

  @Test
  void s16ASaveWaitsForTheResumeAndCarriesItsGeneration() throws Exception {
    Held held = bench.held();
    bench.sidecar.save = request -> saved(9);
    held.call().fail(Messages.unavailable());
    HoldCall call = bench.sidecar.hold();
    byte[] value = "x".getBytes(StandardCharsets.UTF_8);
    CompletableFuture<Long> save = held.hold().saveAsync(value);
    assertEquals(List.of(), bench.sidecar.asked());
    Grant again = Messages.grantHere().toBuilder().setGeneration(2).build();
    call.tell(Messages.granted(again));
    assertEquals(9, soon(save));
    assertEquals(List.of("save x of generation 2"), bench.sidecar.asked());
  }

  @Test
  void s16ASaveThatWaitsForAResumeEndsWithTheValidity() throws Exception {
    Held held = bench.held();
    held.call().fail(Messages.unavailable());
    bench.sidecar.hold();
    CompletableFuture<Long> save = held.hold().saveAsync(new byte[1]);
    bench.clock.advance(58);
    ExecutionException failed = assertThrows(ExecutionException.class, () -> soon(save));
    assertInstanceOf(LostException.class, failed.getCause());
    assertEquals(List.of(), bench.sidecar.asked());
  }

  private static ReleaseResult result(CheckpointOutcome outcome) {
    return ReleaseResult.newBuilder()
        .setOutcome(ReleaseOutcome.RELEASE_OUTCOME_RELEASED)
        .setCheckpointOutcome(outcome)
        .build();
  }

  @Test
  void s26AReleaseCarriesACheckpointAndTellsBothOutcomes() throws Exception {
    Hold hold = bench.held().hold();
    bench.sidecar.released = result(CheckpointOutcome.CHECKPOINT_OUTCOME_NOT_SAVED);
    ReleaseResult result = hold.release("row 9");
    assertEquals(ReleaseOutcome.RELEASE_OUTCOME_RELEASED, result.getOutcome());
    assertEquals(CheckpointOutcome.CHECKPOINT_OUTCOME_NOT_SAVED, result.getCheckpointOutcome());
    hold.close();
    assertEquals(List.of("release lease-1 of generation 1 with row 9"), bench.sidecar.asked());
  }

  @Test
  void s26ALossThatAReleaseFindsTellsWhatBecameOfTheCheckpoint() throws Exception {
    Hold hold = bench.held().hold();
    bench.sidecar.released =
        HoldTest.taken().toBuilder()
            .setCheckpointOutcome(CheckpointOutcome.CHECKPOINT_OUTCOME_UNKNOWN)
            .build();
    LostException lost = assertThrows(LostException.class, () -> hold.release("row 9"));
    assertEquals(CheckpointOutcome.CHECKPOINT_OUTCOME_UNKNOWN, lost.checkpointOutcome());
  }

  @Test
  void s37AReleaseWhoseCheckpointWasIgnoredFails() throws Exception {
    Hold hold = bench.held().hold();
    RefusedException refusal = assertThrows(RefusedException.class, () -> hold.release("row 9"));
    assertEquals(Reason.UNSUPPORTED, refusal.reason().orElseThrow());
    assertFalse(hold.isValid());
  }
}
