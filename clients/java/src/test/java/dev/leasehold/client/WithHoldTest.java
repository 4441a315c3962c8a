package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.internal.GrpcLeaseholdClient;
import dev.leasehold.client.internal.connect.Pacing;
import dev.leasehold.client.internal.hold.Leader;
import dev.leasehold.v1.LossReason;
import io.grpc.Status;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The blocking forms, whose thread is interrupted: once, and term after term. */
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
  void s12AFutureThatIsCancelledLeavesTheQueue() throws Exception {
    CompletableFuture<Hold> asked = bench.ask();
    FakeCall call = sidecar.hold();
    asked.cancel(true);
    call.awaitEnd();
  }

  private final List<Duration> pauses = Collections.synchronizedList(new ArrayList<>());

  /** Leads without real pauses. */
  private <T> Future<T> lead(HoldBody<T, Exception> term) {
    Pacing pacing = new Pacing(pauses::add, () -> 0.5);
    GrpcLeaseholdClient grpc = (GrpcLeaseholdClient) client;
    Leader leader = new Leader(() -> grpc.term(SPEC, Optional.empty()), pacing);
    return threads.submit(() -> leader.lead(term));
  }

  /** Stays in its first terms until they are lost, and ends the last. */
  private Future<String> leadUntil(int last) {
    List<Hold> terms = new ArrayList<>();
    return lead(
        term -> {
          terms.add(term);
          if (terms.size() < last) {
            new CountDownLatch(1).await();
          }
          return "term " + terms.size();
        });
  }

  @Test
  void s4ALossInterruptsTheTermAndTheLockIsTakenAgain() throws Exception {
    Future<String> result = leadUntil(3);
    for (int failed = 0; failed < 6; failed++) {
      sidecar.hold().end(FakeSidecar.GONE);
    }
    grant().tell("lost: {reason: BROKEN}");
    grant().tell("lost: {reason: BROKEN}");
    grant();
    assertEquals("term 3", soon(result));
    Stream<Long> millis = pauses.stream().map(Duration::toMillis);
    assertEquals(
        List.of(550L, 1_050L, 2_050L, 4_050L, 5_050L, 5_050L, 550L, 550L), millis.toList());
    // S13: the lost ones know.
    assertAsked("release 1", "release 1", "release 1");
  }

  @Test
  void whatATermThrowsEndsItAfterTheRelease() throws Exception {
    LostException other = new LostException(new Loss(LossReason.LOSS_REASON_TAKEN, "another lock"));
    for (Exception thrown : List.of(new IOException("boom"), other)) {
      Future<Void> result =
          lead(
              term -> {
                throw thrown;
              });
      grant();
      assertSame(thrown, failure(result));
    }
    assertAsked("release 1", "release 1");
  }

  @Test
  void aTermThatOnlyItsReleaseFindsLostIsFollowedByAnother() throws Exception {
    sidecar.on("release", FakeSidecar.TAKEN);
    Future<String> result = leadUntil(1);
    grant();
    FakeCall second = sidecar.hold();
    assertEquals(1, pauses.size());
    sidecar.on("release", "outcome: RELEASED");
    second.tell(FakeSidecar.GRANTED);
    assertEquals("term 2", soon(result));
  }

  @Test
  void aRefusalThatDoesNotPassOrAClosedClientEndsIt() throws Exception {
    Future<String> result = leadUntil(1);
    sidecar.hold().end("code: PERMISSION_DENIED, reason: ACCESS_DENIED");
    assertEquals(
        Optional.of(Reason.ACCESS_DENIED), failure(RefusedException.class, result).reason());
    // Also between two terms.
    result = threads.submit(() -> client.lead(SPEC, term -> null));
    sidecar.hold().end(FakeSidecar.GONE);
    client.close();
    assertEquals(Status.Code.CANCELLED, failure(RefusedException.class, result).code());
  }
}
