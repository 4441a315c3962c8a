package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.v1.AcquireLeaseResponse;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.ForwardingClientCallListener.SimpleForwardingClientCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;

@Timeout(60)
class ConnectTest {
  private static final byte[] NO_PEM = "pem".getBytes(java.nio.charset.StandardCharsets.US_ASCII);

  private static String invalid(ClientBuilder builder) {
    return assertThrows(EndpointException.class, builder::connect).getMessage();
  }

  @Test
  void nonsenseEndpointsAreRefusedWithWhatWouldBeRight() {
    for (String endpoint :
        new String[] {
          "", "127.0.0.1:50951", "ftp://host", "unix://", "unix://host/x", "http://", "http://a b"
        }) {
      String message = invalid(LeaseholdClient.builder(endpoint));
      assertTrue(message.contains("http://host:port"), endpoint + ": " + message);
    }
  }

  @Test
  void nobodyThereIsSaidWithWhatToDo() throws Exception {
    int free;
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      free = socket.getLocalPort();
    }
    for (String endpoint :
        new String[] {"http://127.0.0.1:" + free, "unix:///nowhere/leasehold.sock"}) {
      try (LeaseholdClient client = LeaseholdClient.connect(endpoint)) {
        for (Executable call :
            List.<Executable>of(client::listLocks, () -> client.hold(LeaseSpec.of("f")))) {
          String message = assertThrows(UnreachableException.class, call).getMessage();
          assertTrue(message.contains(endpoint) && message.contains("leasehold serve"), message);
        }
      }
    }
  }

  @Test
  void tlsOptionsMustFitTheEndpoint() {
    assertTrue(
        invalid(LeaseholdClient.builder("http://127.0.0.1:1").caCertificate(NO_PEM))
            .contains("only https"));
    assertTrue(
        invalid(LeaseholdClient.builder("https://127.0.0.1:1")).contains("certificate authority"));
    assertTrue(
        invalid(LeaseholdClient.builder("https://127.0.0.1:1").caCertificate(NO_PEM))
            .contains("certificates cannot be used"));
  }

  @Test
  void s20TheTokenIsNeverShown() {
    ClientBuilder builder = LeaseholdClient.builder("http://127.0.0.1:1").bearerToken("se\ncret");
    assertFalse(builder.toString().contains("cret"));
    String message = invalid(builder);
    assertTrue(message.contains("bearer token") && !message.contains("cret"), message);
  }

  /** Tells when a call has found nobody. */
  private static ClientInterceptor tries(CountDownLatch tried) {
    return new ClientInterceptor() {
      @Override
      public <Q, A> ClientCall<Q, A> interceptCall(
          MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
        return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
          @Override
          public void start(Listener<A> listener, Metadata headers) {
            super.start(
                new SimpleForwardingClientCallListener<>(listener) {
                  @Override
                  public void onClose(Status status, Metadata trailers) {
                    tried.countDown();
                    super.onClose(status, trailers);
                  }
                },
                headers);
          }
        };
      }
    };
  }

  @Test
  void aWaitCoversASidecarThatStartsLater() throws Exception {
    LeaseSpec request = LeaseSpec.of("f");
    for (LeaseSpec waits :
        List.of(request.waitUpTo(Duration.ofHours(1)), request.waitWithoutEnd())) {
      CountDownLatch tried = new CountDownLatch(1);
      try (Bench bench = new Bench(builder -> builder.intercept(tries(tried)))) {
        bench.sidecar.kill();
        CompletableFuture<Hold> asked = bench.client.holdAsync(waits, event -> {});
        tried.await();
        bench.sidecar.start();
        bench.sidecar.hold().tell(Messages.granted(Messages.grantHere()));
        assertTrue(Bench.soon(asked).isValid());
      }
    }
  }

  @Test
  void theWaitOfAUnaryCallCoversASidecarThatStartsLater() throws Exception {
    try (Bench bench = new Bench()) {
      bench.sidecar.kill();
      FutureTask<Grant> asked =
          new FutureTask<>(
              () -> bench.client.acquire(LeaseSpec.of("f").waitUpTo(Duration.ofHours(1))));
      new Thread(asked).start();
      assertThrows(UnreachableException.class, bench.client::listLocks);
      bench.sidecar.acquire =
          spec -> AcquireLeaseResponse.newBuilder().setGranted(Messages.grantHere()).build();
      bench.sidecar.start();
      assertEquals("lease-1", Bench.soon(asked).leaseId());
    }
  }

  @Test
  void callsGoOnAfterTheSidecarWasAway() throws Exception {
    try (Bench bench = new Bench()) {
      bench.sidecar.list = request -> dev.leasehold.v1.ListLocksResponse.getDefaultInstance();
      bench.sidecar.kill();
      // Each is tried at once, and fails: nothing is put off for longer and longer.
      for (int failed = 0; failed < 5; failed++) {
        RefusedException error = assertThrows(RefusedException.class, bench.client::listLocks);
        assertTrue(error.getMessage().contains("no sidecar answers"), error.getMessage());
      }
      bench.sidecar.start();
      assertTrue(bench.client.listLocks().isEmpty());
    }
  }
}
