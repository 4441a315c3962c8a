package dev.leasehold.client;

import static io.grpc.Metadata.ASCII_STRING_MARSHALLER;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.internal.connect.Endpoint;
import dev.leasehold.client.internal.connect.TraceHeaders;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.stub.MetadataUtils;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.context.Scope;
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
import org.junit.jupiter.params.provider.CsvSource;

/** What a client is made with, how it finds its sidecar, and what goes with each call. */
class ClientOptionsTest extends Bench {
  private static final byte[] NO_PEM = {'p', 'e', 'm'};

  @ParameterizedTest
  @CsvSource({
    "unix:///run/leasehold.sock, true",
    "http://localhost:1, true",
    "http://LOCALHOST, true",
    "http://127.0.0.1:1, true",
    "https://127.8.9.10:1, true",
    "http://[::1]:1, true",
    "http://[0:0:0:0:0:0:0:1]:1, true",
    "http://leasehold:1, false",
    "http://10.0.0.7:1, false",
    "https://127.example.org, false",
    "http://[2001:db8::1]:1, false",
    "http://[1::1]:1, false"
  })
  void s14AnEndpointIsOnThisMachineOrElsewhere(String endpoint, boolean isLocal) {
    assertEquals(isLocal, Endpoint.parse(endpoint).isLocal());
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
      try (LeaseholdClient nobodys = LeaseholdClient.connect(endpoint)) {
        for (Executable call : List.<Executable>of(nobodys::listLocks, () -> nobodys.hold(SPEC))) {
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
    serve();
    assertTrue(client.listLocks().isEmpty());
    sidecar.kill();
    LeaseSpec waits = SPEC.waitUpTo(Duration.ofHours(1));
    List<CompletableFuture<Hold>> asked = List.of(ask(waits), ask(waits.waitWithoutEnd()));
    Future<Grant> unary = threads.submit(() -> client.acquire(waits));
    assertThrows(RefusedException.class, client::listLocks);
    serve();
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
    Metadata more = new Metadata();
    more.put(Metadata.Key.of("of-a-user", ASCII_STRING_MARSHALLER), "yes");
    UnaryOperator<ClientBuilder> options =
        builder ->
            builder
                .intercept(MetadataUtils.newAttachHeadersInterceptor(more))
                .bearerToken(
                    () -> {
                      if (asked.incrementAndGet() > 2) {
                        throw new IllegalStateException("the file is gone");
                      }
                      return "token";
                    });
    try (Bench holder = new Bench(256, options)) {
      holder.client.listLocks();
      assertEquals(2, asked.get(), "once to see that it can be sent");
      FakeCall sent = holder.sidecar.calls().get(0);
      assertEquals("Bearer token", sent.header("authorization"));
      assertEquals("yes", sent.header("of-a-user"));
      RefusedException error = assertThrows(RefusedException.class, holder.client::listLocks);
      assertEquals(Status.Code.UNAUTHENTICATED, error.code());
      assertTrue(error.getMessage().contains("the file is gone"), error.getMessage());
    }
  }

  private static Span traced() {
    SpanContext context =
        SpanContext.create(
            "4bf92f3577b34da6a3ce929d0e0e4736",
            "00f067aa0ba902b7",
            TraceFlags.getSampled(),
            TraceState.builder().put("vendor", "1").build());
    return Span.wrap(context);
  }

  @Test
  @SuppressWarnings("try") // a scope is there to be left
  void aHoldIsInTheTraceInWhichItIsAskedForAndItsReleaseInThatOfItsOwn() throws Exception {
    CompletableFuture<Hold> asked;
    try (Scope scope = traced().makeCurrent()) {
      asked = ask(SPEC);
    }
    FakeCall call = grant();
    assertEquals(
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", call.header("traceparent"));
    assertEquals("vendor=1", call.header("tracestate"));
    soon(asked).close();
    assertNull(sidecar.calls().get(1).header("traceparent"));
    Metadata headers = new Metadata();
    try (Scope scope = traced().makeCurrent()) {
      TraceHeaders.adder(ClassLoader.getPlatformClassLoader()).accept(headers);
    }
    assertTrue(headers.keys().isEmpty(), "without the library there is nothing to send");
  }
}
