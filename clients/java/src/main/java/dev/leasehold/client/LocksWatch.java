package dev.leasehold.client;

import java.util.Optional;

/**
 * Many locks as they change, until it is closed. When the connection breaks, the watch is opened
 * again by itself, and tells only what is different then. Read it from one thread.
 */
public interface LocksWatch extends AutoCloseable {
  /**
   * Waits for the next event.
   *
   * @return the event; empty when the sidecar has ended the stream
   * @throws RefusedException when the store cannot be read, or no sidecar has answered for 90 s
   *     after the connection broke: watch again
   * @throws InterruptedException when the thread is interrupted
   */
  Optional<LocksEvent> next() throws InterruptedException;

  /** Stops watching. A call that waits in {@link #next()} ends with {@code CANCELLED}. */
  @Override
  void close();
}
