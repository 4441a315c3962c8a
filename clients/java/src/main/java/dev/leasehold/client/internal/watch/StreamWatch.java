package dev.leasehold.client.internal.watch;

import dev.leasehold.client.Constants;
import dev.leasehold.client.RefusedException;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.client.internal.connect.Calls;
import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.client.internal.connect.Connection;
import dev.leasehold.client.internal.connect.Connections;
import dev.leasehold.client.internal.connect.Silence;
import dev.leasehold.client.internal.errors.Refusals;
import dev.leasehold.v1.LeaseServiceGrpc.LeaseServiceStub;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * A watch by calls that bring answers without end, one call after the other.
 *
 * @param <Q> the request
 * @param <A> the answers
 * @param <N> what is told
 */
abstract class StreamWatch<Q, A, N> implements Runnable {
  /** What comes: something new, or the end with or without an error. */
  private record News<N>(Optional<N> told, Optional<RefusedException> error) {}

  private final ClientContext context;
  private final BlockingQueue<News<N>> news = new LinkedBlockingQueue<>();

  /** The newest call; null while there is none. */
  private Round round;

  /** An answer was told of: a watch that has begun outlives its call. */
  private boolean begun;

  private Duration pause = Constants.FIRST_PAUSE;

  /** Since when no call has brought an answer, on the JVM's clock; null while one does. */
  private Long broken;

  private boolean ended;

  StreamWatch(ClientContext context) {
    this.context = context;
  }

  /** Starts a call. */
  abstract void call(LeaseServiceStub stub, StreamObserver<A> observer);

  /** A call begins, whose first answers tell all again. */
  abstract void restart();

  /** What is new in an answer. */
  abstract List<N> newIn(A answer);

  /** Begins; once. */
  void open() {
    context.add(this);
    ask();
  }

  /** The client was closed. */
  @Override
  public void run() {
    end(RefusedException.of(Connection.closed()));
  }

  /** Waits for what comes next; empty at the end. */
  public Optional<N> next() throws InterruptedException {
    News<N> next = news.take();
    if (next.told.isEmpty()) {
      // The end stays the end.
      news.add(next);
    }
    if (next.error.isPresent()) {
      throw next.error.get();
    }
    return next.told;
  }

  /** Ends the watch, and whoever waits in {@link #next()}. */
  public void close() {
    end(
        RefusedException.of(
            Status.CANCELLED.withDescription("the watch was closed").asRuntimeException()));
  }

  private void ask() {
    Round opened;
    synchronized (this) {
      if (ended) {
        return;
      }
      opened = new Round();
      round = opened;
      restart();
    }
    try {
      opened.place = context.place();
      Calls.detached(
          () -> {
            call(opened.place.connection().streams(), opened);
            return opened;
          });
    } catch (RuntimeException refused) {
      opened.onError(refused);
    }
    if (isEnded()) {
      opened.drop();
    }
  }

  private synchronized boolean isEnded() {
    return ended;
  }

  /** What a call brought; nothing if a newer one has its place. */
  private synchronized void tell(Round from, A answer) {
    if (ended || from != round) {
      return;
    }
    broken = null;
    pause = Constants.FIRST_PAUSE;
    begun = true;
    newIn(answer).forEach(told -> news.add(new News<>(Optional.of(told), Optional.empty())));
  }

  /** The newest call broke. A watch that has begun goes on with another. */
  private void broke(RefusedException why) {
    Duration rest;
    synchronized (this) {
      long now = System.nanoTime();
      broken = broken == null ? now : broken;
      boolean late = now - broken > context.limits().silence().toNanos();
      if (!begun || late || !Refusals.isBreak(why)) {
        end(why);
        return;
      }
      rest = pause;
      pause = Durations.shorter(pause.multipliedBy(2), Constants.LONGEST_PAUSE);
    }
    context.after(rest, this::ask);
  }

  private void end(RefusedException why) {
    end(new News<>(Optional.empty(), Optional.of(why)));
  }

  private void end(News<N> last) {
    Round open;
    synchronized (this) {
      if (ended) {
        return;
      }
      ended = true;
      news.add(last);
      open = round;
    }
    context.remove(this);
    if (open != null) {
      open.drop();
    }
  }

  /** One call. */
  private final class Round implements ClientResponseObserver<Q, A> {
    private final Silence silence = context.silence().start(this::silent);
    private Connections.Place place;
    private ClientCallStreamObserver<Q> call;
    private boolean over;

    @Override
    public synchronized void beforeStart(ClientCallStreamObserver<Q> starting) {
      call = starting;
    }

    @Override
    public void onNext(A answer) {
      silence.heard();
      tell(this, answer);
    }

    @Override
    public void onError(Throwable error) {
      if (leave()) {
        broke(RefusedException.of(error));
      }
    }

    @Override
    public void onCompleted() {
      if (leave()) {
        end(new News<>(Optional.empty(), Optional.empty()));
      }
    }

    /** Nothing was heard for too long: the connection is dead, though nobody has closed it. */
    private void silent() {
      if (place != null) {
        place.retireConnection();
      }
      drop();
      ask();
    }

    /** Ends the call from here. */
    void drop() {
      leave();
      ClientCallStreamObserver<Q> started;
      synchronized (this) {
        started = call;
      }
      if (started != null) {
        started.cancel("nobody watches any more", null);
      }
    }

    /** The call is over. False if that is known. */
    private boolean leave() {
      silence.stop();
      if (place != null) {
        place.close();
      }
      synchronized (this) {
        boolean first = !over;
        over = true;
        return first;
      }
    }
  }
}
