package dev.leasehold.client;

/** What is done on each occurrence of a schedule. */
@FunctionalInterface
public interface RunBody {
  /**
   * Does it, on the thread that called {@link Schedules#every}, which is interrupted when the run
   * is lost.
   *
   * @param run the occurrence
   * @throws Exception when it fails
   */
  void run(Run run) throws Exception;
}
