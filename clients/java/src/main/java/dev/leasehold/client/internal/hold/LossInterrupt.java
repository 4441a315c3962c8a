package dev.leasehold.client.internal.hold;

import java.time.Duration;
import java.util.function.Consumer;

/**
 * Interrupts the thread that runs under a lock when the lock is lost, and never after it has left
 * the block. A thread has one interrupt status for all who interrupt it, so this looks who has set
 * it, and clears its own only. One that comes while its own is pending cannot be told apart.
 */
public final class LossInterrupt {
  /** How often to look whether the thread has noticed. */
  static final Duration LOOK = Duration.ofMillis(5);

  private final Consumer<Runnable> later;
  private Thread running;
  private boolean lost;

  /** The thread was interrupted by this, and has not noticed yet. */
  private boolean pending;

  /** {@code later} runs a task after {@link #LOOK}. */
  LossInterrupt(Consumer<Runnable> later) {
    this.later = later;
  }

  /** The current thread enters the block. */
  public synchronized void enter() {
    running = Thread.currentThread();
    interrupt();
  }

  /** The hold is lost. */
  synchronized void fire() {
    if (!lost) {
      lost = true;
      interrupt();
    }
  }

  /** The block was left by an InterruptedException: a status that is set by now is another's. */
  public synchronized void noticed() {
    pending = false;
  }

  /** The block is left: an interrupt that came from here and was not noticed is taken back. */
  public synchronized void leave() {
    if (pending && running == Thread.currentThread()) {
      Thread.interrupted();
    }
    pending = false;
    running = null;
  }

  private void interrupt() {
    // Who was interrupted by somebody else will stop, and that status stays.
    if (lost && running != null && !running.isInterrupted()) {
      pending = true;
      running.interrupt();
      later.accept(this::look);
    }
  }

  private synchronized void look() {
    if (!pending) {
      return;
    }
    if (running.isInterrupted()) {
      later.accept(this::look);
    } else {
      pending = false;
    }
  }
}
