package dev.leasehold.client;

/**
 * Interrupts the thread that runs under a lock when the lock is lost, and never after it has left
 * the block.
 */
final class LossInterrupt {
  private Thread running;
  private boolean lost;
  private boolean interrupted;

  /** The current thread enters the block. */
  synchronized void enter() {
    running = Thread.currentThread();
    interruptOnce();
  }

  /** The hold is lost. */
  synchronized void fire() {
    lost = true;
    interruptOnce();
  }

  /** The block is left: an interrupt that came from here and was not noticed is taken back. */
  synchronized void leave() {
    if (interrupted && running == Thread.currentThread()) {
      Thread.interrupted();
    }
    running = null;
  }

  private void interruptOnce() {
    if (lost && running != null && !interrupted) {
      interrupted = true;
      running.interrupt();
    }
  }
}
