package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.FakeSidecar.HoldCall;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.client.internal.errors.Needs;
import dev.leasehold.v1.AcquireLeaseResponse;
import dev.leasehold.v1.Busy;
import dev.leasehold.v1.HoldLeaseRequest;
import dev.leasehold.v1.HoldLeaseResponse;
import io.grpc.Status;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Waits that a vector does not have: without end, silent, and by a unary call. */
class WaitTest extends BenchTest {
  private static final LeaseSpec ENDLESS = LeaseSpec.of("f").waitWithoutEnd();

  private static HoldLeaseResponse busyFor(Duration rest) {
    Busy busy = Busy.newBuilder().setRetryAfter(Durations.toWire(rest)).build();
    return HoldLeaseResponse.newBuilder().setBusy(busy).build();
  }

  @Test
  void aWaitWithoutEndAsksAgainWhereItIsBusyAllTheSame() throws Exception {
    CompletableFuture<Hold> asked = ask(ENDLESS);
    HoldCall call = bench.sidecar.hold();
    assertTrue(call.request.getSpec().getWaitWithoutEnd() && !call.request.getSpec().hasWait());
    call.tell(busyFor(Duration.ofMillis(1)));
    grant();
    assertTrue(soon(asked).isValid());
  }

  @Test
  void aCallerBetweenTwoRoundsOfWaitingIsToldThatTheClientWasClosed() throws Exception {
    CompletableFuture<Hold> asked = ask(ENDLESS);
    HoldCall call = bench.sidecar.hold();
    call.tell(busyFor(Duration.ofHours(1)));
    call.awaitEnd();
    bench.client.close();
    failure(RefusedException.class, asked);
  }

  @Test
  void aWaiterThatHearsNothingAsksAgainAndASingleTryFails() throws Exception {
    try (Bench impatient = Bench.impatient()) {
      CompletableFuture<Hold> asked = impatient.client.holdAsync(ENDLESS, event -> {});
      HoldCall silent = impatient.sidecar.hold();
      silent.tell(Messages.waiting());
      silent.awaitEnd();
      // On a busy machine the first answer may come too late, again.
      while (!asked.isDone()) {
        HoldCall call = impatient.sidecar.hold();
        call.tell(Messages.granted(Messages.grantHere()));
        Bench.eventually(
            "it asks, or has it", () -> asked.isDone() || impatient.sidecar.hasUnseenCalls());
      }
      soon(asked).close();
      RefusedException refused = failure(RefusedException.class, impatient.ask());
      assertEquals(Status.Code.UNAVAILABLE, refused.code());
    }
  }

  @Test
  void s37ARequestNeedsTheRevisionOfItsNewestField() {
    Map<String, Integer> newer =
        Map.of("leasehold.v1.LeaseSpec.permits", 2, "leasehold.v1.LockKey.scope", 3);
    assertEquals(1, Needs.of(LeaseSpec.of("f").priority(7).toMessage(), newer));
    HoldLeaseRequest.Builder request = HoldLeaseRequest.newBuilder();
    request.setSpec(LeaseSpec.of("f").permits(3).toMessage());
    assertEquals(2, Needs.of(request.build(), newer));
    request.getSpecBuilder().getKeyBuilder().setScope("s");
    assertEquals(3, Needs.of(request.build(), newer));
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
          return AcquireLeaseResponse.getDefaultInstance();
        };
    // An outcome that is newer than the client is no grant.
    assertThrows(ProtocolException.class, () -> bench.client.acquire(ENDLESS));
    assertEquals(Duration.ofHours(24), Durations.fromWire(soon(sent).getWait()));
    assertFalse(soon(sent).getWaitWithoutEnd());
  }
}
