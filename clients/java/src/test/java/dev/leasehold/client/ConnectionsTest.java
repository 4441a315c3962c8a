package dev.leasehold.client;

import static dev.leasehold.client.Bench.eventually;
import static dev.leasehold.client.Bench.soon;
import static dev.leasehold.client.ManualClock.OURS;
import static dev.leasehold.client.Messages.validity;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.Bench.Held;
import dev.leasehold.v1.AcquireLeaseResponse;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.ListLocksResponse;
import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.Lost;
import dev.leasehold.v1.ReleaseOutcome;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

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
          CompletableFuture.runAsync(() -> reportProgress(first.hold()));
      soon(shortCalls);
      assertEquals(
          ReleaseOutcome.RELEASE_OUTCOME_RELEASED, soon(first.hold().releaseAsync()).getOutcome());
      bench.sidecar.hold().tell(Messages.granted(Messages.grantHere()));
      assertTrue(soon(third).isValid());
      assertTrue(second.hold().isValid());
    }
  }

  private static void reportProgress(Hold hold) {
    try {
      hold.reportProgress();
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

  /** What becomes of a hold whose sidecar takes no more streams. */
  private enum End {
    LOST,
    RELEASED,
    RELEASED_IN_VAIN,
    RESUMED_ELSEWHERE,
    DROPPED_WHEN_LOST,
    DROPPED_WHEN_RESUMED
  }

  @ParameterizedTest
  @EnumSource
  void s37AHoldKeepsItsPlaceUntilItsEndIsKnown(End end) throws Exception {
    List<Held> kept = new ArrayList<>();
    try (Bench bench = new Bench();
        FakeSidecar newer = ended(bench, kept, end)) {
      FakeSidecar older = bench.sidecar;
      eventually(
          "the older one's connection is closed",
          () -> {
            System.gc();
            return older.connections() == 0;
          });
      for (Held held : kept) {
        assertEquals(end == End.RESUMED_ELSEWHERE, held.hold().isValid());
        if (held.hold().isValid()) {
          held.hold().close();
        }
      }
      List<String> release = List.of("release lease-1 of generation 1");
      boolean isTold = Set.of(End.LOST, End.RELEASED, End.RELEASED_IN_VAIN).contains(end);
      assertEquals(isTold ? release : List.of(), older.asked());
      assertEquals(end == End.RESUMED_ELSEWHERE ? release : List.of(), newer.asked());
    }
  }

  /**
   * The sidecar in the place of the bench's, which was too old for a second hold (S37). The first
   * one is {@code kept}, unless it is dropped.
   */
  private static FakeSidecar ended(Bench bench, List<Held> kept, End end) throws Exception {
    Held held = bench.held();
    FakeSidecar newer = bench.sidecar.replacement();
    LeaseSpec patient = LeaseSpec.of("f").waitUpTo(Duration.ofMinutes(1));
    CompletableFuture<Hold> second = bench.client.holdAsync(patient, event -> {});
    bench.sidecar.hold().fail(Messages.tooOld());
    newer.hold().tell(Messages.granted(Messages.grantHere()));
    assertTrue(soon(second).isValid());
    end(bench, held, newer, end);
    if (!end.name().startsWith("DROPPED")) {
      kept.add(held);
    }
    return newer;
  }

  private static void end(Bench bench, Held held, FakeSidecar newer, End end) throws Exception {
    Lost taken = Lost.newBuilder().setReason(LossReason.LOSS_REASON_TAKEN).build();
    HoldLeaseResponse lost = HoldLeaseResponse.newBuilder().setLost(taken).build();
    switch (end) {
      case LOST -> {
        held.call().tell(lost);
        held.call().awaitEnd();
        assertThrows(LostException.class, held.hold()::close);
      }
      case RELEASED -> held.hold().close();
      case RELEASED_IN_VAIN -> {
        bench.sidecar.onRelease =
            () -> {
              throw Messages.unavailable();
            };
        assertThrows(RefusedException.class, held.hold()::close);
      }
      case DROPPED_WHEN_LOST -> {
        held.call().tell(lost);
        soon(held.hold().lost());
      }
      case RESUMED_ELSEWHERE, DROPPED_WHEN_RESUMED -> {
        held.call().fail(Messages.unavailable());
        newer.hold().tell(Messages.granted(Messages.grantHere()));
        bench.next(HoldEvent.Interrupted.class);
        bench.next(HoldEvent.Resumed.class);
      }
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
