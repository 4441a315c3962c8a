package dev.leasehold.client;

import static dev.leasehold.client.Bench.eventually;
import static dev.leasehold.client.Bench.soon;
import static dev.leasehold.client.ManualClock.ELSEWHERE;
import static dev.leasehold.client.ManualClock.OURS;
import static dev.leasehold.client.ManualClock.at;
import static dev.leasehold.client.Messages.validity;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.protobuf.ByteString;
import com.google.protobuf.Timestamp;
import dev.leasehold.client.Bench.Held;
import dev.leasehold.client.FakeSidecar.HoldCall;
import dev.leasehold.v1.AcquireLeaseResponse;
import dev.leasehold.v1.Checkpoint;
import dev.leasehold.v1.Deadline;
import dev.leasehold.v1.GetHoldResponse;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.HoldState;
import dev.leasehold.v1.Renewed;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What a grant tells beside the token and the validity. */
@Timeout(60)
class GrantTest {
  private Bench bench;

  @BeforeEach
  void open() throws Exception {
    bench = new Bench();
  }

  @AfterEach
  void close() throws Exception {
    bench.close();
  }

  /** A deadline in the words of a sidecar with that boot clock. */
  private static Deadline deadline(String bootId, long at, long after) {
    return Deadline.newBuilder()
        .setAt(validity(bootId, at, after).getValidUntil())
        .setAfter(Durations.toWire(Duration.ofSeconds(after)))
        .build();
  }

  @Test
  void s11TheEndOfMaxHoldIsReadOnOurBootClock() throws Exception {
    dev.leasehold.v1.Grant grant =
        Messages.grantHere().toBuilder().setMaxHoldEnds(deadline(OURS, 1_600, 600)).build();
    Held held = bench.held(grant);
    assertEquals(Optional.of(at(1_600)), held.hold().maxHoldEnds());
    Renewed extended =
        Renewed.newBuilder()
            .setValidity(validity(OURS, 1_058, 58))
            .setMaxHoldEnds(deadline(OURS, 1_700, 700))
            .build();
    held.call().tell(HoldLeaseResponse.newBuilder().setRenewed(extended).build());
    bench.next(HoldEvent.Renewed.class);
    assertEquals(Optional.of(at(1_700)), held.hold().maxHoldEnds());
    held.hold().extend(Duration.ofSeconds(90));
    assertEquals(Optional.of(at(1_090)), held.hold().maxHoldEnds());
  }

  @Test
  void s21ElsewhereTheEndOfMaxHoldCountsFromBeforeTheRequest() throws Exception {
    CompletableFuture<Hold> asked = bench.ask();
    HoldCall call = bench.sidecar.hold();
    bench.clock.advance(5);
    dev.leasehold.v1.Grant grant =
        Messages.grant(validity(ELSEWHERE, 70, 58)).toBuilder()
            .setMaxHoldEnds(deadline(ELSEWHERE, 612, 600))
            .build();
    call.tell(Messages.granted(grant));
    Hold hold = soon(asked);
    assertEquals(Optional.of(at(1_600)), hold.maxHoldEnds());
    bench.sidecar.holdInfo =
        request ->
            Messages.info(validity(ELSEWHERE, 95, 58)).toBuilder()
                .setMaxHoldEnds(deadline(ELSEWHERE, 612, 580))
                .build();
    bench.clock.advance(30);
    eventually(
        "the answer to the client's own question counts",
        () -> hold.maxHoldEnds().equals(Optional.of(at(1_615))));
  }

  @Test
  void noLimitNoCheckpointAndPermitZeroWithoutWordOfThem() throws Exception {
    Hold hold = bench.held().hold();
    assertEquals(Optional.empty(), hold.maxHoldEnds());
    assertEquals(Optional.empty(), hold.checkpoint());
    assertEquals(0, hold.permit());
  }

  private static dev.leasehold.v1.Grant rich() {
    Checkpoint checkpoint =
        Checkpoint.newBuilder()
            .setValue(ByteString.copyFromUtf8("row 7"))
            .setVersion(12)
            .setFencingToken(65_535)
            .setSavedAt(Timestamp.newBuilder().setSeconds(1_700_000_000))
            .build();
    return Messages.grantHere().toBuilder()
        .setPermit(2)
        .setCheckpoint(checkpoint)
        .setMaxHoldEnds(deadline(OURS, 1_600, 600))
        .build();
  }

  private static void check(dev.leasehold.client.Checkpoint checkpoint) {
    assertArrayEquals("row 7".getBytes(StandardCharsets.UTF_8), checkpoint.bytes());
    assertEquals("row 7", checkpoint.text());
    assertEquals(12, checkpoint.version());
    assertEquals(65_535, checkpoint.fencingToken());
    assertEquals(Optional.of(Instant.ofEpochSecond(1_700_000_000)), checkpoint.savedAt());
  }

  @Test
  void s25AGrantTellsItsCheckpointAndPermit() throws Exception {
    Hold hold = bench.held(rich()).hold();
    assertEquals(2, hold.permit());
    check(hold.checkpoint().orElseThrow());
  }

  @Test
  void aGrantByAUnaryCallTellsTheSame() throws Exception {
    bench.sidecar.acquire = request -> AcquireLeaseResponse.newBuilder().setGranted(rich()).build();
    Grant grant = bench.client.acquire(LeaseSpec.of("f"));
    assertEquals(2, grant.permit());
    assertEquals(Optional.of(at(1_600)), grant.maxHoldEnds());
    check(grant.checkpoint().orElseThrow());
  }

  @Test
  void aHoldTellsItsStateAndTheAnswerCounts() throws Exception {
    Hold hold = bench.held().hold();
    bench.sidecar.holdInfo =
        request ->
            GetHoldResponse.newBuilder()
                .setState(HoldState.HOLD_STATE_HELD)
                .setValidity(validity(OURS, 1_060, 60))
                .build();
    assertEquals(HoldState.HOLD_STATE_HELD, hold.info().getState());
    assertEquals(at(1_060), hold.validUntil());
    assertEquals(List.of("get hold of generation 1"), bench.sidecar.asked());
  }
}
