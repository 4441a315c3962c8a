package dev.leasehold.client;

import dev.leasehold.v1.LockRecord;
import java.util.Optional;

/**
 * The records of a lock as they change, until it is closed. When the connection breaks, the watch
 * is opened again by itself. Read it from one thread.
 */
public interface LockWatch extends AutoCloseable {
  /**
   * Waits for the next record; the first is the present one, and each differs from the one before.
   *
   * @return the record; empty when the sidecar has ended the stream
   * @throws RefusedException when the store cannot be read, or no sidecar has answered for 90 s
   *     after the connection broke: watch again
   * @throws InterruptedException when the thread is interrupted
   */
  Optional<LockRecord> next() throws InterruptedException;

  /** Stops watching. A call that waits in {@link #next()} ends with {@code CANCELLED}. */
  @Override
  void close();
}
