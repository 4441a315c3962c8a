package dev.leasehold.client;

import static dev.leasehold.client.Bench.eventually;
import static dev.leasehold.client.Bench.soon;
import static dev.leasehold.client.ManualClock.OURS;
import static dev.leasehold.client.Messages.validity;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.Bench.Held;
import dev.leasehold.v1.AcquireLeaseResponse;
import dev.leasehold.v1.ListLocksResponse;
import dev.leasehold.v1.ReleaseOutcome;
import java.time.Duration;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Short calls, while a connection has as many lasting ones as it carries. */
@Timeout(60)
class ConnectionsTest {
  @Test
  void s13AReleaseDoesNotStandInLineBehindHolds() throws Exception {
    try (Bench bench = new Bench(2)) {
      Held first = bench.held();
      Held second = bench.held();
      CompletableFuture<Hold> third = bench.ask();
      bench.sidecar.report = request -> validity(OURS, 1_060, 60);
      CompletableFuture<Void> shortCalls =
          CompletableFuture.runAsync(() -> progressAndExtend(first.hold()));
      soon(shortCalls);
      assertEquals(
          ReleaseOutcome.RELEASE_OUTCOME_RELEASED, soon(first.hold().releaseAsync()).getOutcome());
      bench.sidecar.hold().tell(Messages.granted(Messages.grantHere()));
      assertTrue(soon(third).isValid());
      assertTrue(second.hold().isValid());
    }
  }

  private static void progressAndExtend(Hold hold) {
    try {
      hold.reportProgress();
      hold.extend(Duration.ofSeconds(90));
    } catch (InterruptedException interrupted) {
      throw new AssertionError(interrupted);
    }
  }

  @Test
  void s13AReleaseDoesNotStandInLineBehindWaits() throws Exception {
    ExecutorService threads = Executors.newCachedThreadPool();
    CountDownLatch waiting = new CountDownLatch(2);
    CountDownLatch over = new CountDownLatch(1);
    try (Bench bench = new Bench(1)) {
      bench.sidecar.acquire =
          request -> {
            waiting.countDown();
            Bench.await(over);
            return AcquireLeaseResponse.newBuilder().setGranted(Messages.grantHere()).build();
          };
      Callable<Grant> acquire = () -> bench.client.acquire(LeaseSpec.of("f").waitWithoutEnd());
      Future<Grant> acquired = threads.submit(acquire);
      threads.submit(acquire);
      Bench.await(waiting);
      bench.sidecar.list = request -> ListLocksResponse.getDefaultInstance();
      Future<ReleaseOutcome> released =
          threads.submit(
              () -> {
                bench.client.listLocks();
                return bench.client.release("lease-1").getOutcome();
              });
      assertEquals(ReleaseOutcome.RELEASE_OUTCOME_RELEASED, soon(released));
      over.countDown();
      assertEquals("lease-1", soon(acquired).leaseId());
    } finally {
      threads.shutdownNow();
    }
  }

  @Test
  void aClosedClientHasNoConnectionLeft() throws Exception {
    try (Bench bench = new Bench()) {
      bench.held().hold().close();
      assertEquals(1, bench.sidecar.connections());
      bench.client.release("lease-2");
      assertEquals(2, bench.sidecar.connections());
      bench.client.close();
      eventually("both are closed", () -> bench.sidecar.connections() == 0);
    }
  }
}
