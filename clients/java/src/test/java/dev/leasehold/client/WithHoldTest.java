package dev.leasehold.client;

import static dev.leasehold.client.FakeSidecar.GONE;
import static dev.leasehold.client.FakeSidecar.TAKEN;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.internal.GrpcLeaseholdClient;
import dev.leasehold.client.internal.connect.Pacing;
import dev.leasehold.client.internal.hold.Leader;
import dev.leasehold.v1.LossReason;
import io.grpc.Status;
import java.io.IOException;
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
class WithHoldTest extends Bench {
  private <T> Future<T> under(HoldBody<T, Exception> body) {
    return threads.submit(() -> client.withHold(SPEC, body));
  }

  /** A body that does nothing else. */
  private static HoldBody<Void, Exception> throwing(Exception thrown) {
    return hold -> {
      throw thrown;
    };
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void s13WhatTheBodyThrowsGoesBeforeWhatItsReleaseFinds(boolean lost) throws Exception {
    if (lost) {
      sidecar.on("release", TAKEN);
    }
    IOException boom = new IOException("boom");
    Future<Void> result = under(throwing(boom));
    grant();
    assertSame(boom, failure(IOException.class, result));
    assertAsked("release 1");
    List<?> found = Stream.of(boom.getSuppressed()).map(Object::getClass).toList();
    assertEquals(lost ? List.of(LostException.class) : List.of(), found);
  }

  @Test
  void s4ALossInterruptsTheBodyAtOnceAndIsWhatTheCallerSees() throws Exception {
    CountDownLatch inside = new CountDownLatch(1);
    Future<Void> result =
        under(
            hold -> {
              inside.countDown();
              new CountDownLatch(1).await();
              return null;
            });
    grant();
    await(inside);
    expire();
    LostException lost = failure(LostException.class, result);
    assertInstanceOf(InterruptedException.class, lost.getCause());
  }

  @Test
  void noInterruptOutlivesTheBlockAndABodyThatNoticesNoLossFailsAllTheSame() throws Exception {
    HoldBody<String, Exception> body =
        hold -> {
          expire();
          // It finds out, and interrupts this thread.
          assertFalse(hold.isValid());
          assertTrue(Thread.currentThread().isInterrupted());
          return "done";
        };
    Future<Boolean> interruptedAfterwards =
        threads.submit(
            () -> {
              assertThrows(LostException.class, () -> client.withHold(SPEC, body));
              return Thread.currentThread().isInterrupted();
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
    CompletableFuture<Hold> asked = ask(SPEC);
    FakeCall call = sidecar.next("hold");
    asked.cancel(true);
    call.awaitEnd();
  }

  private final List<Long> pauses = Collections.synchronizedList(new ArrayList<>());

  /** Leads without real pauses. */
  private <T> Future<T> lead(HoldBody<T, Exception> term) {
    Pacing pacing = new Pacing(pause -> pauses.add(pause.toMillis()), () -> 0.5);
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
      sidecar.next("hold").end(GONE);
    }
    grant().tell("lost: {reason: BROKEN}");
    grant().tell("lost: {reason: BROKEN}");
    grant();
    assertEquals("term 3", soon(result));
    assertEquals(List.of(550L, 1_050L, 2_050L, 4_050L, 5_050L, 5_050L, 550L, 550L), pauses);
    // S13: the lost ones know.
    assertAsked("release 1", "release 1", "release 1");
  }

  @Test
  void whatATermThrowsEndsItAfterTheRelease() throws Exception {
    LostException other = new LostException(new Loss(LossReason.LOSS_REASON_TAKEN, "another lock"));
    for (Exception thrown : List.of(new IOException("boom"), other)) {
      Future<Void> result = lead(throwing(thrown));
      grant();
      assertSame(thrown, failure(Exception.class, result));
    }
    assertAsked("release 1", "release 1");
  }

  @Test
  void aTermThatOnlyItsReleaseFindsLostIsFollowedByAnother() throws Exception {
    sidecar.on("release", TAKEN);
    Future<String> result = leadUntil(1);
    grant();
    FakeCall second = sidecar.next("hold");
    assertEquals(1, pauses.size());
    sidecar.on("release", "outcome: RELEASED");
    second.tell(FakeSidecar.GRANTED);
    assertEquals("term 2", soon(result));
  }

  @Test
  void aRefusalThatDoesNotPassOrAClosedClientEndsIt() throws Exception {
    Future<String> result = leadUntil(1);
    sidecar.next("hold").end("code: PERMISSION_DENIED, reason: ACCESS_DENIED");
    Optional<Reason> denied = failure(RefusedException.class, result).reason();
    assertEquals(Optional.of(Reason.ACCESS_DENIED), denied);
    // Also between two terms.
    result = threads.submit(() -> client.lead(SPEC, term -> null));
    sidecar.next("hold").end(GONE);
    client.close();
    assertEquals(Status.Code.CANCELLED, failure(RefusedException.class, result).code());
  }
}
