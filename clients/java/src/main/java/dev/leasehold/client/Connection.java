package dev.leasehold.client;

import dev.leasehold.v1.LeaseServiceGrpc;
import dev.leasehold.v1.LeaseServiceGrpc.LeaseServiceFutureStub;
import dev.leasehold.v1.LeaseServiceGrpc.LeaseServiceStub;
import dev.leasehold.v1.ResolvePathRequest;
import dev.leasehold.v1.ScheduleServiceGrpc;
import dev.leasehold.v1.ScheduleServiceGrpc.ScheduleServiceFutureStub;
import dev.leasehold.v1.ScheduleServiceGrpc.ScheduleServiceStub;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
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
 * So does the first call after a connection was lost: certificates are asked for anew then.
 */
final class Connection implements AutoCloseable {
  private final Supplier<ManagedChannel> channels;
  private final ClientInterceptor headers;

  private ManagedChannel current;

  /** Whether the connection of {@link #current} was lost. */
  private boolean lost;

  /** Replaced, with calls on them that may still go on. */
  private final List<ManagedChannel> replaced = new ArrayList<>();

  private boolean closed;

  /**
   * With {@code channels} that connect when they are first used.
   *
   * @throws EndpointException when none can be made
   */
  Connection(Supplier<ManagedChannel> channels, ClientInterceptor headers) {
    this.channels = channels;
    this.headers = headers;
    open();
  }

  private void open() {
    current = channels.get();
    lost = false;
    watch(current, ConnectivityState.IDLE);
  }

  /** Notices when {@code channel} loses its connection. */
  private void watch(ManagedChannel channel, ConnectivityState state) {
    channel.notifyWhenStateChanged(
        state,
        () -> {
          ConnectivityState now = channel.getState(false);
          if (state == ConnectivityState.READY && now != ConnectivityState.READY) {
            lose(channel);
          } else if (now != ConnectivityState.SHUTDOWN) {
            watch(channel, now);
          }
        });
  }

  private synchronized void lose(ManagedChannel channel) {
    if (channel == current) {
      lost = true;
    }
  }

  /**
   * Waits for a connection; what happened, if there is none. What is {@code secure} may break only
   * after the handshake, when the sidecar has seen the certificate; the first call tells.
   */
  Optional<Throwable> awaitReady(Duration patience, boolean secure) throws InterruptedException {
    ManagedChannel channel = live();
    long deadline = System.nanoTime() + patience.toNanos();
    while (true) {
      ConnectivityState state = channel.getState(true);
      if (state == ConnectivityState.READY && !secure) {
        return Optional.empty();
      }
      if (state == ConnectivityState.READY || state == ConnectivityState.TRANSIENT_FAILURE) {
        return whyNot(channel, deadline - System.nanoTime());
      }
      CountDownLatch changed = new CountDownLatch(1);
      channel.notifyWhenStateChanged(state, changed::countDown);
      if (!changed.await(deadline - System.nanoTime(), TimeUnit.NANOSECONDS)) {
        return Optional.of(new TimeoutException("no answer within " + patience.toSeconds() + " s"));
      }
    }
  }

  /** A channel tells what is wrong with it to calls only: any call will do. */
  private Optional<Throwable> whyNot(ManagedChannel channel, long patienceNanos) {
    try {
      LeaseServiceGrpc.newBlockingStub(ClientInterceptors.intercept(channel, headers))
          .withDeadlineAfter(patienceNanos, TimeUnit.NANOSECONDS)
          .resolvePath(ResolvePathRequest.getDefaultInstance());
      return Optional.empty();
    } catch (StatusRuntimeException error) {
      RefusedException refusal = RefusedException.of(error);
      boolean unheard =
          refusal.code() == Status.Code.UNAVAILABLE
              || refusal.code() == Status.Code.DEADLINE_EXCEEDED;
      // Anything else was said by somebody who is there.
      return unheard && refusal.reasonName().isEmpty() ? Optional.of(refusal) : Optional.empty();
    }
  }

  LeaseServiceStub streams() {
    return LeaseServiceGrpc.newStub(channel());
  }

  LeaseServiceFutureStub calls() {
    return LeaseServiceGrpc.newFutureStub(channel());
  }

  ScheduleServiceStub scheduleStreams() {
    return ScheduleServiceGrpc.newStub(channel());
  }

  ScheduleServiceFutureStub scheduleCalls() {
    return ScheduleServiceGrpc.newFutureStub(channel());
  }

  private io.grpc.Channel channel() {
    return ClientInterceptors.intercept(live(), headers);
  }

  private synchronized ManagedChannel live() {
    if (closed) {
      throw closed();
    }
    boolean failed = current.getState(false) == ConnectivityState.TRANSIENT_FAILURE;
    if (failed || lost) {
      replaced.removeIf(ManagedChannel::isTerminated);
      // Those before: a call may be about to start on the current one.
      replaced.forEach(ManagedChannel::shutdown);
      replaced.add(failed ? current.shutdown() : current);
      try {
        open();
      } catch (EndpointException unusable) {
        throw unavailable(unusable);
      }
    }
    return current;
  }

  /** What a call is told after the client was closed. */
  static StatusRuntimeException closed() {
    return Status.CANCELLED.withDescription("the client was closed").asRuntimeException();
  }

  /** What a call is told that has heard nothing for so long. */
  static StatusRuntimeException silent(Duration limit) {
    return Status.UNAVAILABLE
        .withDescription("nothing was heard for " + limit.toSeconds() + " s")
        .asRuntimeException();
  }

  /** What a call is told for which no connection can be made. */
  static StatusRuntimeException unavailable(EndpointException unusable) {
    return Status.UNAVAILABLE
        .withDescription(unusable.getMessage())
        .withCause(unusable)
        .asRuntimeException();
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
