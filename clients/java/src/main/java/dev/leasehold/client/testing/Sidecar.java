package dev.leasehold.client.testing;

import dev.leasehold.client.LeaseholdClient;
import dev.leasehold.client.Locks;
import dev.leasehold.v1.BreakLockRequest;
import dev.leasehold.v1.BreakMode;
import dev.leasehold.v1.BreakOutcome;
import dev.leasehold.v1.LockKey;
import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.LockSelector;
import dev.leasehold.v1.LockState;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.function.Predicate;

/**
 * A sidecar of one test, with its locks in memory, on a Unix socket in a temporary folder, until
 * {@link #close()}. It ends with the test process, however that ends.
 *
 * <p>Its methods throw {@link SidecarException}. They go on when the thread is interrupted, as it
 * is when a hold of its own is lost, and leave the interrupt for the code under test.
 */
public final class Sidecar implements AutoCloseable {
  /** The environment variable that names the program to start. It is no setting of the sidecar. */
  public static final String PROGRAM_VARIABLE = "LEASEHOLD_PROGRAM";

  private final SidecarProcess process;

  /** Not final, so that tests of the waits need not wait. */
  Duration timeout;

  private final LeaseholdClient client;

  private Sidecar(Builder builder) {
    timeout = builder.timeout;
    Path program = builder.program == null ? Program.find() : builder.program;
    process = undisturbed(() -> new SidecarProcess(program, builder.settings));
    try {
      start();
      client = client();
    } catch (RuntimeException problem) {
      end();
      throw problem;
    }
  }

  /**
   * Starts one, and waits until it answers.
   *
   * @return the sidecar
   */
  public static Sidecar startNew() {
    return builder().start();
  }

  /**
   * One with other settings, or another program.
   *
   * @return what it is made from
   */
  public static Builder builder() {
    return new Builder();
  }

  /** How a sidecar is started. */
  public static final class Builder {
    private final Map<String, String> settings = new LinkedHashMap<>();
    private Path program;
    private Duration timeout = Duration.ofSeconds(30);

    private Builder() {}

    /**
     * Gives the sidecar a setting, as {@code leasehold serve --set} does. It replaces what the
     * sidecar would have: its store is the memory, its leases last for 15 s where a caller names no
     * duration, and locks may be broken.
     *
     * @param key such as {@code drain.period}
     * @param value such as {@code 5s}
     * @return this
     */
    public Builder setting(String key, String value) {
      settings.put(key, value);
      return this;
    }

    /**
     * Starts this program. Default: what {@code LEASEHOLD_PROGRAM} names, or else the one in {@code
     * PATH}.
     *
     * @param path of {@code leasehold}
     * @return this
     */
    public Builder program(Path path) {
      program = path;
      return this;
    }

    /**
     * How long the sidecar's start, its end and the waits may take. Default: 30 s.
     *
     * @param duration at most that long
     * @return this
     */
    public Builder timeout(Duration duration) {
      timeout = duration;
      return this;
    }

    /**
     * Starts the sidecar, and waits until it answers.
     *
     * @return the sidecar
     */
    public Sidecar start() {
      return new Sidecar(this);
    }
  }

  /**
   * Where it is, for a client or for {@code LEASEHOLD_ENDPOINT}.
   *
   * @return the endpoint
   */
  public String endpoint() {
    return "unix://" + process.socket();
  }

  /**
   * Connects a client, which the caller closes.
   *
   * @return the client
   */
  public LeaseholdClient client() {
    return undisturbed(() -> LeaseholdClient.connect(endpoint()));
  }

  /**
   * What it has logged so far.
   *
   * @return lines of JSON
   */
  public String log() {
    return process.log();
  }

  /**
   * The id of its process.
   *
   * @return the id
   */
  public long processId() {
    return process.id();
  }

  /**
   * Has the holder lose the lock at once, with the reason {@code BROKEN}; the lock is available
   * then. Somebody has to hold it.
   *
   * @param function the lock's
   */
  public void lose(String function) {
    lose(Locks.key(function, ""));
  }

  /**
   * The same for any lock.
   *
   * @param key the lock's
   */
  public void lose(LockKey key) {
    breakLock(key, "lost by a test", BreakMode.BREAK_MODE_NOW);
  }

  /**
   * Breaks the lock as an operator does: its holder is told, and loses it when its lease has run
   * out. Somebody has to hold it.
   *
   * @param function the lock's
   * @param reason for the holder
   */
  public void breakLock(String function, String reason) {
    breakLock(Locks.key(function, ""), reason);
  }

  /**
   * The same for any lock.
   *
   * @param key the lock's
   * @param reason for the holder
   */
  public void breakLock(LockKey key, String reason) {
    breakLock(key, reason, BreakMode.BREAK_MODE_RUN_OUT);
  }

  private void breakLock(LockKey key, String reason, BreakMode mode) {
    LockSelector lock = Locks.named(key);
    // One that was never acquired does not exist, and cannot be asked to be broken.
    boolean held = record(key).getState() != LockState.LOCK_STATE_AVAILABLE;
    if (held) {
      BreakLockRequest request =
          BreakLockRequest.newBuilder().setLock(lock).setReason(reason).setMode(mode).build();
      BreakOutcome outcome = undisturbed(() -> client.breakLock(request)).getOutcome();
      held = outcome != BreakOutcome.BREAK_OUTCOME_NOT_HELD;
    }
    if (!held) {
      throw new SidecarException(
          name(key)
              + " cannot be lost or broken: nobody holds it. waitUntilHeld() waits for a holder");
    }
  }

  /**
   * Stops the sidecar's process until {@link #resume()}, so that grants, renewals and answers are
   * late. A hold is not told of it: its client finds by its own clock that its validity is over.
   */
  public void pause() {
    run(process::pause);
  }

  /** Lets the sidecar's process go on, if it is paused. */
  public void resume() {
    run(process::resume);
  }

  /** Ends the sidecar as a crash does. What is in memory is forgotten: all its locks. */
  public void kill() {
    run(process::kill);
  }

  /**
   * Has the sidecar shut down, as an update does: holders are told, and have {@code drain.period}
   * to release.
   */
  public void stop() {
    run(() -> process.stop(timeout));
  }

  /** Starts the sidecar again at the same endpoint, after {@link #kill()} or {@link #stop()}. */
  public void start() {
    run(() -> process.start(timeout));
  }

  /**
   * Waits until somebody holds the lock.
   *
   * @param function the lock's
   * @return its record
   */
  public LockRecord waitUntilHeld(String function) {
    return waitUntil(
        Locks.key(function, ""), "is held", lock -> lock.getState() == LockState.LOCK_STATE_HELD);
  }

  /**
   * Waits until nobody holds the lock.
   *
   * @param function the lock's
   * @return its record
   */
  public LockRecord waitUntilAvailable(String function) {
    return waitUntil(
        Locks.key(function, ""),
        "is available",
        lock -> lock.getState() == LockState.LOCK_STATE_AVAILABLE);
  }

  /**
   * Waits until so many callers, or more, wait for the lock.
   *
   * @param function the lock's
   * @param callers how many
   * @return its record
   */
  public LockRecord waitUntilWaiting(String function, int callers) {
    return waitUntil(
        Locks.key(function, ""),
        "has " + callers + " waiting",
        lock -> lock.getWaitersHere() >= callers);
  }

  /**
   * Waits until the lock's record meets the condition.
   *
   * @param key the lock's
   * @param what for the exception's text
   * @param condition of its record
   * @return its record
   */
  public LockRecord waitUntil(LockKey key, String what, Predicate<LockRecord> condition) {
    return undisturbed(
        () -> {
          long deadline = System.nanoTime() + timeout.toNanos();
          for (; ; ) {
            LockRecord found = record(key);
            if (condition.test(found)) {
              return found;
            }
            if (System.nanoTime() - deadline > 0) {
              throw new SidecarException(
                  "not after " + timeout + ": " + name(key) + " " + what + ". It is " + found);
            }
            Thread.sleep(SidecarProcess.LOOK);
          }
        });
  }

  private LockRecord record(LockKey key) {
    process.checkAnswers(name(key));
    return undisturbed(() -> client.getLock(Locks.named(key)));
  }

  private static String name(LockKey key) {
    String function = "the lock \"" + key.getFunction() + "\"";
    return key.getScope().isEmpty() ? function : function + " of \"" + key.getScope() + "\"";
  }

  /** Ends the sidecar, and removes its folder. */
  @Override
  public void close() {
    end();
    client.close();
  }

  private void end() {
    run(process::close);
  }

  private interface Step {
    void run() throws IOException, InterruptedException;
  }

  private static void run(Step step) {
    Boolean unused =
        undisturbed(
            () -> {
              step.run();
              return true;
            });
  }

  /**
   * Does it in a thread of its own: this one is interrupted when a hold of its own is lost, which
   * is for the code under test.
   */
  private static <T> T undisturbed(Callable<T> task) {
    FutureTask<T> running = new FutureTask<>(task);
    Thread thread = new Thread(running, "leasehold-sidecar");
    thread.setDaemon(true);
    thread.start();
    boolean interrupted = false;
    try {
      for (; ; ) {
        try {
          return running.get();
        } catch (InterruptedException later) {
          interrupted = true;
        }
      }
    } catch (ExecutionException failed) {
      if (failed.getCause() instanceof RuntimeException problem) {
        throw problem;
      }
      throw new SidecarException("the sidecar of a test: " + failed.getCause(), failed.getCause());
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
