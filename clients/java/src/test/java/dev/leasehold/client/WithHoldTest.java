package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.v1.LossReason;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The blocking forms, whose thread is interrupted. */
class WithHoldTest extends BenchTest {
  private final CompletableFuture<Thread> inside = new CompletableFuture<>();

  private <T> Future<T> under(HoldBody<T, Exception> body) {
    return threads.submit(() -> client.withHold(SPEC, body));
  }

  private Void sleep(Hold hold) throws InterruptedException {
    inside.complete(Thread.currentThread());
    new CountDownLatch(1).await();
    return null;
  }

  @Test
  void aBodyGivesItsResultAndTheLockIsReleased() throws Exception {
    Future<Long> result = under(Hold::fencingToken);
    FakeCall call = grant();
    assertEquals(65_536, soon(result));
    assertAsked("release 1");
    call.awaitEnd();
    sidecar.on("release", FakeSidecar.TAKEN);
    result = under(Hold::fencingToken);
    grant();
    LossReason found = failure(LostException.class, result).loss().reason();
    assertEquals(LossReason.LOSS_REASON_TAKEN, found, "S13");
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void s13WhatTheBodyThrowsGoesBeforeWhatItsReleaseFinds(boolean lost) throws Exception {
    if (lost) {
      sidecar.on("release", FakeSidecar.TAKEN);
    }
    IOException boom = new IOException("boom");
    Future<Void> result =
        under(
            hold -> {
              throw boom;
            });
    grant();
    assertSame(boom, failure(result));
    assertAsked("release 1");
    assertEquals(lost ? 1 : 0, boom.getSuppressed().length);
    for (Throwable suppressed : boom.getSuppressed()) {
      assertInstanceOf(LostException.class, suppressed);
    }
  }

  @Test
  void s4ALossInterruptsTheBodyAtOnceAndIsWhatTheCallerSees() throws Exception {
    Future<Void> result = under(this::sleep);
    grant();
    soon(inside);
    bench.clock.advance(58);
    LostException lost = failure(LostException.class, result);
    assertInstanceOf(InterruptedException.class, lost.getCause());
  }

  @Test
  void noInterruptOutlivesTheBlockAndABodyThatNoticesNoLossFailsAllTheSame() throws Exception {
    Future<Boolean> interruptedAfterwards =
        threads.submit(
            () -> {
              try {
                client.withHold(
                    SPEC,
                    hold -> {
                      bench.clock.advance(58);
                      // It finds out, and interrupts this thread.
                      assertFalse(hold.isValid());
                      assertTrue(Thread.currentThread().isInterrupted());
                      return "done";
                    });
              } catch (LostException expected) {
                return Thread.currentThread().isInterrupted();
              }
              throw new AssertionError("the loss was not told");
            });
    grant();
    assertFalse(soon(interruptedAfterwards));
  }

  @Test
  void anInterruptOfAnotherIsPassedOnAndTheLockReleased() throws Exception {
    Future<Void> result = under(this::sleep);
    grant();
    soon(inside).interrupt();
    assertInstanceOf(InterruptedException.class, failure(result));
    assertAsked("release 1");
  }

  @Test
  void s13AReleaseIsWaitedForWhateverInterrupts() throws Exception {
    Future<Boolean> stillInterrupted =
        threads.submit(
            () -> {
              Hold hold = client.hold(SPEC);
              Thread.currentThread().interrupt();
              hold.close();
              return Thread.interrupted();
            });
    grant();
    assertTrue(soon(stillInterrupted));
    assertAsked("release 1");
  }

  @Test
  void s12ACallerThatIsInterruptedOrWhoseFutureIsCancelledLeavesTheQueue() throws Exception {
    Future<Hold> result =
        threads.submit(
            () -> {
              inside.complete(Thread.currentThread());
              return client.hold(SPEC.waitWithoutEnd());
            });
    FakeCall call = sidecar.hold();
    soon(inside).interrupt();
    assertInstanceOf(InterruptedException.class, failure(result));
    call.awaitEnd();
    CompletableFuture<Hold> asked = bench.ask();
    call = sidecar.hold();
    asked.cancel(true);
    call.awaitEnd();
  }
}
