package dev.leasehold.client;

import static dev.leasehold.client.Bench.soon;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.FakeSidecar.HoldCall;
import dev.leasehold.v1.AcquireLeaseResponse;
import dev.leasehold.v1.Busy;
import dev.leasehold.v1.Grant;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.Understood;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Waiting without end, permits, and sidecars that know neither. */
@Timeout(60)
class WaitTest {
  private static final LeaseSpec ENDLESS = LeaseSpec.of("f").waitWithoutEnd();
  private static final LeaseSpec SHARED = LeaseSpec.of("f").permits(3);

  private Bench bench;

  @BeforeEach
  void open() throws Exception {
    bench = new Bench();
  }

  @AfterEach
  void close() throws Exception {
    bench.close();
  }

  private CompletableFuture<Hold> ask(LeaseSpec request) {
    return bench.client.holdAsync(request, event -> {});
  }

  private static Understood understood(LeaseSpec request) {
    dev.leasehold.v1.LeaseSpec spec = request.toMessage();
    return Understood.newBuilder()
        .setWaitWithoutEnd(spec.getWaitWithoutEnd())
        .setPermits(Math.max(1, spec.getPermits()))
        .build();
  }

  private static Grant grantOf(LeaseSpec request) {
    return Messages.grantHere().toBuilder().setUnderstood(understood(request)).build();
  }

  private static HoldLeaseResponse busy(Busy.Builder busy) {
    return HoldLeaseResponse.newBuilder().setBusy(busy).build();
  }

  @Test
  void aWaitWithoutEndOutlivesRestartsOfTheSidecar() throws Exception {
    CompletableFuture<Hold> asked = ask(ENDLESS);
    for (int restarts = 0; restarts < 2; restarts++) {
      HoldCall call = bench.sidecar.hold();
      dev.leasehold.v1.LeaseSpec spec = call.request.getSpec();
      assertTrue(spec.getWaitWithoutEnd() && !spec.hasWait());
      call.tell(Messages.waiting());
      bench.clock.advance(1_000_000);
      bench.sidecar.kill();
      bench.sidecar.start();
    }
    HoldCall call = bench.sidecar.hold();
    call.tell(Messages.granted(grantHereNow()));
    assertTrue(soon(asked).isValid());
  }

  private Grant grantHereNow() {
    long now = bench.clock.latest().sinceBoot().toSeconds();
    return grantOf(ENDLESS).toBuilder()
        .setValidity(Messages.validity(ManualClock.OURS, now + 58, 58))
        .build();
  }

  @Test
  void aWaitWithoutEndAsksAgainWhereItIsBusyAllTheSame() throws Exception {
    CompletableFuture<Hold> asked = ask(ENDLESS);
    com.google.protobuf.Duration soonAgain = Durations.toWire(Duration.ofMillis(1));
    Busy.Builder busy =
        Busy.newBuilder().setUnderstood(understood(ENDLESS)).setRetryAfter(soonAgain);
    bench.sidecar.hold().tell(busy(busy));
    bench.sidecar.hold().tell(Messages.granted(grantOf(ENDLESS)));
    assertTrue(soon(asked).isValid());
  }

  @Test
  void s28APermitIsAskedForAndBusyTellsHowManyAreHeld() throws Exception {
    CompletableFuture<Hold> asked = ask(SHARED);
    HoldCall call = bench.sidecar.hold();
    assertEquals(3, call.request.getSpec().getPermits());
    call.tell(busy(Busy.newBuilder().setUnderstood(understood(SHARED)).setHeldPermits(3)));
    ExecutionException failed = assertThrows(ExecutionException.class, () -> soon(asked));
    BusyException busy = assertInstanceOf(BusyException.class, failed.getCause());
    assertEquals(3, busy.heldPermits());
  }

  private void assertUnsupported(CompletableFuture<Hold> asked, String field) {
    ExecutionException failed = assertThrows(ExecutionException.class, () -> soon(asked));
    RefusedException refusal = assertInstanceOf(RefusedException.class, failed.getCause());
    assertEquals(Reason.UNSUPPORTED, refusal.reason().orElseThrow());
    String message = refusal.getMessage();
    assertTrue(message.contains(field) && message.contains("older"), message);
  }

  @Test
  void s37AGrantOfASidecarThatKnowsNoPermitsIsReleased() throws Exception {
    CompletableFuture<Hold> asked = ask(SHARED);
    HoldCall call = bench.sidecar.hold();
    call.tell(Messages.granted(Messages.grantHere()));
    assertUnsupported(asked, "permits");
    assertEquals(List.of("release lease-1 of generation 1"), bench.sidecar.asked());
    call.awaitEnd();
  }

  @Test
  void s37ABusyOfASidecarThatDoesNotWaitWithoutEndFails() throws Exception {
    CompletableFuture<Hold> asked = ask(ENDLESS);
    bench.sidecar.hold().tell(busy(Busy.newBuilder()));
    assertUnsupported(asked, "wait_without_end");
  }

  @Test
  void s37AUnaryGrantOfASidecarThatKnowsNoPermitsIsReleased() {
    bench.sidecar.acquire =
        request -> AcquireLeaseResponse.newBuilder().setGranted(Messages.grantHere()).build();
    RefusedException refusal =
        assertThrows(RefusedException.class, () -> bench.client.acquire(SHARED));
    assertEquals(Reason.UNSUPPORTED, refusal.reason().orElseThrow());
    assertEquals(List.of("release lease-1 of generation 0"), bench.sidecar.asked());
  }

  @Test
  void aUnaryCallWaitsForADayInsteadOfWithoutEnd() throws Exception {
    CompletableFuture<dev.leasehold.v1.LeaseSpec> sent = new CompletableFuture<>();
    bench.sidecar.acquire =
        request -> {
          sent.complete(request.getSpec());
          return AcquireLeaseResponse.newBuilder().setGranted(Messages.grantHere()).build();
        };
    bench.client.acquire(ENDLESS);
    assertEquals(Duration.ofHours(24), Durations.fromWire(soon(sent).getWait()));
    assertTrue(!soon(sent).getWaitWithoutEnd());
  }
}
