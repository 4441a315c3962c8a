package dev.leasehold.client.internal.connect;

import io.grpc.Metadata;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import java.util.StringJoiner;
import java.util.function.Consumer;

/**
 * The trace that a caller is in, as W3C Trace Context, where OpenTelemetry's API is on the class
 * path.
 */
public final class TraceHeaders {
  private static final Consumer<Metadata> ADDER = adder(TraceHeaders.class.getClassLoader());

  private TraceHeaders() {}

  /** Adds the current context's trace; nothing where there is none. */
  public static void addTo(Metadata headers) {
    ADDER.accept(headers);
  }

  /** What adds it; what adds nothing, where {@code loader} does not find the API. */
  public static Consumer<Metadata> adder(ClassLoader loader) {
    try {
      Class.forName("io.opentelemetry.api.trace.Span", false, loader);
      return Current::addTo;
    } catch (ClassNotFoundException | LinkageError missing) {
      return headers -> {};
    }
  }

  /** Of OpenTelemetry: loaded only where it is found. */
  private static final class Current {
    private static final Metadata.Key<String> PARENT = key("traceparent");
    private static final Metadata.Key<String> STATE = key("tracestate");

    private static Metadata.Key<String> key(String name) {
      return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
    }

    static void addTo(Metadata headers) {
      SpanContext span = Span.current().getSpanContext();
      if (!span.isValid()) {
        return;
      }
      headers.put(
          PARENT,
          "00-%s-%s-%s"
              .formatted(span.getTraceId(), span.getSpanId(), span.isSampled() ? "01" : "00"));
      StringJoiner state = new StringJoiner(",");
      span.getTraceState().forEach((name, value) -> state.add(name + "=" + value));
      if (state.length() > 0) {
        headers.put(STATE, state.toString());
      }
    }
  }
}
