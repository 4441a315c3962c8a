package dev.leasehold.client;

/** Hears what happens to a hold. */
@FunctionalInterface
public interface HoldListener {
  /**
   * Called for each event, in their order and never by two threads at once, on a thread of the
   * client's. It may take its time: the hold is watched by others, and only later events of the
   * same hold wait. What it throws goes to the thread's handler of uncaught exceptions, and later
   * events still come.
   *
   * @param event what happened
   */
  void onEvent(HoldEvent event);
}
