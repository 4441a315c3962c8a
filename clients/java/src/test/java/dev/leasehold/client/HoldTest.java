package dev.leasehold.client;

import static dev.leasehold.client.Bench.eventually;
import static dev.leasehold.client.Bench.soon;
import static dev.leasehold.client.ManualClock.ELSEWHERE;
import static dev.leasehold.client.ManualClock.OURS;
import static dev.leasehold.client.ManualClock.at;
import static dev.leasehold.client.Messages.validity;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.Bench.Held;
import dev.leasehold.client.FakeSidecar.HoldCall;
import dev.leasehold.v1.AtRisk;
import dev.leasehold.v1.Draining;
import dev.leasehold.v1.ErrorReason;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.Lost;
import dev.leasehold.v1.Recovered;
import dev.leasehold.v1.ReleaseOutcome;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.Released;
import io.grpc.Context;
import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class HoldTest {
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
  void aHoldTellsItsGrant() throws Exception {
    Held held = bench.held();
    Hold hold = held.hold();
    assertEquals("f", held.call().request.getSpec().getKey().getFunction());
    assertEquals(65_536, hold.fencingToken());
    assertEquals("lease-1", hold.leaseId());
    assertEquals("locks/p/h/f/s/FUNCTION", hold.lockPath());
    assertEquals(at(1_058), hold.validUntil());
    assertEquals(Duration.ofSeconds(58), hold.remaining());
    assertTrue(hold.isValid());
    assertFalse(hold.toString().contains("lease-1"), "S20");
  }

  @Test
  void eventsComeInTheirOrder() throws Exception {
    Held held = bench.held();
    bench.clock.advance(3);
    held.call().tell(Messages.renewed(validity(OURS, 1_059, 58)));
    assertEquals(at(1_059), bench.next(HoldEvent.Renewed.class).validUntil());
    AtRisk atRisk =
        AtRisk.newBuilder()
            .setValidity(validity(OURS, 1_059, 57))
            .setCause(ErrorReason.ERROR_REASON_STORE_UNAVAILABLE)
            .setDetail("no route")
            .build();
    held.call().tell(HoldLeaseResponse.newBuilder().setAtRisk(atRisk).build());
    Recovered recovered = Recovered.newBuilder().setValidity(validity(OURS, 1_060, 57)).build();
    held.call().tell(HoldLeaseResponse.newBuilder().setRecovered(recovered).build());
    Draining draining =
        Draining.newBuilder().setTimeLeft(Durations.toWire(Duration.ofSeconds(20))).build();
    held.call().tell(HoldLeaseResponse.newBuilder().setDraining(draining).build());
    Lost lost =
        Lost.newBuilder().setReason(LossReason.LOSS_REASON_SHUTDOWN).setDetail("drained").build();
    held.call().tell(HoldLeaseResponse.newBuilder().setLost(lost).build());
    assertEquals(
        Reason.STORE_UNAVAILABLE, bench.next(HoldEvent.AtRisk.class).cause().orElseThrow());
    assertEquals(at(1_060), bench.next(HoldEvent.Recovered.class).validUntil());
    assertEquals(Duration.ofSeconds(20), bench.next(HoldEvent.Draining.class).timeLeft());
    assertEquals("SHUTDOWN: drained", bench.next(HoldEvent.Lost.class).loss().toString());
    assertEquals("SHUTDOWN: drained", soon(held.hold().lost()).toString());
    assertFalse(held.hold().isValid());
  }

  @Test
  void s4LostAtValidUntilThoughNobodySaysSo() throws Exception {
    Held held = bench.held();
    bench.clock.advance(57);
    assertTrue(held.hold().isValid());
    bench.clock.advance(1);
    assertFalse(held.hold().isValid());
    assertEquals(Duration.ZERO, held.hold().remaining());
    assertEquals(LossReason.LOSS_REASON_EXPIRED, soon(held.hold().lost()).reason());
    bench.next(HoldEvent.Lost.class);
    held.call().awaitEnd();
  }

  @Test
  void s4TheTimerFindsTheEndThoughNobodyAsks() throws Exception {
    Held held = bench.held();
    bench.clock.advance(58);
    assertEquals(LossReason.LOSS_REASON_EXPIRED, soon(held.hold().lost()).reason());
  }

  @Test
  void s4ARenewalThatWaitedInTheSocketRevivesNothing() throws Exception {
    Held held = bench.held();
    // As after a pause of the process: the clock has passed the validity, and the renewal is read
    // only now.
    bench.clock.advance(60);
    held.call().tell(Messages.renewed(validity(OURS, 1_100, 58)));
    bench.next(HoldEvent.Lost.class);
    assertFalse(held.hold().isValid());
    bench.clock.advance(1);
    assertFalse(held.hold().isValid());
  }

  @Test
  void s13TheHoldEndsBeforeTheReleaseIsSent() throws Exception {
    Held held = bench.held();
    AtomicBoolean valid = new AtomicBoolean(true);
    bench.sidecar.onRelease = () -> valid.set(held.hold().isValid());
    ReleaseResult result = held.hold().release();
    assertEquals(ReleaseOutcome.RELEASE_OUTCOME_RELEASED, result.getOutcome());
    assertFalse(valid.get());
    held.call().awaitEnd();
    held.hold().close();
    assertEquals(List.of("release lease-1 of generation 1"), bench.sidecar.asked(), "once");
  }

  @Test
  void s13AClosedClientEndsTheHoldAndThenTheConnection() throws Exception {
    Held held = bench.held();
    bench.client.close();
    assertFalse(held.hold().isValid());
    held.call().awaitEnd();
    LostException lost = assertThrows(LostException.class, held.hold()::close);
    assertEquals("the client was closed", lost.loss().detail());
  }

  @Test
  void whoWaitsForALockIsToldThatTheClientWasClosed() throws Exception {
    CompletableFuture<Hold> asked = bench.ask();
    bench.sidecar.hold();
    bench.client.close();
    ExecutionException error = assertThrows(ExecutionException.class, () -> soon(asked));
    assertInstanceOf(RefusedException.class, error.getCause());
  }

  @Test
  void releasingWhatIsLostSaysSoAndThatItIsKnown() throws Exception {
    Held held = bench.held();
    bench.clock.advance(58);
    LostException lost = assertThrows(LostException.class, held.hold()::release);
    assertEquals(LossReason.LOSS_REASON_EXPIRED, lost.loss().reason());
    assertEquals(List.of("release lease-1 of generation 1"), bench.sidecar.asked());
    assertThrows(LostException.class, held.hold()::close);
  }

  @Test
  void s13AReleaseThatWasNotConfirmedIsHandedOnAndIsNoLoss() throws Exception {
    bench.sidecar.released =
        ReleaseResult.newBuilder().setOutcome(ReleaseOutcome.RELEASE_OUTCOME_NOT_CONFIRMED).build();
    Held held = bench.held();
    assertEquals(ReleaseOutcome.RELEASE_OUTCOME_NOT_CONFIRMED, held.hold().release().getOutcome());
    held.hold().close();
  }

  static ReleaseResult taken() {
    return ReleaseResult.newBuilder()
        .setOutcome(ReleaseOutcome.RELEASE_OUTCOME_ALREADY_LOST)
        .setLossReason(LossReason.LOSS_REASON_TAKEN)
        .build();
  }

  @Test
  void s13AReleaseThatFindsTheLockLostSaysSo() throws Exception {
    bench.sidecar.released = taken();
    Held held = bench.held();
    LostException lost = assertThrows(LostException.class, held.hold()::release);
    assertEquals(LossReason.LOSS_REASON_TAKEN, lost.loss().reason());
    assertThrows(LostException.class, held.hold()::close);
    ExecutionException later =
        assertThrows(ExecutionException.class, () -> soon(held.hold().releaseAsync()));
    assertInstanceOf(LostException.class, later.getCause());
  }

  @Test
  void aReleaseByAnotherIsALoss() throws Exception {
    Held held = bench.held();
    held.call()
        .tell(HoldLeaseResponse.newBuilder().setReleased(Released.getDefaultInstance()).build());
    assertEquals(LossReason.LOSS_REASON_UNSPECIFIED, soon(held.hold().lost()).reason());
  }

  @Test
  void s21ElsewhereTheSidecarIsAskedOnceAboutEachRenewal() throws Exception {
    Held held = bench.held(Messages.grant(validity(ELSEWHERE, 70, 58)));
    bench.sidecar.holdInfo = request -> Messages.info(validity(ELSEWHERE, 90, 58));
    Duration expected = Duration.ofSeconds(58);
    int count = 0;
    // The last is the one with which a sidecar hands over (S15).
    for (int passed : List.of(20, 20, 20, 7)) {
      bench.clock.advance(passed);
      held.call().tell(Messages.renewed(validity(ELSEWHERE, 90, 58)));
      eventually("the answer counts", () -> held.hold().remaining().equals(expected));
      count++;
      assertEquals(count, bench.sidecar.asked().size());
    }
  }

  @Test
  void s21ElsewhereTheSidecarIsAskedAndItsWordsUnaskedForExtendNothing() throws Exception {
    Held held = bench.held(Messages.grant(validity(ELSEWHERE, 70, 58)));
    held.call().tell(Messages.renewed(validity(ELSEWHERE, 90, 58)));
    bench.next(HoldEvent.Renewed.class);
    assertEquals(Duration.ofSeconds(58), held.hold().remaining());
    bench.sidecar.holdInfo = request -> Messages.info(validity(ELSEWHERE, 95, 50));
    bench.clock.advance(30);
    Duration expected = Duration.ofSeconds(50);
    eventually(
        "the answer counts from the question", () -> held.hold().remaining().equals(expected));
    assertEquals(List.of("get hold of generation 1"), bench.sidecar.asked());
  }

  @Test
  void s21ElsewhereAGrantAfterALongWaitIsAskedAboutFirst() throws Exception {
    bench.sidecar.holdInfo = request -> Messages.info(validity(ELSEWHERE, 95, 57));
    CompletableFuture<Hold> asked = bench.ask();
    HoldCall call = bench.sidecar.hold();
    bench.clock.advance(500);
    call.tell(Messages.granted(Messages.grant(validity(ELSEWHERE, 70, 58))));
    assertEquals(Duration.ofSeconds(57), soon(asked).remaining());
  }

  @Test
  void s2AGrantThatIsReadTooLateIsNoGrant() throws Exception {
    CompletableFuture<Hold> asked = bench.ask();
    HoldCall call = bench.sidecar.hold();
    bench.clock.advance(500);
    call.tell(Messages.granted(Messages.grant(validity(OURS, 1_100, 58))));
    assertThrows(LostException.class, () -> Calls.await(asked));
    call.awaitEnd();
  }

  @Test
  void s11ProgressIsReportedAndItsAnswerCounts() throws Exception {
    Hold hold = bench.held().hold();
    bench.sidecar.report = request -> validity(OURS, 1_060, 60);
    hold.reportProgress();
    assertEquals(Duration.ofSeconds(60), hold.remaining());
    hold.extend(Duration.ofSeconds(90));
    assertEquals(Duration.ofSeconds(90), hold.remaining());
    assertEquals(
        List.of("report of generation 1", "extend 90 of generation 1"), bench.sidecar.asked());
  }

  @Test
  void anAnswerThatTellsOfTheLossEndsTheHold() throws Exception {
    Hold hold = bench.held().hold();
    bench.sidecar.report =
        request -> {
          throw Messages.error(
              Status.Code.FAILED_PRECONDITION,
              "hung",
              "HOLD_LOST",
              Map.of("loss_reason", "NO_PROGRESS"));
        };
    RefusedException error = assertThrows(RefusedException.class, hold::reportProgress);
    assertEquals(Reason.HOLD_LOST, error.reason().orElseThrow());
    assertFalse(hold.isValid());
    assertEquals(LossReason.LOSS_REASON_NO_PROGRESS, soon(hold.lost()).reason());
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
    HoldCall call = bench.sidecar.hold();
    call.tell(Messages.granted(Messages.grantHere()));
    Hold hold = soon(asked);
    bench.clock.advance(58);
    soon(hold.lost());
    never.complete(null);
  }
}
