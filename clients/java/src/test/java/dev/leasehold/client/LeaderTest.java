package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.FakeSidecar.HoldCall;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.Lost;
import dev.leasehold.v1.ReleaseResult;
import io.grpc.Status;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Running for as long as the lock is held, term after term. */
@Timeout(60)
class LeaderTest {
  private static final LeaseSpec REQUEST = LeaseSpec.of("f").waitWithoutEnd().paced();

  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final List<Duration> pauses = Collections.synchronizedList(new ArrayList<>());
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

  /** Leads without real pauses. */
  private <T> Future<T> lead(HoldBody<T, Exception> term) {
    Leader leader =
        new Leader(
            () -> (StreamHold) bench.client.hold(REQUEST), new Pacing(pauses::add, () -> 0.5));
    return threads.submit(() -> leader.lead(term));
  }

  private static Throwable failure(Future<?> future) {
    return assertThrows(ExecutionException.class, () -> Bench.soon(future)).getCause();
  }

  private HoldCall grant() throws InterruptedException {
    HoldCall call = bench.sidecar.hold();
    call.tell(Messages.granted(Messages.grantHere()));
    return call;
  }

  private static void lose(HoldCall call) {
    Lost lost = Lost.newBuilder().setReason(LossReason.LOSS_REASON_BROKEN).build();
    call.tell(HoldLeaseResponse.newBuilder().setLost(lost).build());
  }

  private static void forever() throws InterruptedException {
    new CountDownLatch(1).await();
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
    lose(grant());
    lose(grant());
    grant();
    assertEquals("term 3", Bench.soon(result));
    assertEquals(List.of(Duration.ofMillis(550), Duration.ofMillis(550)), pauses);
    // S13: the lost terms say that they know.
    String release = "release lease-1 of generation 1";
    assertEquals(List.of(release, release, release), bench.sidecar.asked());
  }

  @Test
  void pausesGrowToTenSecondsWhileTheSidecarIsUnreachable() throws Exception {
    Future<String> result = leadUntil(2);
    for (int failed = 0; failed < 6; failed++) {
      bench.sidecar.hold().fail(Messages.unavailable());
    }
    lose(grant());
    grant();
    Bench.soon(result);
    List<Long> millis = pauses.stream().map(Duration::toMillis).toList();
    assertEquals(List.of(550L, 1_050L, 2_050L, 4_050L, 5_050L, 5_050L, 550L), millis);
  }

  @Test
  void aTermThatThrowsEndsItAfterTheRelease() throws Exception {
    IOException boom = new IOException("boom");
    Future<Void> result =
        lead(
            term -> {
              throw boom;
            });
    grant();
    assertSame(boom, failure(result));
    assertEquals(List.of("release lease-1 of generation 1"), bench.sidecar.asked());
  }

  @Test
  void aTermThatOnlyItsReleaseFindsLostIsFollowedByAnother() throws Exception {
    ReleaseResult released = bench.sidecar.released;
    bench.sidecar.released = HoldTest.taken();
    Future<String> result = leadUntil(1);
    grant();
    HoldCall second = bench.sidecar.hold();
    assertEquals(1, pauses.size());
    bench.sidecar.released = released;
    second.tell(Messages.granted(Messages.grantHere()));
    assertEquals("term 2", Bench.soon(result));
  }

  @Test
  void theLossOfAnotherHoldIsAnErrorOfTheTerm() throws Exception {
    LostException other = new LostException(new Loss(LossReason.LOSS_REASON_TAKEN, "another lock"));
    Future<Void> result =
        lead(
            term -> {
              throw other;
            });
    grant();
    assertSame(other, failure(result));
  }

  @Test
  void aRefusalThatDoesNotPassEndsIt() throws Exception {
    Future<String> result = leadUntil(1);
    Status.Code code = Status.Code.PERMISSION_DENIED;
    bench.sidecar.hold().fail(Messages.error(code, "no", "ACCESS_DENIED", Map.of()));
    RefusedException refusal = assertInstanceOf(RefusedException.class, failure(result));
    assertEquals(Reason.ACCESS_DENIED, refusal.reason().orElseThrow());
  }

  @Test
  void anInterruptFromOutsideEndsItAndReleases() throws Exception {
    CompletableFuture<Thread> inside = new CompletableFuture<>();
    Future<Void> result =
        threads.submit(
            () ->
                bench.client.lead(
                    LeaseSpec.of("f"),
                    term -> {
                      inside.complete(Thread.currentThread());
                      forever();
                      return null;
                    }));
    assertTrue(grant().request.getSpec().getWaitWithoutEnd());
    Bench.soon(inside).interrupt();
    assertInstanceOf(InterruptedException.class, failure(result));
    assertEquals(List.of("release lease-1 of generation 1"), bench.sidecar.asked());
  }

  @Test
  void aClosedClientEndsItAlsoBetweenTwoTerms() throws Exception {
    Future<Void> result = threads.submit(() -> bench.client.lead(LeaseSpec.of("f"), term -> null));
    bench.sidecar.hold().fail(Messages.unavailable());
    bench.client.close();
    RefusedException refusal = assertInstanceOf(RefusedException.class, failure(result));
    assertEquals(Status.Code.CANCELLED, refusal.code());
  }
}
