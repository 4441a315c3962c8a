package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.FakeSidecar.HoldCall;
import dev.leasehold.v1.Busy;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.LossReason;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The blocking forms, whose thread is interrupted. */
@Timeout(60)
class WithHoldTest {
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final CountDownLatch inside = new CountDownLatch(1);
  private Bench bench;

  @BeforeEach
  void open() throws Exception {
    bench = new Bench();
  }

  @AfterEach
  void close() throws Exception {
    threads.shutdownNow();
    bench.close();
  }

  private static <T> T soon(Future<T> future) throws Exception {
    return future.get(FakeSidecar.PATIENCE_SECONDS, TimeUnit.SECONDS);
  }

  private static Throwable failure(Future<?> future) {
    return assertThrows(ExecutionException.class, () -> soon(future)).getCause();
  }

  private <T> Future<T> under(HoldBody<T, Exception> body) {
    return threads.submit(() -> bench.client.withHold(LeaseSpec.of("f"), body));
  }

  private HoldCall grant() throws InterruptedException {
    HoldCall call = bench.sidecar.hold();
    call.tell(Messages.granted(Messages.grantHere()));
    return call;
  }

  private Void sleep(Hold hold) throws InterruptedException {
    inside.countDown();
    new CountDownLatch(1).await();
    return null;
  }

  @Test
  void aBodyGivesItsResultAndTheLockIsReleased() throws Exception {
    Future<Long> result = under(Hold::fencingToken);
    HoldCall call = grant();
    assertEquals(65_536, soon(result));
    assertEquals(List.of("release lease-1 of generation 1"), bench.sidecar.asked());
    call.awaitEnd();
  }

  @Test
  void aBodyThatThrowsReleasesTheLockFirst() throws Exception {
    IOException boom = new IOException("boom");
    Future<Void> result =
        under(
            hold -> {
              throw boom;
            });
    grant();
    assertSame(boom, failure(result));
    assertEquals(List.of("release lease-1 of generation 1"), bench.sidecar.asked());
  }

  @Test
  void s13AReleaseThatFindsTheLockLostIsWhatTheCallerSees() throws Exception {
    bench.sidecar.released = HoldTest.taken();
    Future<Long> result = under(Hold::fencingToken);
    grant();
    LostException lost = assertInstanceOf(LostException.class, failure(result));
    assertEquals(LossReason.LOSS_REASON_TAKEN, lost.loss().reason());
  }

  @Test
  void s13AReleaseThatFindsTheLockLostDoesNotGoBeforeWhatTheBodyThrew() throws Exception {
    bench.sidecar.released = HoldTest.taken();
    IOException boom = new IOException("boom");
    Future<Void> result =
        under(
            hold -> {
              throw boom;
            });
    grant();
    assertSame(boom, failure(result));
    assertInstanceOf(LostException.class, boom.getSuppressed()[0]);
  }

  @Test
  void s4ALossInterruptsTheBodyAtOnceAndIsWhatTheCallerSees() throws Exception {
    Future<Void> result = under(this::sleep);
    grant();
    inside.await();
    bench.clock.advance(58);
    LostException lost = assertInstanceOf(LostException.class, failure(result));
    assertInstanceOf(InterruptedException.class, lost.getCause());
  }

  @Test
  void aBodyThatDoesNotNoticeTheLossFailsAllTheSame() throws Exception {
    Future<String> result =
        under(
            hold -> {
              bench.clock.advance(58);
              return "done";
            });
    grant();
    assertInstanceOf(LostException.class, failure(result));
  }

  @Test
  void noInterruptOutlivesTheBlock() throws Exception {
    Callable<Boolean> work =
        () -> {
          try (Hold hold = bench.client.hold(LeaseSpec.of("f"))) {
            bench.clock.advance(58);
            // It finds out, and interrupts this thread.
            assertFalse(hold.isValid());
            assertTrue(Thread.currentThread().isInterrupted());
          } catch (LostException expected) {
            return Thread.currentThread().isInterrupted();
          }
          throw new AssertionError("the loss was not told");
        };
    Future<Boolean> interruptedAfterwards = threads.submit(work);
    grant();
    assertFalse(soon(interruptedAfterwards));
  }

  @Test
  void anInterruptOfAnotherIsPassedOnAndTheLockReleased() throws Exception {
    CompletableFuture<Thread> thread = new CompletableFuture<>();
    Future<Void> result =
        under(
            hold -> {
              thread.complete(Thread.currentThread());
              return sleep(hold);
            });
    grant();
    inside.await();
    soon(thread).interrupt();
    assertInstanceOf(InterruptedException.class, failure(result));
    assertEquals(List.of("release lease-1 of generation 1"), bench.sidecar.asked());
  }

  @Test
  void s13AReleaseIsWaitedForWhateverInterrupts() throws Exception {
    Callable<Boolean> work =
        () -> {
          Hold hold = bench.client.hold(LeaseSpec.of("f"));
          Thread.currentThread().interrupt();
          hold.close();
          return Thread.interrupted();
        };
    Future<Boolean> stillInterrupted = threads.submit(work);
    grant();
    assertTrue(soon(stillInterrupted));
    assertEquals(List.of("release lease-1 of generation 1"), bench.sidecar.asked());
  }

  @Test
  void busyIsToldWithTheHolder() throws Exception {
    Future<Void> result = under(this::sleep);
    HoldCall call = bench.sidecar.hold();
    call.tell(Messages.waiting());
    LockRecord record =
        LockRecord.newBuilder()
            .setLockPath("locks/p")
            .setHolder("pod-7")
            .setFencingToken(65_536)
            .build();
    call.tell(HoldLeaseResponse.newBuilder().setBusy(Busy.newBuilder().setRecord(record)).build());
    BusyException busy = assertInstanceOf(BusyException.class, failure(result));
    assertEquals("pod-7", busy.holder());
    assertEquals(65_536, busy.fencingToken().orElseThrow());
    assertEquals("the lock locks/p is busy: held by \"pod-7\"", busy.getMessage());
  }

  @Test
  void s12ACallerThatIsInterruptedLeavesTheQueue() throws Exception {
    CompletableFuture<Thread> thread = new CompletableFuture<>();
    Future<Hold> result =
        threads.submit(
            () -> {
              thread.complete(Thread.currentThread());
              return bench.client.hold(LeaseSpec.of("f").waitWithoutEnd());
            });
    HoldCall call = bench.sidecar.hold();
    soon(thread).interrupt();
    assertInstanceOf(InterruptedException.class, failure(result));
    call.awaitEnd();
  }

  @Test
  void s12AFutureThatIsCancelledLeavesTheQueue() throws Exception {
    CompletableFuture<Hold> asked = bench.ask();
    HoldCall call = bench.sidecar.hold();
    asked.cancel(true);
    call.awaitEnd();
  }
}
