package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.internal.connect.TraceHeaders;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.context.Scope;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
@SuppressWarnings("try") // a scope is there to be left
class TraceHeadersTest {
  private static final String PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  private static final Metadata.Key<String> TRACEPARENT = key("traceparent");
  private static final Metadata.Key<String> TRACESTATE = key("tracestate");

  private static Metadata.Key<String> key(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
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

  /** Notes the trace of each call. */
  private static final class Seen implements ClientInterceptor {
    private final Queue<String> calls = new ConcurrentLinkedQueue<>();

    @Override
    public <Q, A> ClientCall<Q, A> interceptCall(
        MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
      return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
        @Override
        public void start(Listener<A> listener, Metadata headers) {
          calls.add(method.getBareMethodName() + " " + headers.get(TRACEPARENT));
          super.start(listener, headers);
        }
      };
    }
  }

  @Test
  void aHoldIsInTheTraceInWhichItIsAskedForAndItsReleaseInThatOfItsOwn() throws Exception {
    Seen seen = new Seen();
    try (Bench bench = new Bench(builder -> builder.intercept(seen))) {
      CompletableFuture<Hold> asked;
      try (Scope scope = traced().makeCurrent()) {
        asked = bench.ask();
      }
      bench.sidecar.hold().tell(FakeSidecar.GRANTED);
      Bench.soon(asked).close();
      assertEquals(List.of("HoldLease " + PARENT, "ReleaseLease null"), List.copyOf(seen.calls));
    }
  }

  @Test
  void theStateOfTheTraceGoesWithIt() {
    Metadata headers = new Metadata();
    try (Scope scope = traced().makeCurrent()) {
      TraceHeaders.addTo(headers);
    }
    assertEquals(PARENT, headers.get(TRACEPARENT));
    assertEquals("vendor=1", headers.get(TRACESTATE));
  }

  @Test
  void withoutTheLibraryThereIsNothingToSend() {
    Metadata headers = new Metadata();
    ClassLoader without = ClassLoader.getPlatformClassLoader();
    try (Scope scope = traced().makeCurrent()) {
      TraceHeaders.adder(without).accept(headers);
    }
    assertTrue(headers.keys().isEmpty());
  }
}
