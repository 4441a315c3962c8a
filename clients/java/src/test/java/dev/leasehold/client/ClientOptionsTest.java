package dev.leasehold.client;

import static dev.leasehold.client.Bench.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.Bench.Held;
import dev.leasehold.v1.ListLocksResponse;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class ClientOptionsTest {
  private static String invalid(ClientBuilder builder) {
    return assertThrows(EndpointException.class, builder::connect).getMessage();
  }

  @Test
  void s14WhichEndpointsAreOnThisMachine() {
    List<String> local =
        List.of(
            "unix:///run/leasehold.sock",
            "http://localhost:1",
            "http://LOCALHOST",
            "http://127.0.0.1:1",
            "https://127.8.9.10:1",
            "http://[::1]:1",
            "http://[0:0:0:0:0:0:0:1]:1");
    List<String> remote =
        List.of(
            "http://leasehold:1",
            "http://10.0.0.7:1",
            "https://127.example.org",
            "http://[2001:db8::1]:1",
            "http://[1::1]:1");
    for (String endpoint : local) {
      assertTrue(Endpoint.parse(endpoint).isLocal(), endpoint);
    }
    for (String endpoint : remote) {
      assertFalse(Endpoint.parse(endpoint).isLocal(), endpoint);
    }
  }

  @Test
  void durationsThatCannotBeKeptAreRefused() {
    ClientBuilder often = LeaseholdClient.builder("http://127.0.0.1:1");
    assertTrue(invalid(often.keepAlive(Duration.ofSeconds(9))).contains("10 s or more"));
    ClientBuilder never = LeaseholdClient.builder("http://127.0.0.1:1");
    assertTrue(invalid(never.releaseTimeout(Duration.ZERO)).contains("releaseTimeout"));
  }

  /** A hold whose release is never answered. */
  private static void unanswered(Bench bench, CountDownLatch never) {
    bench.sidecar.onRelease = () -> Bench.await(never);
  }

  @Test
  void s13AReleaseIsWaitedForNoLongerThanAsked() throws Exception {
    CountDownLatch never = new CountDownLatch(1);
    try (Bench bench = new Bench(one -> one.releaseTimeout(Duration.ofMillis(200)))) {
      unanswered(bench, never);
      Held held = bench.held();
      ReleaseUnconfirmedException error =
          assertThrows(ReleaseUnconfirmedException.class, held.hold()::close);
      assertTrue(error.getMessage().contains("within 200 ms"), error.getMessage());
      held.call().awaitEnd();
      never.countDown();
    }
  }

  @Test
  void s13AnUnconfirmedReleaseDoesNotGoBeforeWhatTheBodyThrew() throws Exception {
    CountDownLatch never = new CountDownLatch(1);
    try (Bench bench = new Bench(one -> one.releaseTimeout(Duration.ofMillis(200)))) {
      unanswered(bench, never);
      Hold held = bench.held().hold();
      IOException boom = new IOException("boom");
      IOException thrown =
          assertThrows(
              IOException.class,
              () -> {
                try (held) {
                  throw boom;
                }
              });
      assertSame(boom, thrown);
      assertInstanceOf(ReleaseUnconfirmedException.class, thrown.getSuppressed()[0]);
      never.countDown();
    }
  }

  @Test
  void moreHoldsThanAConnectionCarriesGetAnother() throws Exception {
    try (Bench bench = new Bench(builder -> builder.streamsPerConnection(2))) {
      List<Hold> holds = new ArrayList<>();
      for (int made = 0; made < 5; made++) {
        holds.add(bench.held().hold());
      }
      assertEquals(3, bench.sidecar.connections());
      holds.forEach(Hold::close);
      eventually("what is not needed is closed", () -> bench.sidecar.connections() == 1);
      assertTrue(bench.held().hold().isValid());
    }
  }

  @Test
  void aTokenIsAskedForEachCall() throws Exception {
    AtomicInteger asked = new AtomicInteger();
    try (Bench bench =
        new Bench(builder -> builder.bearerToken(() -> "token-" + asked.incrementAndGet()))) {
      bench.sidecar.list = request -> ListLocksResponse.getDefaultInstance();
      int before = asked.get();
      bench.client.listLocks();
      bench.client.listLocks();
      assertEquals(before + 2, asked.get());
    }
  }

  @Test
  void s20ATokenThatCannotBeGotFailsTheCall() throws Exception {
    AtomicInteger asked = new AtomicInteger();
    try (Bench bench =
        new Bench(
            builder ->
                builder.bearerToken(
                    () -> {
                      if (asked.incrementAndGet() > 1) {
                        throw new IllegalStateException("the file is gone");
                      }
                      return "token";
                    }))) {
      RefusedException error = assertThrows(RefusedException.class, bench.client::listLocks);
      assertEquals(Status.Code.UNAUTHENTICATED, error.code());
      assertTrue(error.getMessage().contains("the file is gone"), error.getMessage());
    }
  }

  private static final class Recorder implements ClientInterceptor {
    private final Queue<String> methods = new ConcurrentLinkedQueue<>();

    @Override
    public <Q, A> ClientCall<Q, A> interceptCall(
        MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
      methods.add(method.getBareMethodName());
      return next.newCall(method, options);
    }
  }

  @Test
  void interceptorsSeeEachCall() throws Exception {
    Recorder recorder = new Recorder();
    try (Bench bench = new Bench(builder -> builder.intercept(recorder))) {
      bench.held().hold().close();
      assertEquals(List.of("HoldLease", "ReleaseLease"), List.copyOf(recorder.methods));
    }
  }

  @Test
  void usersCanHaveClientsOfTheirOwnInTests() {
    assertTrue(LeaseholdClient.class.isInterface());
    assertTrue(Hold.class.isInterface());
    assertTrue(LockWatch.class.isInterface());
  }
}
