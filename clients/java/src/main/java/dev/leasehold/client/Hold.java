package dev.leasehold.client;

import dev.leasehold.v1.GetHoldResponse;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.RunOutcome;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Optional;
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
   * Completes when the lock was broken while its lease runs out (S22): the hold stays valid until
   * the notice's deadline. Finish, save, and release. No thread is interrupted by it. Never, if the
   * hold ends otherwise. What is done with the future does nothing to the hold.
   *
   * @return the notice to come
   */
  CompletableFuture<Notice> revoked();

  /**
   * The notice that {@link #revoked()} completes with, for a look between two steps.
   *
   * @return the notice; empty if the lock was not broken
   */
  Optional<Notice> notice();

  /**
   * When {@code maxHold} ends, on this machine's boot clock: the hold is lost then unless it was
   * extended before.
   *
   * @return the moment; empty if there is no limit
   */
  Optional<BootInstant> maxHoldEnds();

  /**
   * Which permit of the lock is held ({@link LeaseSpec#permits}).
   *
   * @return 0 to 31; 0 for the lock's own path
   */
  int permit();

  /**
   * Which attempt at the occurrence this is ({@link LeaseSpec#occurrence}). Greater than 1 means
   * that an earlier holder failed, or died without an outcome, so the work may have been done in
   * part.
   *
   * @return from 1; 0 if no occurrence was asked for
   */
  int attempt();

  /**
   * The lock's checkpoint: as the last holder left it, or as this one has saved it since.
   *
   * @return the checkpoint; empty if there is none
   */
  Optional<Checkpoint> checkpoint();

  /**
   * Saves a checkpoint for the next holder, and waits until the store has it (S24). While the hold
   * is being resumed, it waits for that. Of several saves at once the last counts.
   *
   * @param value at most 2,048 bytes; may be empty. Not for secrets
   * @return the version that the store has now: of this value, or of a later one that took its
   *     place
   * @throws LostException when the hold is lost: nothing was saved
   * @throws CheckpointUnknownException when it is not known whether the store has it
   * @throws RefusedException when the sidecar refuses; with {@link Reason#INVALID_FIELD} for a
   *     value that is too long, with {@link Reason#HOLD_RELEASED} after a release
   * @throws InterruptedException when the thread is interrupted, as it is when the hold is lost;
   *     the value may have been saved
   */
  long save(byte[] value) throws InterruptedException;

  /**
   * Saves text in UTF-8, such as JSON, as {@link #save(byte[])} does.
   *
   * @param text at most 2,048 bytes in UTF-8
   * @return the version that the store has now
   * @throws InterruptedException when the thread is interrupted
   */
  default long save(String text) throws InterruptedException {
    return save(text.getBytes(StandardCharsets.UTF_8));
  }

  /**
   * As {@link #save(byte[])}, without waiting here.
   *
   * @param value at most 2,048 bytes
   * @return the version to come, or what {@link #save(byte[])} throws
   */
  CompletableFuture<Long> saveAsync(byte[] value);

  /**
   * The state, the bounds and the validity of this hold as the sidecar knows them; changes nothing.
   *
   * @return what it knows
   * @throws RefusedException when the sidecar refuses; with {@link Reason#HOLD_LOST} the hold is
   *     lost, too
   * @throws InterruptedException when the thread is interrupted, as it is when the hold is lost
   */
  GetHoldResponse info() throws InterruptedException;

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
   * @return completes when the store has it; with a {@link LostException} if the hold was lost
   *     before; with a {@link RefusedException} if the sidecar refuses; with a {@link
   *     ReleaseUnconfirmedException} if no sidecar has confirmed it within {@link
   *     ClientBuilder#releaseTimeout}: the lock is available when its lease runs out
   */
  CompletableFuture<ReleaseResult> releaseAsync();

  /**
   * Releases the lock and waits until the store has it. An interrupt does not end the wait; the
   * thread is interrupted again afterwards. The hold is not valid from the first moment of this
   * call on (S13), so stop acting before. May be repeated.
   *
   * @return the outcome
   * @throws LostException when the hold was lost before, also where only the release finds that:
   *     what was done under it may have been done by two
   * @throws RefusedException when the sidecar refuses, or the connection breaks
   * @throws ReleaseUnconfirmedException when no sidecar has confirmed it within {@link
   *     ClientBuilder#releaseTimeout}: the lock is available when its lease runs out
   */
  ReleaseResult release();

  /**
   * Saves a checkpoint, then releases the lock, as {@link #release()} does; the lock is released
   * also where the checkpoint cannot be saved, and the result says what became of both (S26). The
   * first release decides: with a later one nothing is saved.
   *
   * @param checkpoint at most 2,048 bytes
   * @return the outcome, with that of the checkpoint
   * @throws LostException when the hold was lost before; {@link LostException#checkpointOutcome}
   *     says what became of the checkpoint
   * @throws RefusedException when the sidecar refuses; with {@link Reason#INVALID_FIELD} for a
   *     value that is too long, and nothing is released then; with {@link Reason#UNSUPPORTED} where
   *     the sidecar has released the lock and does not know checkpoints
   * @throws ReleaseUnconfirmedException when no sidecar has confirmed it in time: either checkpoint
   *     may stand
   */
  ReleaseResult release(byte[] checkpoint);

  /**
   * Saves text in UTF-8, then releases the lock, as {@link #release(byte[])} does.
   *
   * @param checkpoint at most 2,048 bytes in UTF-8
   * @return the outcome, with that of the checkpoint
   */
  default ReleaseResult release(String checkpoint) {
    return release(checkpoint.getBytes(StandardCharsets.UTF_8));
  }

  /**
   * Says how the occurrence has ended that was asked for ({@link LeaseSpec#occurrence}), then
   * releases the lock, as {@link #release()} does. SUCCEEDED and FAILED_FINAL make it final; after
   * FAILED and RETURNED, and without an outcome, the next caller with it is granted it. The first
   * release decides: with a later one nothing is recorded.
   *
   * @param outcome SUCCEEDED, FAILED, FAILED_FINAL or RETURNED
   * @return the outcome of the release
   * @throws OutcomeNotRecordedException when the lock was released, and the outcome was not
   *     recorded, or that is not known
   * @throws LostException when the hold was lost before: the outcome was not recorded
   * @throws RefusedException when the sidecar refuses; with {@link Reason#UNSUPPORTED} where it has
   *     released the lock and does not know occurrences
   * @throws ReleaseUnconfirmedException when no sidecar has confirmed it in time: it may be
   *     recorded
   */
  ReleaseResult release(RunOutcome outcome);

  /**
   * As {@link #release(RunOutcome)}, and saves a checkpoint in the same write.
   *
   * @param outcome SUCCEEDED, FAILED, FAILED_FINAL or RETURNED
   * @param checkpoint at most 2,048 bytes
   * @return the outcome of the release, with that of the checkpoint
   */
  ReleaseResult release(RunOutcome outcome, byte[] checkpoint);

  /**
   * As {@link #release(byte[])}, without waiting here.
   *
   * @param checkpoint at most 2,048 bytes
   * @return the outcome to come, or what {@link #release(byte[])} throws
   */
  CompletableFuture<ReleaseResult> releaseAsync(byte[] checkpoint);

  /**
   * Releases the lock as {@link #release()} does.
   *
   * @throws LostException when the hold was lost before it was released
   * @throws RefusedException when the sidecar refuses, or the connection breaks
   * @throws ReleaseUnconfirmedException when no sidecar has confirmed it in time
   */
  @Override
  void close();
}
