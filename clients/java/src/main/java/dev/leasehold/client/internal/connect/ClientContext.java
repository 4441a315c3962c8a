package dev.leasehold.client.internal.connect;

import dev.leasehold.client.RefusedException;
import dev.leasehold.client.internal.clock.BootClock;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;

/** What all holds of a client share: the connections, the clock, and threads. */
public final class ClientContext implements AutoCloseable {
  /**
   * How long to wait.
   *
   * @param release for the answer to a release
   * @param silence for a word on a stream, before it is dropped
   */
  public record Limits(Duration release, Duration silence) {}

  /**
   * What a client's tasks run on.
   *
   * @param timers the connections' thread, which never blocks: it watches the clock, too
   * @param workers for what the client's user runs. Never shut down: what is to be told after the
   *     client was closed is told
   * @param nanos a reading of the time that silence is counted by
   */
  public record Engine(
      ScheduledExecutorService timers, ExecutorService workers, LongSupplier nanos) {
    /**
     * That of a client whose connections' thread is {@code timers}. Its threads end by themselves.
     */
    public static Engine of(ScheduledExecutorService timers) {
      ExecutorService workers = Executors.newCachedThreadPool(daemons("leasehold-worker"));
      return new Engine(timers, workers, System::nanoTime);
    }
  }

  private final Connections connections;
  private final BootClock clock;

  private final ScheduledExecutorService timers;
  private final ExecutorService workers;
  private final Limits limits;
  private final Silence.Watch silence;

  /** What ends with the client. */
  private final Set<Runnable> ends = new HashSet<>();

  /** What is to be told that there are no connections any more. */
  private final Set<Runnable> waiting = new HashSet<>();

  /** Done when all releases and completions are that were begun. */
  private CompletableFuture<?> last = CompletableFuture.completedFuture(null);

  private boolean closing;
  private boolean closed;

  /** Everything of one client, on the threads of {@code engine}. */
  public ClientContext(Connections connections, BootClock clock, Engine engine, Limits limits) {
    this.connections = connections;
    this.timers = engine.timers();
    this.workers = engine.workers();
    this.clock = clock;
    this.limits = limits;
    this.silence = new Silence.Watch(limits.silence(), engine.nanos());
    after(limits.silence(), this::look);
  }

  private void look() {
    after(silence.look(), this::look);
  }

  /** Makes threads that keep no process alive. */
  public static ThreadFactory daemons(String name) {
    AtomicInteger count = new AtomicInteger();
    return task -> {
      Thread thread = new Thread(task, name + "-" + count.incrementAndGet());
      thread.setDaemon(true);
      return thread;
    };
  }

  /** Waits for a sidecar, for so long at the most; how long that took. */
  public Duration awaitSidecar(Duration patience) throws InterruptedException {
    return connections.awaitSidecar(patience);
  }

  /** For a call that lasts: close it when the call is over. */
  public Connections.Place place() {
    return connections.place();
  }

  /** Unary calls that may wait for a lock. */
  public Calls waitingCalls() {
    return new Calls(connections::waiting, timers);
  }

  /** How long this client waits. */
  public Limits limits() {
    return limits;
  }

  /** Notices streams that have gone silent. */
  public Silence.Watch silence() {
    return silence;
  }

  /** Unary calls that concern no stream. */
  public Calls calls() {
    return new Calls(connections::general, timers);
  }

  /** Unary calls about what a lasting call at this place has brought. */
  public Calls callsBeside(Connections.Place place) {
    return new Calls(place::beside, timers);
  }

  /** The clock that validities are read on. */
  public BootClock clock() {
    return clock;
  }

  /** Runs what may block. */
  public ExecutorService workers() {
    return workers;
  }

  /**
   * Runs {@code task} later, unless the client is closed by then: who waits for it must be {@link
   * #whenClosed told} of that.
   */
  public Future<?> after(Duration pause, Runnable task) {
    try {
      return timers.schedule(task, pause.toNanos(), TimeUnit.NANOSECONDS);
    } catch (RejectedExecutionException closing) {
      // Who waits is told by close().
      return CompletableFuture.completedFuture(null);
    }
  }

  /** Waits for so long; fails when the client is closed meanwhile. */
  public void rest(Duration pause) throws InterruptedException {
    CompletableFuture<Boolean> isClosed = new CompletableFuture<>();
    Runnable ended = () -> isClosed.complete(true);
    add(ended);
    Future<?> timer = after(pause, () -> isClosed.complete(false));
    try {
      if (Calls.await(isClosed)) {
        throw RefusedException.of(Connection.closed());
      }
    } finally {
      timer.cancel(false);
      remove(ended);
    }
  }

  /** Counts in what ends with the client: {@code end} is run before the connections are closed. */
  public void add(Runnable end) {
    synchronized (this) {
      if (!closing) {
        ends.add(end);
        return;
      }
    }
    end.run();
  }

  /** What this {@code end} is of is over. */
  public synchronized void remove(Runnable end) {
    ends.remove(end);
  }

  /** Counts in a release or a completion: {@link #close} waits for its {@code answer}. */
  public synchronized void closesAfter(CompletableFuture<?> answer) {
    last = last.isDone() ? answer : CompletableFuture.allOf(last, answer);
  }

  /** Runs {@code teller} when the connections are closed, at once if they are. */
  public void whenClosed(Runnable teller) {
    synchronized (this) {
      if (!closed) {
        waiting.add(teller);
        return;
      }
    }
    teller.run();
  }

  /** Whoever waited has its answer. */
  public synchronized void answered(Runnable teller) {
    waiting.remove(teller);
  }

  /**
   * Ends all holds and waits, and then the connections (S13). Between, what releases and completes
   * has as long as a release may take. Nobody is left waiting.
   */
  @Override
  public void close() {
    List<Runnable> left;
    CompletableFuture<Boolean> answers;
    synchronized (this) {
      closing = true;
      left = List.copyOf(ends);
    }
    left.forEach(Runnable::run);
    synchronized (this) {
      answers = last.handle((answer, error) -> true);
    }
    answers.completeOnTimeout(false, limits.release().toNanos(), TimeUnit.NANOSECONDS);
    Calls.awaitUninterruptibly(answers);
    connections.close();
    List<Runnable> tellers;
    synchronized (this) {
      closed = true;
      tellers = List.copyOf(waiting);
      waiting.clear();
    }
    tellers.forEach(Runnable::run);
  }
}
