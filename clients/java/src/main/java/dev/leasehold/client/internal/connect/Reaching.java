package dev.leasehold.client.internal.connect;

import dev.leasehold.client.internal.errors.Unreached;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ConnectivityState;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.ForwardingClientCallListener.SimpleForwardingClientCallListener;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;

/**
 * Tells the calls that reach no sidecar from those that one refuses, or whose connection breaks.
 */
final class Reaching implements ClientInterceptor {
  private final String endpoint;
  private final ManagedChannel channel;

  /** Whether anything was heard over the channel. */
  private volatile boolean heard;

  Reaching(String endpoint, ManagedChannel channel) {
    this.endpoint = endpoint;
    this.channel = channel;
  }

  @Override
  public <Q, A> ClientCall<Q, A> interceptCall(
      MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
    return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
      @Override
      public void start(Listener<A> listener, Metadata headers) {
        super.start(
            new SimpleForwardingClientCallListener<>(listener) {
              @Override
              public void onHeaders(Metadata answered) {
                heard = true;
                super.onHeaders(answered);
              }

              @Override
              public void onClose(Status status, Metadata trailers) {
                super.onClose(told(status), trailers);
              }
            },
            headers);
      }
    };
  }

  /**
   * What is encrypted may break only after the handshake, when the sidecar has seen the
   * certificate.
   */
  private Status told(Status status) {
    boolean failed = channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE;
    boolean isNew = !heard && status.getCause() != null;
    boolean unreached = status.getCode() == Status.Code.UNAVAILABLE && (failed || isNew);
    return unreached ? status.withCause(new Unreached(endpoint, status.getCause())) : status;
  }
}
