package dev.leasehold.client;

import dev.leasehold.v1.CompleteRunResponse;
import dev.leasehold.v1.ListSchedulesRequest;
import dev.leasehold.v1.LockSelector;
import dev.leasehold.v1.PreviewScheduleRequest;
import dev.leasehold.v1.PreviewScheduleResponse;
import dev.leasehold.v1.ResetScheduleRequest;
import dev.leasehold.v1.Schedule;
import java.util.List;
import java.util.Optional;

/**
 * What a {@link LeaseholdClient} does with schedules. All calls are refused with {@link
 * Reason#UNSUPPORTED} by a sidecar that is older than schedules.
 */
public interface Schedules {
  /**
   * Takes part in a schedule, and runs {@code body} on each occurrence that falls to this caller,
   * on this thread. Goes on until the thread is interrupted. What {@code body} does is the run's
   * outcome:
   *
   * <ul>
   *   <li>It returns: the run has succeeded.
   *   <li>It throws: the run has failed, with the exception's text as the detail, and is tried
   *       again as the schedule says. An {@link Error} is thrown again here, too.
   *   <li>The thread was interrupted by somebody else, and {@code body} throws: the run is
   *       returned, for another replica to run, and this ends.
   *   <li>It calls {@link Run#complete}: that.
   * </ul>
   *
   * <p>The thread is interrupted when the run is lost or its deadline comes. When the lock is
   * broken, or the sidecar shuts down, it is not: look at {@link Run#shouldFinish}.
   *
   * <p>Each occurrence is granted until one run of it is recorded, never after, and never two at
   * once: a run whose process dies is repeated. Key its effect on {@link Run#scheduledAt}, or let
   * the resource check {@link Run#fencingToken} (T2).
   *
   * <p>Where the sidecar or its store cannot be reached, this tries again, after a pause of 0.1 to
   * 1 s that grows to 10 s.
   *
   * @param spec the schedule
   * @param body what to run
   * @throws RefusedException when the sidecar refuses for a cause that does not pass, or the client
   *     is closed
   * @throws InterruptedException when the thread is interrupted, other than for a loss
   */
  void every(ScheduleSpec spec, RunBody body) throws InterruptedException;

  /**
   * As {@link #every(ScheduleSpec, RunBody)}, and tells what happens.
   *
   * @param spec the schedule
   * @param listener hears of all that happens, also to the holds of the runs
   * @param body what to run
   * @throws RefusedException when the sidecar refuses for a cause that does not pass, or the client
   *     is closed
   * @throws InterruptedException when the thread is interrupted, other than for a loss
   */
  void every(ScheduleSpec spec, ScheduleListener listener, RunBody body)
      throws InterruptedException;

  /**
   * Takes part in a schedule, beginning with the first {@link Runs#next}, for a caller with a loop
   * of its own.
   *
   * @param spec the schedule
   * @return the runs to come
   */
  Runs runs(ScheduleSpec spec);

  /**
   * As {@link #runs(ScheduleSpec)}, and tells what happens.
   *
   * @param spec the schedule
   * @param listener hears of all that happens while a run is asked for, and of what happens to the
   *     holds of the runs
   * @return the runs to come
   */
  Runs runs(ScheduleSpec spec, ScheduleListener listener);

  /**
   * A schedule: its definition, and what is known of its runs.
   *
   * @param lock which schedule
   * @return the schedule
   * @throws RefusedException when the sidecar refuses: with {@link Reason#UNKNOWN_SCHEDULE} if
   *     nobody ever subscribed to it
   * @throws InterruptedException when the thread is interrupted
   */
  Schedule getSchedule(LockSelector lock) throws InterruptedException;

  /**
   * The schedules under the sidecar's host id: all pages.
   *
   * @return the schedules, in the order of their paths
   * @throws InterruptedException when the thread is interrupted
   */
  default List<Schedule> listSchedules() throws InterruptedException {
    return listSchedules(ListSchedulesRequest.getDefaultInstance());
  }

  /**
   * Some schedules: all pages, from the one that the request names on. Those that nobody has run
   * yet come last.
   *
   * @param request which schedules: under which host id or prefix
   * @return the schedules, in the order of their paths
   * @throws InterruptedException when the thread is interrupted
   */
  List<Schedule> listSchedules(ListSchedulesRequest request) throws InterruptedException;

  /**
   * Checks a schedule, and tells its next ten occurrences. Asks no store and changes nothing.
   *
   * @param spec the schedule
   * @return how it was understood, and the occurrences
   * @throws RefusedException when the sidecar refuses: with {@link Reason#INVALID_FIELD} if the
   *     schedule is not valid
   * @throws InterruptedException when the thread is interrupted
   */
  default PreviewScheduleResponse previewSchedule(ScheduleSpec spec) throws InterruptedException {
    return previewSchedule(
        PreviewScheduleRequest.newBuilder()
            .setSpec(spec.toSpec())
            .setKey(spec.toMessage().getKey())
            .build());
  }

  /**
   * Checks a schedule, and tells its next occurrences. Asks no store and changes nothing.
   *
   * @param request the schedule ({@link ScheduleSpec#toSpec}), how many and after when
   * @return how it was understood, and the occurrences
   * @throws RefusedException when the sidecar refuses: with {@link Reason#INVALID_FIELD} if the
   *     schedule is not valid
   * @throws InterruptedException when the thread is interrupted
   */
  PreviewScheduleResponse previewSchedule(PreviewScheduleRequest request)
      throws InterruptedException;

  /**
   * Pauses a schedule: a run that goes on may finish, and what falls due is skipped. May be
   * repeated (T18).
   *
   * @param lock which schedule
   * @return the schedule as it is now; empty if the caller may not read it
   * @throws RefusedException when the sidecar refuses: with {@link
   *     Reason#SCHEDULE_CHANGES_NOT_ENABLED} unless the operator has enabled it
   * @throws InterruptedException when the thread is interrupted
   */
  Optional<Schedule> pauseSchedule(LockSelector lock) throws InterruptedException;

  /**
   * Ends a pause: the schedule goes on after the store's time. May be repeated.
   *
   * @param lock which schedule
   * @return the schedule as it is now; empty if the caller may not read it
   * @throws RefusedException as {@link #pauseSchedule}
   * @throws InterruptedException when the thread is interrupted
   */
  Optional<Schedule> resumeSchedule(LockSelector lock) throws InterruptedException;

  /**
   * Removes a schedule: its subscribers are told, and a new subscription begins it anew (T25).
   *
   * @param lock which schedule
   * @param reason why; it is kept
   * @param force also where this sidecar has subscribers
   * @return the schedule as it is now; empty if the caller may not read it
   * @throws RefusedException as {@link #pauseSchedule}, and with {@link
   *     Reason#SCHEDULE_HAS_SUBSCRIBERS}
   * @throws InterruptedException when the thread is interrupted
   */
  Optional<Schedule> removeSchedule(LockSelector lock, String reason, boolean force)
      throws InterruptedException;

  /**
   * Lets a schedule begin anew (T25).
   *
   * @param request which one, where it begins, and why
   * @return the schedule as it is now; empty if the caller may not read it
   * @throws RefusedException as {@link #pauseSchedule}
   * @throws InterruptedException when the thread is interrupted
   */
  Optional<Schedule> resetSchedule(ResetScheduleRequest request) throws InterruptedException;

  /**
   * Asks for a run by hand.
   *
   * @param lock which schedule
   * @param requestId the caller's id for this run, 1 to 64 of A-Z a-z 0-9 . _ -: a repeated call
   *     with the same one is one run
   * @return the schedule as it is now; empty if the caller may not read it
   * @throws RefusedException as {@link #pauseSchedule}, and with {@link Reason#TOO_MANY_TRIGGERS}
   *     when 8 wait already
   * @throws InterruptedException when the thread is interrupted
   */
  Optional<Schedule> triggerSchedule(LockSelector lock, String requestId)
      throws InterruptedException;

  /**
   * Says how a run ended, by its id alone: for a process that wrote down the id of a run and was
   * restarted. Else {@link Run#complete} is for that. May be repeated, at any sidecar (T8).
   *
   * @param runId from {@link Run#runId}
   * @param completion how it ended
   * @return what became of it
   * @throws RefusedException when the sidecar refuses
   * @throws InterruptedException when the thread is interrupted
   */
  CompleteRunResponse completeRun(String runId, Completion completion) throws InterruptedException;
}
