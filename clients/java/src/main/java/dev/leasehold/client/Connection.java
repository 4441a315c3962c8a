package dev.leasehold.client;

import dev.leasehold.v1.LeaseServiceGrpc;
import dev.leasehold.v1.LeaseServiceGrpc.LeaseServiceFutureStub;
import dev.leasehold.v1.LeaseServiceGrpc.LeaseServiceStub;
import dev.leasehold.v1.ResolvePathRequest;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.MetadataUtils;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;

/**
 * One way to a sidecar. A channel whose connection failed waits longer and longer before it tries
 * again, and refuses calls meanwhile; a call of ours is to try at once, so it gets a fresh channel.
 */
final class Connection implements AutoCloseable {
  private final Supplier<ManagedChannel> channels;
  private final ClientInterceptor headers;

  private ManagedChannel current;

  /** Replaced, with calls on them that may still go on. */
  private final List<ManagedChannel> replaced = new ArrayList<>();

  private boolean closed;

  Connection(Supplier<ManagedChannel> channels, Metadata headers) {
    this.channels = channels;
    this.headers = MetadataUtils.newAttachHeadersInterceptor(headers);
    this.current = channels.get();
  }

  /**
   * What goes with each call: the token, and the kernel of this process, so that a sidecar on the
   * same one knows that the end of a stream is this process's doing (S14).
   */
  static Metadata headers(Optional<String> bearerToken, String bootId) {
    Metadata headers = new Metadata();
    bearerToken.ifPresent(token -> headers.put(key("authorization"), "Bearer " + token));
    if (!bootId.isEmpty()) {
      headers.put(key("leasehold-boot-id"), bootId);
    }
    return headers;
  }

  private static Metadata.Key<String> key(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
  }

  /** Waits for a connection; what happened, if there is none. */
  Optional<Throwable> awaitReady(Duration patience) throws InterruptedException {
    ManagedChannel channel = live();
    long deadline = System.nanoTime() + patience.toNanos();
    while (true) {
      ConnectivityState state = channel.getState(true);
      if (state == ConnectivityState.READY) {
        return Optional.empty();
      }
      if (state == ConnectivityState.TRANSIENT_FAILURE) {
        return whyNot(channel);
      }
      CountDownLatch changed = new CountDownLatch(1);
      channel.notifyWhenStateChanged(state, changed::countDown);
      if (!changed.await(deadline - System.nanoTime(), TimeUnit.NANOSECONDS)) {
        return Optional.of(new TimeoutException("no answer within " + patience.toSeconds() + " s"));
      }
    }
  }

  /** A channel tells what is wrong with it to calls only: any call will do. */
  private static Optional<Throwable> whyNot(ManagedChannel channel) {
    try {
      LeaseServiceGrpc.newBlockingStub(channel)
          .withDeadlineAfter(1, TimeUnit.SECONDS)
          .resolvePath(ResolvePathRequest.getDefaultInstance());
      return Optional.empty();
    } catch (StatusRuntimeException error) {
      RefusedException refusal = RefusedException.of(error);
      // By now somebody may be there, and answer.
      return refusal.reasonName().isPresent() ? Optional.empty() : Optional.of(refusal);
    }
  }

  LeaseServiceStub streams() {
    return LeaseServiceGrpc.newStub(channel());
  }

  LeaseServiceFutureStub calls() {
    return LeaseServiceGrpc.newFutureStub(channel());
  }

  private io.grpc.Channel channel() {
    return ClientInterceptors.intercept(live(), headers);
  }

  private synchronized ManagedChannel live() {
    if (closed) {
      throw Status.CANCELLED.withDescription("the client was closed").asRuntimeException();
    }
    if (current.getState(false) == ConnectivityState.TRANSIENT_FAILURE) {
      replaced.removeIf(ManagedChannel::isTerminated);
      replaced.add(current.shutdown());
      current = channels.get();
    }
    return current;
  }

  /** Ends all calls. */
  @Override
  public void close() {
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
      replaced.add(current);
    }
    replaced.forEach(ManagedChannel::shutdownNow);
  }
}
