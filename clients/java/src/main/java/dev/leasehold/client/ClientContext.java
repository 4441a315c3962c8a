package dev.leasehold.client;

import dev.leasehold.v1.LossReason;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.time.Duration;

/** What all holds of a client share: the connection, the clock, and threads. */
final class ClientContext implements AutoCloseable {
  private final Connection connection;
  private final Calls calls;
  private final BootClock clock;

  /** One thread, which never blocks: it watches the clock. */
  private final ScheduledThreadPoolExecutor timers;

  /** For what the client's user runs. */
  private final ExecutorService workers = Executors.newCachedThreadPool(daemons("leasehold-worker"));

  private final Set<HoldState> holds = new HashSet<>();
  private boolean closed;

  ClientContext(Connection connection, BootClock clock) {
    this.connection = connection;
    this.calls = new Calls(connection);
    this.clock = clock;
    timers =
        new ScheduledThreadPoolExecutor(
            1, daemons("leasehold-clock"), new ThreadPoolExecutor.DiscardPolicy());
    timers.setRemoveOnCancelPolicy(true);
  }

  static ThreadFactory daemons(String name) {
    AtomicInteger count = new AtomicInteger();
    return task -> {
      Thread thread = new Thread(task, name + "-" + count.incrementAndGet());
      thread.setDaemon(true);
      return thread;
    };
  }

  Connection connection() {
    return connection;
  }

  Calls calls() {
    return calls;
  }

  BootClock clock() {
    return clock;
  }

  /** Runs what may block. */
  ExecutorService workers() {
    return workers;
  }

  ScheduledFuture<?> after(Duration pause, Runnable task) {
    return timers.schedule(task, Spans.nanos(pause), TimeUnit.NANOSECONDS);
  }

  /** Counts a hold in: it is lost when the client is closed. */
  void add(HoldState hold) {
    synchronized (this) {
      if (!closed) {
        holds.add(hold);
        return;
      }
    }
    loseToClosing(hold);
  }

  synchronized void remove(HoldState hold) {
    holds.remove(hold);
  }

  /** Ends what is believed, and then the connection (S13). */
  @Override
  public void close() {
    List<HoldState> left;
    synchronized (this) {
      closed = true;
      left = List.copyOf(holds);
    }
    left.forEach(ClientContext::loseToClosing);
    timers.shutdownNow();
    connection.close();
    workers.shutdown();
  }

  private static void loseToClosing(HoldState hold) {
    hold.lose(new Loss(LossReason.LOSS_REASON_UNSPECIFIED, "the client was closed"));
  }
}
