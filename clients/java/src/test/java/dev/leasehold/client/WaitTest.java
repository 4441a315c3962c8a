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
import dev.leasehold.v1.HoldLeaseRequest;
import dev.leasehold.v1.HoldLeaseResponse;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Waiting without end, permits, and sidecars that are too old. */
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
    return Messages.grantHere().toBuilder()
        .setValidity(Messages.validity(ManualClock.OURS, now + 58, 58))
        .build();
  }

  @Test
  void aWaitWithoutEndAsksAgainWhereItIsBusyAllTheSame() throws Exception {
    CompletableFuture<Hold> asked = ask(ENDLESS);
    com.google.protobuf.Duration soonAgain = Durations.toWire(Duration.ofMillis(1));
    bench.sidecar.hold().tell(busy(Busy.newBuilder().setRetryAfter(soonAgain)));
    bench.sidecar.hold().tell(Messages.granted(Messages.grantHere()));
    assertTrue(soon(asked).isValid());
  }

  @Test
  void s28APermitIsAskedForAndBusyTellsHowManyAreHeld() throws Exception {
    CompletableFuture<Hold> asked = ask(SHARED);
    HoldCall call = bench.sidecar.hold();
    assertEquals(3, call.request.getSpec().getPermits());
    call.tell(busy(Busy.newBuilder().setHeldPermits(3)));
    ExecutionException failed = assertThrows(ExecutionException.class, () -> soon(asked));
    BusyException busy = assertInstanceOf(BusyException.class, failed.getCause());
    assertEquals(3, busy.heldPermits());
  }

  @Test
  void s37ARequestNeedsTheRevisionOfItsNewestField() {
    Map<String, Integer> newer =
        Map.of("leasehold.v1.LeaseSpec.permits", 2, "leasehold.v1.LockKey.scope", 3);
    dev.leasehold.v1.LeaseSpec plain = LeaseSpec.of("f").priority(7).toMessage();
    assertEquals(1, Needs.of(plain, newer));
    HoldLeaseRequest shared = HoldLeaseRequest.newBuilder().setSpec(SHARED.toMessage()).build();
    assertEquals(2, Needs.of(shared, newer));
    HoldLeaseRequest.Builder scoped = shared.toBuilder();
    scoped.getSpecBuilder().getKeyBuilder().setScope("s");
    assertEquals(3, Needs.of(scoped.build(), newer));
  }

  @Test
  void s37AUnaryCallTriesOnWhereItIsWhileItsWaitLasts() throws Exception {
    AtomicInteger tries = new AtomicInteger();
    bench.sidecar.acquire =
        request -> {
          assertEquals(1, request.getNeeds());
          if (tries.incrementAndGet() <= 3) {
            throw Messages.tooOld();
          }
          return AcquireLeaseResponse.newBuilder().setGranted(Messages.grantHere()).build();
        };
    RefusedException refusal =
        assertThrows(RefusedException.class, () -> bench.client.acquire(LeaseSpec.of("f")));
    assertEquals(Reason.UNSUPPORTED, refusal.reason().orElseThrow());
    assertEquals("2 and 1", refusal.getMessage());
    bench.client.acquire(LeaseSpec.of("f").waitUpTo(Duration.ofMinutes(1)));
    assertEquals(4, tries.get());
    bench.client.release("lease-1");
    assertEquals(1, bench.sidecar.connections());
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
