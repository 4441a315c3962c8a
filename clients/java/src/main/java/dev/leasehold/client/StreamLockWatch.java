package dev.leasehold.client;

import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.WatchLockRequest;
import dev.leasehold.v1.WatchLockResponse;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** A watch by WatchLock calls, one after the other. */
final class StreamLockWatch implements LockWatch, Runnable {
  /** The pause after the connection broke; doubled up to {@link #LONGEST_PAUSE}. */
  private static final Duration FIRST_PAUSE = Duration.ofMillis(50);

  private static final Duration LONGEST_PAUSE = Duration.ofSeconds(1);

  /** What comes: a record, or the end with or without an error. */
  private record News(Optional<LockRecord> record, Optional<RefusedException> error) {}

  private final ClientContext context;
  private final WatchLockRequest request;
  private final BlockingQueue<News> news = new LinkedBlockingQueue<>();

  /** The newest call; null while there is none. */
  private Round round;

  /** The newest record told; null if there was none. */
  private LockRecord told;

  private Duration pause = FIRST_PAUSE;

  /** Since when no call has brought a record, on the JVM's clock; null while one does. */
  private Long broken;

  private boolean ended;

  private StreamLockWatch(ClientContext context, WatchLockRequest request) {
    this.context = context;
    this.request = request;
  }

  static StreamLockWatch open(ClientContext context, WatchLockRequest request) {
    StreamLockWatch watch = new StreamLockWatch(context, request);
    context.whenClosed(watch);
    watch.ask();
    return watch;
  }

  /** The client was closed. */
  @Override
  public void run() {
    end(RefusedException.of(Connection.closed()));
  }

  @Override
  public Optional<LockRecord> next() throws InterruptedException {
    News next = news.take();
    if (next.record.isEmpty()) {
      // The end stays the end.
      news.add(next);
    }
    if (next.error.isPresent()) {
      throw next.error.get();
    }
    return next.record;
  }

  @Override
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
    }
    try {
      opened.place = context.place();
      Calls.detached(
          () -> {
            opened.place.connection().streams().watchLock(request, opened);
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

  /** What the newest call brought. Says nothing twice. */
  private synchronized void tell(LockRecord record) {
    broken = null;
    pause = FIRST_PAUSE;
    if (!ended && !record.equals(told)) {
      told = record;
      news.add(new News(Optional.of(record), Optional.empty()));
    }
  }

  /** The newest call broke. A watch that has told a record goes on with another. */
  private void broke(RefusedException why) {
    Duration rest;
    synchronized (this) {
      long now = System.nanoTime();
      broken = broken == null ? now : broken;
      boolean late = now - broken > context.limits().silence().toNanos();
      if (told == null || late || !why.isBreak()) {
        end(why);
        return;
      }
      rest = pause;
      pause = Durations.shorter(pause.multipliedBy(2), LONGEST_PAUSE);
    }
    context.after(rest, this::ask);
  }

  private void end(RefusedException why) {
    end(new News(Optional.empty(), Optional.of(why)));
  }

  private void end(News last) {
    Round open;
    synchronized (this) {
      if (ended) {
        return;
      }
      ended = true;
      news.add(last);
      open = round;
    }
    context.answered(this);
    if (open != null) {
      open.drop();
    }
  }

  /** One WatchLock call. */
  private final class Round implements ClientResponseObserver<WatchLockRequest, WatchLockResponse> {
    private final Silence silence = context.silence().start(this::silent);
    private Connections.Place place;
    private ClientCallStreamObserver<WatchLockRequest> call;
    private boolean over;

    @Override
    public synchronized void beforeStart(ClientCallStreamObserver<WatchLockRequest> starting) {
      call = starting;
    }

    @Override
    public void onNext(WatchLockResponse response) {
      silence.heard();
      if (response.hasRecord()) {
        tell(response.getRecord());
      }
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
        end(new News(Optional.empty(), Optional.empty()));
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
      ClientCallStreamObserver<WatchLockRequest> started;
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
