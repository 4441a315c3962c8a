package dev.leasehold.client.internal.connect;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * What goes with each call: the token, the trace that the caller is in, and the kernel of this
 * process, so that a sidecar on the same one knows that the end of a stream is this process's doing
 * (S14).
 */
public final class CallHeaders implements ClientInterceptor {
  private static final Metadata.Key<String> AUTHORIZATION = key("authorization");
  private static final Metadata.Key<String> BOOT_ID = key("leasehold-boot-id");

  private final Optional<Supplier<String>> token;
  private final String bootId;

  /** {@code token} is asked for each call; an empty {@code bootId} is not sent. */
  public CallHeaders(Optional<Supplier<String>> token, String bootId) {
    this.token = token;
    this.bootId = bootId;
  }

  private static Metadata.Key<String> key(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
  }

  /**
   * The header that carries a token.
   *
   * @throws IllegalArgumentException when it cannot be sent; does not show it (S20)
   */
  public static String authorization(String token) {
    String sent = token.strip();
    if (sent.isEmpty() || !sent.chars().allMatch(c -> c > ' ' && c < 127)) {
      throw new IllegalArgumentException(
          "the bearer token is empty or has characters that cannot be sent");
    }
    return "Bearer " + sent;
  }

  @Override
  public <Q, A> ClientCall<Q, A> interceptCall(
      MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
    return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
      @Override
      public void start(Listener<A> listener, Metadata headers) {
        addTo(headers);
        super.start(listener, headers);
      }
    };
  }

  private void addTo(Metadata headers) {
    if (token.isPresent()) {
      headers.put(AUTHORIZATION, authorization());
    }
    if (!bootId.isEmpty()) {
      headers.put(BOOT_ID, bootId);
    }
    TraceHeaders.addTo(headers);
  }

  private String authorization() {
    try {
      return authorization(token.orElseThrow().get());
    } catch (RuntimeException failed) {
      throw Status.UNAUTHENTICATED
          .withDescription("there is no bearer token: " + failed.getMessage())
          .withCause(failed)
          .asRuntimeException();
    }
  }
}
