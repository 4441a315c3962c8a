package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;

import dev.leasehold.client.FakeSidecar.HoldCall;
import dev.leasehold.client.internal.GrpcLeaseholdClient;
import dev.leasehold.client.internal.connect.Pacing;
import dev.leasehold.client.internal.hold.Leader;
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
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Running for as long as the lock is held, term after term. */
class LeaderTest extends BenchTest {
  private static final LeaseSpec REQUEST = LeaseSpec.of("f");
  private static final String RELEASE = "release lease-1 of generation 1";

  private final List<Duration> pauses = Collections.synchronizedList(new ArrayList<>());
  private final CompletableFuture<Thread> inside = new CompletableFuture<>();

  /** Leads without real pauses. */
  private <T> Future<T> lead(HoldBody<T, Exception> term) {
    Pacing pacing = new Pacing(pauses::add, () -> 0.5);
    GrpcLeaseholdClient client = (GrpcLeaseholdClient) bench.client;
    Leader leader = new Leader(() -> client.term(REQUEST, Optional.empty()), pacing);
    return threads.submit(() -> leader.lead(term));
  }

  private static void lose(HoldCall call) {
    Lost lost = Lost.newBuilder().setReason(LossReason.LOSS_REASON_BROKEN).build();
    call.tell(HoldLeaseResponse.newBuilder().setLost(lost).build());
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
      bench.sidecar.hold().fail(Messages.unavailable());
    }
    lose(grant());
    lose(grant());
    grant();
    assertEquals("term 3", soon(result));
    Stream<Long> millis = pauses.stream().map(Duration::toMillis);
    assertEquals(
        List.of(550L, 1_050L, 2_050L, 4_050L, 5_050L, 5_050L, 550L, 550L), millis.toList());
    assertEquals(
        List.of(RELEASE, RELEASE, RELEASE), bench.sidecar.asked(), "S13: the lost ones know");
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
    assertEquals(List.of(RELEASE, RELEASE), bench.sidecar.asked());
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
    assertEquals("term 2", soon(result));
  }

  @Test
  void aRefusalThatDoesNotPassEndsIt() throws Exception {
    Future<String> result = leadUntil(1);
    Status.Code code = Status.Code.PERMISSION_DENIED;
    bench.sidecar.hold().fail(Messages.error(code, "no", "ACCESS_DENIED", Map.of()));
    assertEquals(
        Optional.of(Reason.ACCESS_DENIED), failure(RefusedException.class, result).reason());
  }

  @Test
  void anInterruptFromOutsideEndsItAndReleases() throws Exception {
    Future<Void> result =
        threads.submit(() -> bench.client.lead(LeaseSpec.of("f"), term -> forever()));
    grant();
    soon(inside).interrupt();
    assertInstanceOf(InterruptedException.class, failure(result));
    assertEquals(List.of(RELEASE), bench.sidecar.asked());
  }

  @Test
  void aClosedClientEndsItAlsoBetweenTwoTerms() throws Exception {
    Future<Void> result = threads.submit(() -> bench.client.lead(LeaseSpec.of("f"), term -> null));
    bench.sidecar.hold().fail(Messages.unavailable());
    bench.client.close();
    assertEquals(Status.Code.CANCELLED, failure(RefusedException.class, result).code());
  }
}
