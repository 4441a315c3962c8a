package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.FakeSidecar.HoldCall;
import dev.leasehold.v1.LossReason;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The blocking forms, whose thread is interrupted. */
class WithHoldTest extends BenchTest {
  private static final String RELEASE = "release lease-1 of generation 1";

  private final CountDownLatch inside = new CountDownLatch(1);

  private <T> Future<T> under(HoldBody<T, Exception> body) {
    return threads.submit(() -> bench.client.withHold(LeaseSpec.of("f"), body));
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
    assertEquals(List.of(RELEASE), bench.sidecar.asked());
    call.awaitEnd();
    bench.sidecar.released = HoldTest.taken();
    result = under(Hold::fencingToken);
    grant();
    LossReason found = failure(LostException.class, result).loss().reason();
    assertEquals(LossReason.LOSS_REASON_TAKEN, found, "S13");
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void s13WhatTheBodyThrowsGoesBeforeWhatItsReleaseFinds(boolean lost) throws Exception {
    if (lost) {
      bench.sidecar.released = HoldTest.taken();
    }
    IOException boom = new IOException("boom");
    Future<Void> result =
        under(
            hold -> {
              throw boom;
            });
    grant();
    assertSame(boom, failure(result));
    assertEquals(List.of(RELEASE), bench.sidecar.asked());
    assertEquals(lost ? 1 : 0, boom.getSuppressed().length);
    for (Throwable suppressed : boom.getSuppressed()) {
      assertInstanceOf(LostException.class, suppressed);
    }
  }

  @Test
  void s4ALossInterruptsTheBodyAtOnceAndIsWhatTheCallerSees() throws Exception {
    Future<Void> result = under(this::sleep);
    grant();
    inside.await();
    bench.clock.advance(58);
    LostException lost = failure(LostException.class, result);
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
    assertEquals(List.of(RELEASE), bench.sidecar.asked());
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
    assertEquals(List.of(RELEASE), bench.sidecar.asked());
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
