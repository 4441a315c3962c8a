package dev.leasehold.client;

import dev.leasehold.v1.ReleaseResult;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/**
 * A lock that is held, until it is closed or lost.
 *
 * <p>Its answers are right also after the process, or the machine, was stopped and goes on: each
 * question reads the boot clock. Between the question and the deed the process may be stopped
 * again, so let protected resources check {@link #fencingToken()}.
 *
 * <p>Safe for several threads. Those of a {@link LeaseholdClient} come from a sidecar; tests may
 * have their own.
 */
public interface Hold extends AutoCloseable {
  /**
   * Greater than every token granted for this lock before: send it with each write, and let the
   * resource refuse smaller ones than it has seen (S5).
   *
   * @return 1 to 2^53 - 1
   */
  long fencingToken();

  /**
   * The path of the lock.
   *
   * @return container, slash, name in the container
   */
  String lockPath();

  /**
   * Names this hold in calls of its own. Who knows it can end the hold, so do not log it.
   *
   * @return the lease id
   */
  String leaseId();

  /**
   * The end of validity on this machine's boot clock, unless renewed. Past it the hold is lost,
   * whether or not anything said so.
   *
   * @return the end of validity
   */
  BootInstant validUntil();

  /**
   * The time left now.
   *
   * @return zero when the hold is over
   */
  Duration remaining();

  /**
   * Whether the holder may act now.
   *
   * @return once false, always false
   */
  boolean isValid();

  /**
   * Completes when the hold is lost: at the end of its validity at the latest, or a second after
   * that where the machine slept. Never, if the holder ends it first. What is done with the future
   * does nothing to the hold.
   *
   * @return the loss to come
   */
  CompletableFuture<Loss> lost();

  /**
   * Reports progress, which restarts the progress timeout.
   *
   * @throws RefusedException when the sidecar refuses; with {@link Reason#HOLD_LOST} the hold is
   *     lost, too
   * @throws InterruptedException when the thread is interrupted, as it is when the hold is lost
   */
  void reportProgress() throws InterruptedException;

  /**
   * Sets a new bound of the whole hold, counted from now.
   *
   * @param maxHold how long the hold may still last
   * @throws RefusedException when the sidecar refuses; with {@link Reason#HOLD_LOST} the hold is
   *     lost, too
   * @throws InterruptedException when the thread is interrupted, as it is when the hold is lost
   */
  void extend(Duration maxHold) throws InterruptedException;

  /**
   * Releases the lock. The hold is not valid from the first moment of this call on (S13), so stop
   * acting before. May be repeated.
   *
   * @return completes when the store has it; with a {@link HoldLostException} if the hold was lost
   *     before; with a {@link RefusedException} if the sidecar refuses; with a {@link
   *     NotReleasedException} if no sidecar has confirmed it within {@link
   *     ClientBuilder#releaseTimeout}: the lock is available when its lease runs out
   */
  CompletableFuture<ReleaseResult> releaseAsync();

  /**
   * Releases the lock and waits until the store has it. An interrupt does not end the wait; the
   * thread is interrupted again afterwards. The hold is not valid from the first moment of this
   * call on (S13), so stop acting before. May be repeated.
   *
   * @return the outcome
   * @throws HoldLostException when the hold was lost before, also where only the release finds
   *     that: what was done under it may have been done by two
   * @throws RefusedException when the sidecar refuses, or the connection breaks
   * @throws NotReleasedException when no sidecar has confirmed it within {@link
   *     ClientBuilder#releaseTimeout}: the lock is available when its lease runs out
   */
  ReleaseResult release();

  /**
   * Releases the lock as {@link #release()} does.
   *
   * @throws HoldLostException when the hold was lost before it was released
   * @throws RefusedException when the sidecar refuses, or the connection breaks
   * @throws NotReleasedException when no sidecar has confirmed it in time
   */
  @Override
  void close();
}
