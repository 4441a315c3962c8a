package dev.leasehold.client;

/**
 * What is done under a lock.
 *
 * @param <T> what it gives
 * @param <E> what it throws, {@link InterruptedException} apart
 */
@FunctionalInterface
public interface HoldBody<T, E extends Exception> {
  /**
   * Does it, on the thread that asked for the lock, which is interrupted when the lock is lost.
   *
   * @param hold the lock
   * @return what was made of it
   * @throws E when it fails
   * @throws InterruptedException when the thread was interrupted, as it is when the lock is lost
   */
  T run(Hold hold) throws E, InterruptedException;
}
