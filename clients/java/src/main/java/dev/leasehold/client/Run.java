package dev.leasehold.client;

import dev.leasehold.v1.CompleteRunResponse;
import dev.leasehold.v1.EndedRun;
import dev.leasehold.v1.RunKind;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/**
 * An occurrence to be run now, and the hold of the schedule's lock while it is. Say how it ended:
 * until that was recorded it may be granted again (T2). Closed without that, it is returned, for
 * another replica to run.
 *
 * <p>To have an effect once, key it on {@link #scheduledAt()}, or let the resource check {@link
 * #fencingToken()}. What it says of its validity is right also after the process, or the machine,
 * was stopped and goes on.
 *
 * <p>Safe for several threads. Those of a {@link LeaseholdClient} come from a sidecar; tests may
 * have their own.
 */
public interface Run extends AutoCloseable {
  /**
   * The occurrence: the nominal instant, whatever the lateness and the spread (T1).
   *
   * @return the instant; of a run by hand when it was started, by the store's clock
   */
  Instant scheduledAt();

  /**
   * The same as the clocks of the schedule's zone show it.
   *
   * @return in RFC 3339 with offset and zone
   */
  String localTime();

  /**
   * Why there is a run.
   *
   * @return SCHEDULED or MANUAL
   */
  RunKind kind();

  /**
   * The id of the request, of a run by hand.
   *
   * @return the id; empty for an occurrence of the schedule
   */
  Optional<String> requestId();

  /**
   * Names this run in {@link LeaseholdClient#completeRun}, also after a restart of this process.
   * Who knows it can end the run, so do not log it.
   *
   * @return the id
   */
  String runId();

  /**
   * Which attempt this is. Greater than 1 means that the work may have been done in part.
   *
   * @return from 1
   */
  int attempt();

  /**
   * How many attempts there are.
   *
   * @return from 1
   */
  int maxAttempts();

  /**
   * How long after it was due the run was started, by the store's clock.
   *
   * @return whole seconds
   */
  Duration lateness();

  /**
   * How many occurrences were missed since the last one that was run.
   *
   * @return at most 1,000 are counted at once
   */
  long missedCount();

  /**
   * When the run is lost unless it was completed before, on this machine's boot clock (T12).
   *
   * @return the moment; empty if it has no deadline
   */
  Optional<BootInstant> deadline();

  /**
   * The same by the store's clock; for people.
   *
   * @return the instant; empty if it has no deadline
   */
  Optional<Instant> deadlineAt();

  /**
   * The next occurrence.
   *
   * @return the instant; empty if there is none
   */
  Optional<Instant> nextAt();

  /**
   * What ended before.
   *
   * @return the run; empty if nothing has
   */
  Optional<EndedRun> previous();

  /**
   * Greater than the token of every run before: send it with each write, and let the resource
   * refuse smaller ones than it has seen (S5).
   *
   * @return 1 to 2^53 - 1
   */
  long fencingToken();

  /**
   * The path of the schedule's lock.
   *
   * @return container, slash, name in the container
   */
  String lockPath();

  /**
   * Whether the run may go on now.
   *
   * @return once false, always false
   */
  boolean isValid();

  /**
   * The time left now, unless renewed.
   *
   * @return zero when the run is over
   */
  Duration remaining();

  /**
   * Completes when the run is lost or its deadline has come, as {@link Hold#lost()}. Never, if it
   * is completed first.
   *
   * @return the loss to come
   */
  CompletableFuture<Loss> lost();

  /**
   * Completes when the lock was broken, and the run's hold ends with its validity, as {@link
   * Hold#revoked()}. No thread is interrupted by it.
   *
   * @return the notice to come
   */
  CompletableFuture<Notice> revoked();

  /**
   * The notice that {@link #revoked()} completes with.
   *
   * @return the notice; empty if the lock was not broken
   */
  Optional<Notice> notice();

  /**
   * Whether to finish soon, or to return the run: the lock was broken, or the sidecar shuts down.
   * For a look between two steps; no thread is interrupted by it.
   *
   * @return once true, always true
   */
  boolean shouldFinish();

  /**
   * Reports progress, which restarts the schedule's progress timeout ({@link
   * ScheduleSpec#progressTimeout}).
   *
   * @throws RefusedException when the sidecar refuses; with {@link Reason#HOLD_LOST} the run is
   *     lost, too
   * @throws InterruptedException when the thread is interrupted, as it is when the run is lost
   */
  void reportProgress() throws InterruptedException;

  /**
   * The lock's checkpoint: as the last run left it, or as this one has saved it since.
   *
   * @return the checkpoint; empty if there is none
   */
  Optional<Checkpoint> checkpoint();

  /**
   * Saves a checkpoint for the next run, as {@link Hold#save(byte[])} does.
   *
   * @param value at most 2,048 bytes; may be empty. Not for secrets
   * @return the version that the store has now
   * @throws LostException when the run is lost: nothing was saved
   * @throws CheckpointUnknownException when it is not known whether the store has it
   * @throws RefusedException when the sidecar refuses
   * @throws InterruptedException when the thread is interrupted, as it is when the run is lost; the
   *     value may have been saved
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
   * Says how the run ended, and waits until the store has it (T8). The run is not valid from the
   * first moment of this call on (S13), so stop acting before. Asks again, without end, while the
   * sidecar or its store is away. Also the outcome of a run that was lost may still count: see the
   * result. A repeated call has the first one's answer, unless that has failed.
   *
   * @param completion how it ended
   * @return what became of it
   * @throws RefusedException when asking again does not help
   * @throws InterruptedException when the thread is interrupted: the outcome may have been recorded
   */
  CompleteRunResponse complete(Completion completion) throws InterruptedException;

  /**
   * Returns a run that was not completed, for another replica to run, and waits for the answer as
   * long as for a release ({@link ClientBuilder#releaseTimeout}); without one its lease runs out.
   */
  @Override
  void close();
}
