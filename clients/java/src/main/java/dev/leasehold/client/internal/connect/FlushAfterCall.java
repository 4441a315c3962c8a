package dev.leasehold.client.internal.connect;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.ForwardingClientCallListener.SimpleForwardingClientCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.netty.channel.EventLoop;
import io.netty.channel.group.ChannelGroup;

/**
 * Lets the next call have its place at once. Where a connection carries as many calls as it may,
 * the end of a cancelled one is known to netty only when it has been flushed; the call that waited
 * for the place is written then, and would not be sent before something else is.
 */
final class FlushAfterCall implements ClientInterceptor {
  private final EventLoop loop;
  private final ChannelGroup sockets;

  /** All of {@code sockets} belong to {@code loop}. */
  FlushAfterCall(EventLoop loop, ChannelGroup sockets) {
    this.loop = loop;
    this.sockets = sockets;
  }

  @Override
  public <Q, A> ClientCall<Q, A> interceptCall(
      MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
    return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
      @Override
      public void start(Listener<A> listener, Metadata headers) {
        super.start(new Flusher<>(listener), headers);
      }
    };
  }

  private final class Flusher<A> extends SimpleForwardingClientCallListener<A> {
    Flusher(ClientCall.Listener<A> listener) {
      super(listener);
    }

    @Override
    public void onClose(Status status, Metadata trailers) {
      if (!status.isOk() && !loop.isShuttingDown()) {
        // After what is being done now: the cancellation is about to be written.
        // One that is being connected has nothing to be flushed, and cannot be yet.
        loop.execute(() -> sockets.flush(io.netty.channel.Channel::isActive));
      }
      super.onClose(status, trailers);
    }
  }
}
