package dev.leasehold.client;

import dev.leasehold.v1.UnderstoodSchedule;
import java.util.Optional;

/**
 * The runs of a schedule that fall to this caller, until it is closed. Complete each one before the
 * next is asked for, and ask soon: a run that was granted and that nobody asks for goes on until
 * its deadline.
 */
public interface Runs extends AutoCloseable {
  /**
   * Waits for the next run, as long as that takes, and for the end of the one before. This thread
   * is interrupted when the run is lost before it is completed or closed. Where the sidecar
   * restarts or the connection breaks, this subscribes again.
   *
   * @return the run
   * @throws RefusedException when the sidecar refuses: with {@link Reason#UNSUPPORTED} if it is
   *     older than schedules, with {@link Reason#INVALID_FIELD} for a request that is not valid;
   *     when none answers, only before one was heard of. Calling this again subscribes again
   * @throws ProtocolException when the sidecar's answer is invalid
   * @throws InterruptedException when the thread is interrupted; nothing is missed by that
   */
  Run next() throws InterruptedException;

  /**
   * How the sidecar has understood the schedule.
   *
   * @return empty before it has said so
   */
  Optional<UnderstoodSchedule> understood();

  /**
   * Takes part no longer. A run that goes on may finish, and a call that waits in {@link #next()}
   * ends with {@code CANCELLED}.
   */
  @Override
  void close();
}
