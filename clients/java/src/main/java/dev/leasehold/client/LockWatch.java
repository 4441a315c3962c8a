package dev.leasehold.client;

import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.WatchLockRequest;
import dev.leasehold.v1.WatchLockResponse;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** The records of a lock as they change, until it is closed. Read it from one thread. */
public final class LockWatch implements AutoCloseable {
  /** What comes: a record, or the end with or without an error. */
  private record News(Optional<LockRecord> record, Optional<RefusedException> error) {}

  private final BlockingQueue<News> news = new LinkedBlockingQueue<>();
  private ClientCallStreamObserver<WatchLockRequest> call;

  static LockWatch open(Connection connection, WatchLockRequest request) {
    LockWatch watch = new LockWatch();
    try {
      Calls.detached(
          () -> {
            connection.streams().watchLock(request, watch.new Observer());
            return watch;
          });
    } catch (RuntimeException refused) {
      throw RefusedException.of(refused);
    }
    return watch;
  }

  /**
   * Waits for the next record; the first is the present one.
   *
   * @return the record; empty when the sidecar has ended the stream
   * @throws RefusedException when the store cannot be read, or the sidecar goes away: watch again
   * @throws InterruptedException when the thread is interrupted
   */
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

  /** Stops watching. Who waits in {@link #next()} is told that it was cancelled. */
  @Override
  public synchronized void close() {
    call.cancel("the watch was closed", null);
  }

  private final class Observer
      implements ClientResponseObserver<WatchLockRequest, WatchLockResponse> {
    @Override
    public void beforeStart(ClientCallStreamObserver<WatchLockRequest> starting) {
      synchronized (LockWatch.this) {
        call = starting;
      }
    }

    @Override
    public void onNext(WatchLockResponse response) {
      if (response.hasRecord()) {
        news.add(new News(Optional.of(response.getRecord()), Optional.empty()));
      }
    }

    @Override
    public void onError(Throwable error) {
      news.add(new News(Optional.empty(), Optional.of(RefusedException.of(error))));
    }

    @Override
    public void onCompleted() {
      news.add(new News(Optional.empty(), Optional.empty()));
    }
  }
}
