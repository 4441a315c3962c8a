package dev.leasehold.client;

import java.util.PriorityQueue;
import java.util.Queue;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.Executors;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * A time of its own, and the only thread of what runs in it: it goes on when it is told to. What it
 * is an executor of is not used, but its form.
 */
final class VirtualTime extends ScheduledThreadPoolExecutor {
  private final Queue<Runnable> ready = new ConcurrentLinkedQueue<>();
  private final PriorityQueue<Timer<?>> timers = new PriorityQueue<>();
  private long now;

  VirtualTime() {
    super(0);
  }

  /** Nanoseconds since it began. */
  synchronized long nanos() {
    return now;
  }

  /** Runs what is due until a moment, and lets the time go there. */
  void pass(long to) {
    settle();
    for (Timer<?> next = due(to); next != null; next = due(to)) {
      next.run();
      settle();
    }
    synchronized (this) {
      now = to;
    }
  }

  private synchronized Timer<?> due(long to) {
    Timer<?> next = timers.peek();
    if (next == null || next.at > to) {
      return null;
    }
    now = Math.max(now, next.at);
    return timers.remove();
  }

  /** Runs all that does not wait for its time. */
  void settle() {
    for (Runnable next = ready.poll(); next != null; next = ready.poll()) {
      next.run();
    }
  }

  @Override
  public void execute(Runnable task) {
    ready.add(task);
  }

  @Override
  public ScheduledFuture<?> schedule(Runnable task, long delay, TimeUnit unit) {
    return schedule(Executors.callable(task), delay, unit);
  }

  @Override
  public synchronized <T> ScheduledFuture<T> schedule(Callable<T> task, long delay, TimeUnit unit) {
    long wanted = unit.toNanos(delay);
    // What is left to a call's deadline is counted on the machine's clock, which has gone on.
    boolean isLeft = wanted % 1_000_000 != 0;
    long whole = isLeft ? Math.round(wanted / 1e8) * 100_000_000 : wanted;
    Timer<T> timer = new Timer<>(task, now + whole);
    timers.add(timer);
    return timer;
  }

  private final class Timer<T> extends FutureTask<T> implements ScheduledFuture<T> {
    private final long at;

    Timer(Callable<T> task, long at) {
      super(task);
      this.at = at;
    }

    @Override
    public long getDelay(TimeUnit unit) {
      return unit.convert(at - nanos(), TimeUnit.NANOSECONDS);
    }

    @Override
    public int compareTo(Delayed other) {
      return Long.compare(getDelay(TimeUnit.NANOSECONDS), other.getDelay(TimeUnit.NANOSECONDS));
    }
  }
}
