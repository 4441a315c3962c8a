package dev.leasehold.client.internal.connect;

import dev.leasehold.client.Constants;
import dev.leasehold.client.EndpointException;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.v1.LeaseServiceGrpc;
import dev.leasehold.v1.LeaseServiceGrpc.LeaseServiceFutureStub;
import dev.leasehold.v1.LeaseServiceGrpc.LeaseServiceStub;
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
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * One way to a sidecar. A channel whose connection failed waits longer and longer before it tries
 * again, and refuses calls meanwhile; a call of ours is to try at once, so it gets a fresh channel.
 * So does the first call after a connection was lost: certificates are asked for anew then.
 */
public final class Connection implements AutoCloseable {
  private static final Duration LOOK = Duration.ofSeconds(1);

  private final Supplier<ManagedChannel> channels;
  private final ClientInterceptor headers;

  private final String endpoint;

  private ManagedChannel current;

  /** That of {@link #current}. */
  private Reaching reaching;

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
  public Connection(String endpoint, Supplier<ManagedChannel> channels, ClientInterceptor headers) {
    this.endpoint = endpoint;
    this.channels = channels;
    this.headers = headers;
    open();
  }

  private void open() {
    current = channels.get();
    reaching = new Reaching(endpoint, current);
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
   * Waits until a connection stands, for so long at the most; how long that took, nothing where the
   * first try succeeds. Whether a connection stands, the next call tells.
   */
  Duration awaitReady(Duration patience) throws InterruptedException {
    long began = System.nanoTime();
    boolean failed = false;
    Duration pause = Constants.FIRST_PAUSE;
    while (true) {
      ManagedChannel channel = live();
      ConnectivityState state = channel.getState(true);
      Duration waited = Duration.ofNanos(System.nanoTime() - began);
      Duration left = Durations.shorter(patience.minus(waited), LOOK);
      if (state == ConnectivityState.READY || left.isNegative() || left.isZero()) {
        return failed ? waited : Duration.ZERO;
      }
      CountDownLatch changed = new CountDownLatch(1);
      channel.notifyWhenStateChanged(state, changed::countDown);
      boolean hasChanged = changed.await(left.toNanos(), TimeUnit.NANOSECONDS);
      if (hasChanged && channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE) {
        failed = true;
        TimeUnit.NANOSECONDS.sleep(Durations.shorter(left, pause).toNanos());
        pause = Durations.shorter(pause.multipliedBy(2), LOOK);
      }
    }
  }

  /** Lasting calls about locks, on a channel that tries at once. */
  public LeaseServiceStub streams() {
    return LeaseServiceGrpc.newStub(channel());
  }

  LeaseServiceFutureStub calls() {
    return LeaseServiceGrpc.newFutureStub(channel());
  }

  /** Lasting calls about schedules, on a channel that tries at once. */
  public ScheduleServiceStub scheduleStreams() {
    return ScheduleServiceGrpc.newStub(channel());
  }

  ScheduleServiceFutureStub scheduleCalls() {
    return ScheduleServiceGrpc.newFutureStub(channel());
  }

  private synchronized io.grpc.Channel channel() {
    return ClientInterceptors.intercept(live(), reaching, headers);
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
  public static StatusRuntimeException closed() {
    return Status.CANCELLED.withDescription("the client was closed").asRuntimeException();
  }

  /** What a call is told that has heard nothing for so long. */
  public static StatusRuntimeException silent(Duration limit) {
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
