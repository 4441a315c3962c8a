package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.internal.connect.Endpoint;
import io.grpc.Status;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What a client is made with, and how it finds its sidecar. */
class ClientOptionsTest extends BenchTest {
  private static final byte[] NO_PEM = {'p', 'e', 'm'};

  @ParameterizedTest
  @ValueSource(
      strings = {
        "unix:///run/leasehold.sock",
        "http://localhost:1",
        "http://LOCALHOST",
        "http://127.0.0.1:1",
        "https://127.8.9.10:1",
        "http://[::1]:1",
        "http://[0:0:0:0:0:0:0:1]:1"
      })
  void s14EndpointsOnThisMachine(String endpoint) {
    assertTrue(Endpoint.parse(endpoint).isLocal());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "http://leasehold:1",
        "http://10.0.0.7:1",
        "https://127.example.org",
        "http://[2001:db8::1]:1",
        "http://[1::1]:1"
      })
  void s14EndpointsElsewhere(String endpoint) {
    assertFalse(Endpoint.parse(endpoint).isLocal());
  }

  private static void refused(
      String endpoint, UnaryOperator<ClientBuilder> options, String because) {
    ClientBuilder builder = options.apply(LeaseholdClient.builder(endpoint));
    String message = assertThrows(EndpointException.class, builder::connect).getMessage();
    assertTrue(message.contains(because) && !message.contains("cret"), message);
    assertFalse(builder.toString().contains("cret"), "S20");
  }

  @Test
  void whatCannotBeIsRefusedWithWhatWouldBeRight() {
    for (String endpoint :
        List.of("", "127.0.0.1:1", "ftp://h", "unix://", "unix://h/x", "http://", "http://a b")) {
      refused(endpoint, builder -> builder, "http://host:port");
    }
    String plain = "http://127.0.0.1:1";
    String secure = "https://127.0.0.1:1";
    refused(plain, one -> one.keepAlive(Duration.ofSeconds(9)), "10 s or more");
    refused(plain, one -> one.releaseTimeout(Duration.ZERO), "releaseTimeout");
    refused(plain, one -> one.bearerToken("se\ncret"), "bearer token");
    refused(plain, one -> one.caCertificate(NO_PEM), "only https");
    refused(secure, one -> one, "certificate authority");
    refused(secure, one -> one.caCertificate(NO_PEM), "certificates cannot be used");
  }

  @Test
  void nobodyThereIsSaidWithWhatToDo() throws Exception {
    int free;
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      free = socket.getLocalPort();
    }
    for (String endpoint : List.of("http://127.0.0.1:" + free, "unix:///nowhere/leasehold.sock")) {
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
  void aSidecarThatWasAwayIsFoundAtOnceAndAWaitCoversOneThatStartsLater() throws Exception {
    sidecar.kill();
    for (int failed = 0; failed < 5; failed++) {
      assertThrows(UnreachableException.class, client::listLocks);
    }
    sidecar.start();
    assertTrue(client.listLocks().isEmpty());
    sidecar.kill();
    LeaseSpec waits = SPEC.waitUpTo(Duration.ofHours(1));
    List<CompletableFuture<Hold>> asked = List.of(ask(waits), ask(waits.waitWithoutEnd()));
    Future<Grant> unary = threads.submit(() -> client.acquire(waits));
    assertThrows(RefusedException.class, client::listLocks);
    sidecar.start();
    grant();
    grant();
    for (CompletableFuture<Hold> hold : asked) {
      assertTrue(soon(hold).isValid());
    }
    assertEquals("lease-1", soon(unary).leaseId());
  }

  @Test
  void s20ATokenIsAskedForEachCallAndWithoutItTheCallFails() throws Exception {
    AtomicInteger asked = new AtomicInteger();
    UnaryOperator<ClientBuilder> options =
        builder ->
            builder.bearerToken(
                () -> {
                  if (asked.incrementAndGet() > 2) {
                    throw new IllegalStateException("the file is gone");
                  }
                  return "token";
                });
    try (Bench holder = new Bench(options)) {
      holder.client.listLocks();
      assertEquals(2, asked.get(), "once to see that it can be sent");
      RefusedException error = assertThrows(RefusedException.class, holder.client::listLocks);
      assertEquals(Status.Code.UNAUTHENTICATED, error.code());
      assertTrue(error.getMessage().contains("the file is gone"), error.getMessage());
    }
  }
}
