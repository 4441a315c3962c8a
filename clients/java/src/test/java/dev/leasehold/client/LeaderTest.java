package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;

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

/** Running for as long as the lock is held, term after term. */
class LeaderTest extends BenchTest {
  private final List<Duration> pauses = Collections.synchronizedList(new ArrayList<>());
  private final CompletableFuture<Thread> inside = new CompletableFuture<>();

  /** Leads without real pauses. */
  private <T> Future<T> lead(HoldBody<T, Exception> term) {
    Pacing pacing = new Pacing(pauses::add, () -> 0.5);
    GrpcLeaseholdClient grpc = (GrpcLeaseholdClient) client;
    Leader leader = new Leader(() -> grpc.term(SPEC, Optional.empty()), pacing);
    return threads.submit(() -> leader.lead(term));
  }

  private Void forever() throws InterruptedException {
    inside.complete(Thread.currentThread());
    new CountDownLatch(1).await();
    return null;
  }

  /** Stays in its first terms until they are lost, and ends the last. */
  private Future<String> leadUntil(int last) {
    List<Hold> terms = new ArrayList<>();
    return lead(
        term -> {
          terms.add(term);
          if (terms.size() < last) {
            forever();
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

  @Test
  void anInterruptFromOutsideEndsItAndReleases() throws Exception {
    Future<Void> result = threads.submit(() -> client.lead(SPEC, term -> forever()));
    grant();
    soon(inside).interrupt();
    assertInstanceOf(InterruptedException.class, failure(result));
    assertAsked("release 1");
  }
}
