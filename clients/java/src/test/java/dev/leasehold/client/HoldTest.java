package dev.leasehold.client;

import static dev.leasehold.client.ManualClock.OURS;
import static dev.leasehold.client.ManualClock.at;
import static dev.leasehold.client.Messages.validity;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.google.protobuf.Timestamp;
import dev.leasehold.client.Bench.Held;
import dev.leasehold.client.FakeSidecar.HoldCall;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.v1.AcquireLeaseResponse;
import dev.leasehold.v1.AtRisk;
import dev.leasehold.v1.BreakNote;
import dev.leasehold.v1.Busy;
import dev.leasehold.v1.Deadline;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.Lost;
import dev.leasehold.v1.ReleaseOutcome;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.Revoked;
import io.grpc.Context;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

/** What Java's users have of a hold; what becomes of it, the vectors say. */
class HoldTest extends BenchTest {
  static ReleaseResult taken() {
    return ReleaseResult.newBuilder()
        .setOutcome(ReleaseOutcome.RELEASE_OUTCOME_ALREADY_LOST)
        .setLossReason(LossReason.LOSS_REASON_TAKEN)
        .build();
  }

  private static dev.leasehold.v1.Grant rich() {
    dev.leasehold.v1.Grant.Builder grant = Messages.grantHere().toBuilder().setPermit(2);
    grant
        .getCheckpointBuilder()
        .setValue(ByteString.copyFromUtf8("row 7"))
        .setVersion(12)
        .setFencingToken(65_535)
        .setSavedAt(Timestamp.newBuilder().setSeconds(1_700_000_000));
    Deadline ends =
        Deadline.newBuilder()
            .setAt(validity(OURS, 1_600, 600).getValidUntil())
            .setAfter(Durations.toWire(Duration.ofMinutes(10)))
            .build();
    return grant.setMaxHoldEnds(ends).build();
  }

  @Test
  void s25AGrantIsTold() throws Exception {
    Hold hold = bench.held(rich()).hold();
    bench.sidecar.acquire = request -> AcquireLeaseResponse.newBuilder().setGranted(rich()).build();
    Grant grant = bench.client.acquire(LeaseSpec.of("f"));
    Checkpoint checkpoint = hold.checkpoint().orElseThrow();
    assertEquals(checkpoint.text(), grant.checkpoint().orElseThrow().text());
    assertEquals("row 7", checkpoint.text());
    assertEquals(12, checkpoint.version());
    assertEquals(65_535, checkpoint.fencingToken());
    assertEquals(Optional.of(Instant.ofEpochSecond(1_700_000_000)), checkpoint.savedAt());
    for (int permit : new int[] {hold.permit(), grant.permit()}) {
      assertEquals(2, permit);
    }
    assertEquals(Optional.of(at(1_600)), hold.maxHoldEnds());
    assertEquals(Optional.of(at(1_600)), grant.maxHoldEnds());
    assertEquals(65_536, hold.fencingToken());
    assertEquals(65_536, grant.fencingToken());
    assertEquals("lease-1", hold.leaseId());
    assertEquals("lease-1", grant.leaseId());
    assertEquals("locks/p/h/f/s/FUNCTION", hold.lockPath());
    assertEquals(at(1_058), hold.validUntil());
    assertEquals(at(1_058), grant.validUntil());
    assertEquals(Duration.ofSeconds(58), hold.remaining());
    assertFalse((hold + "" + grant).contains("lease-1"), "S20");
  }

  @Test
  void whatAGrantDoesNotSayIsNotThere() throws Exception {
    Hold hold = bench.held().hold();
    assertEquals(Optional.empty(), hold.maxHoldEnds());
    assertEquals(Optional.empty(), hold.checkpoint());
    assertEquals(0, hold.permit());
  }

  @Test
  void detailsOfEventsAreTold() throws Exception {
    detailsAreTold(OptionalInt.of(0));
    detailsAreTold(OptionalInt.empty());
  }

  private void detailsAreTold(OptionalInt priority) throws Exception {
    Held held = bench.held();
    BreakNote.Builder broken = BreakNote.newBuilder().setReason("deploy").setBrokenBy("ann");
    if (priority.isPresent()) {
      broken.setForPriority(priority.getAsInt());
    }
    BreakNote note = broken.build();
    AtRisk risk =
        AtRisk.newBuilder().setValidity(validity(OURS, 1_058, 58)).setDetail("no route").build();
    Revoked revoked =
        Revoked.newBuilder().setValidity(validity(OURS, 1_058, 58)).setBreakNote(note).build();
    Lost lost =
        Lost.newBuilder().setReason(LossReason.LOSS_REASON_BROKEN).setBreakNote(note).build();
    held.call().tell(HoldLeaseResponse.newBuilder().setAtRisk(risk).build());
    held.call().tell(HoldLeaseResponse.newBuilder().setRevoked(revoked).build());
    held.call().tell(HoldLeaseResponse.newBuilder().setLost(lost).build());
    assertEquals("no route", bench.next(HoldEvent.AtRisk.class).detail());
    Notice notice = new Notice(at(1_058), "deploy", "ann", priority);
    assertEquals(notice, bench.next(HoldEvent.Revoked.class).notice());
    assertEquals(notice, soon(held.hold().revoked()));
    assertEquals(Optional.of(notice), held.hold().notice());
    assertEquals(Optional.of(note), bench.next(HoldEvent.Lost.class).loss().breakNote());
  }

  @Test
  void s33ABusyLockTellsThePriorityStatusThatItKnows() throws Exception {
    for (int unknown : new int[] {0, 9_999}) {
      CompletableFuture<Hold> asked = ask(LeaseSpec.of("f"));
      Busy busy = Busy.newBuilder().setPriorityStatusValue(unknown).setHeldPermits(3).build();
      bench.sidecar.hold().tell(HoldLeaseResponse.newBuilder().setBusy(busy).build());
      BusyException told = failure(BusyException.class, asked);
      assertEquals(Optional.empty(), told.priorityStatus());
      assertFalse(told.getMessage().contains("priority"), told.getMessage());
      assertEquals(3, told.heldPermits());
    }
  }

  @Test
  void s13AClosedClientEndsTheHoldAndWhoWaits() throws Exception {
    Held held = bench.held();
    CompletableFuture<Hold> asked = ask(LeaseSpec.of("g"));
    bench.sidecar.hold();
    bench.client.close();
    assertFalse(held.hold().isValid());
    held.call().awaitEnd();
    LostException lost = assertThrows(LostException.class, held.hold()::close);
    assertEquals("the client was closed", lost.loss().detail());
    failure(RefusedException.class, asked);
  }

  @Test
  void s16AReleaseThatWaitsForAResumeEndsWithTheClient() throws Exception {
    Held held = bench.held();
    held.call().fail(Messages.unavailable());
    bench.sidecar.hold();
    CompletableFuture<ReleaseResult> releasing = held.hold().releaseAsync();
    bench.client.close();
    failure(ReleaseUnconfirmedException.class, releasing);
  }

  @Test
  void s13AReleaseThatFindsTheLockLostSaysSoEachTime() throws Exception {
    bench.sidecar.released = taken();
    Hold hold = bench.held().hold();
    LostException lost = assertThrows(LostException.class, hold::release);
    assertEquals(LossReason.LOSS_REASON_TAKEN, lost.loss().reason());
    assertThrows(LostException.class, hold::close);
    failure(LostException.class, hold.releaseAsync());
  }

  @Test
  void s14AHoldOutlivesTheCallContextThatItWasMadeIn() throws Exception {
    Context.CancellableContext request = Context.current().withCancellation();
    Context before = request.attach();
    Held held;
    try {
      held = bench.held();
    } finally {
      request.detach(before);
    }
    request.cancel(null);
    bench.clock.advance(1);
    held.call().tell(Messages.renewed(validity(OURS, 1_059, 58)));
    bench.next(HoldEvent.Renewed.class);
    assertTrue(held.call().isOpen() && held.hold().isValid());
  }

  @Test
  void aListenerThatBlocksHoldsUpNothing() throws Exception {
    CompletableFuture<Void> never = new CompletableFuture<>();
    CompletableFuture<Hold> asked =
        bench.client.holdAsync(LeaseSpec.of("f"), event -> never.join());
    HoldCall call = grant();
    Hold hold = soon(asked);
    bench.clock.advance(58);
    soon(hold.lost());
    call.awaitEnd();
    never.complete(null);
  }
}
