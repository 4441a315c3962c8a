package dev.leasehold.client;

import static dev.leasehold.client.FakeSidecar.GRANTED;
import static dev.leasehold.client.FakeSidecar.TOO_OLD;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.client.internal.errors.Needs;
import dev.leasehold.v1.AcquireLeaseRequest;
import dev.leasehold.v1.HoldLeaseRequest;
import io.grpc.Status;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Waits that a vector does not have: without end, silent, and by a unary call. */
class WaitTest extends BenchTest {
  private static final LeaseSpec ENDLESS = SPEC.waitWithoutEnd();

  @Test
  void aWaitWithoutEndAsksAgainWhereItIsBusyAllTheSame() throws Exception {
    CompletableFuture<Hold> asked = ask(ENDLESS);
    FakeCall call = sidecar.hold();
    dev.leasehold.v1.LeaseSpec spec = ((HoldLeaseRequest) call.request).getSpec();
    assertTrue(spec.getWaitWithoutEnd() && !spec.hasWait());
    call.tell("busy: {retry_after: 1}");
    grant();
    assertTrue(soon(asked).isValid());
  }

  @Test
  void aWaiterThatHearsNothingAsksAgainAndASingleTryFails() throws Exception {
    try (Bench impatient = Bench.impatient()) {
      CompletableFuture<Hold> asked = impatient.client.holdAsync(ENDLESS, event -> {});
      FakeCall silent = impatient.sidecar.hold();
      silent.tell("waiting: {}");
      silent.awaitEnd();
      // On a busy machine the first answer may come too late, again.
      while (!asked.isDone()) {
        impatient.sidecar.hold().tell(GRANTED);
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
    assertEquals(1, Needs.of(SPEC.priority(7).toMessage(), newer));
    HoldLeaseRequest.Builder request = HoldLeaseRequest.newBuilder();
    request.setSpec(SPEC.permits(3).toMessage());
    assertEquals(2, Needs.of(request.build(), newer));
    request.getSpecBuilder().getKeyBuilder().setScope("s");
    assertEquals(3, Needs.of(request.build(), newer));
  }

  @Test
  void s37AUnaryCallTriesOnWhereItIsWhileItsWaitLasts() throws Exception {
    AtomicInteger tries = new AtomicInteger();
    sidecar.on(
        "acquire_lease",
        request -> {
          assertEquals(1, ((AcquireLeaseRequest) request).getNeeds());
          return tries.incrementAndGet() <= 3 ? TOO_OLD : GRANTED;
        });
    assertRefused(Reason.UNSUPPORTED, () -> client.acquire(SPEC));
    client.acquire(SPEC.waitUpTo(Duration.ofMinutes(1)));
    assertEquals(4, tries.get());
    client.release("lease-1");
    assertEquals(1, sidecar.connections());
  }

  @Test
  void aUnaryCallWaitsForADayInsteadOfWithoutEnd() throws Exception {
    CompletableFuture<dev.leasehold.v1.LeaseSpec> sent = new CompletableFuture<>();
    sidecar.on(
        "acquire_lease",
        request -> {
          sent.complete(((AcquireLeaseRequest) request).getSpec());
          return "";
        });
    // An outcome that is newer than the client is no grant.
    assertThrows(ProtocolException.class, () -> client.acquire(ENDLESS));
    assertEquals(Duration.ofHours(24), Durations.fromWire(soon(sent).getWait()));
    assertFalse(soon(sent).getWaitWithoutEnd());
  }
}
