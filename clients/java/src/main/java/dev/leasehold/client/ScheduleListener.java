package dev.leasehold.client;

/** Hears what happens to a subscription, and to the holds of its runs. */
@FunctionalInterface
public interface ScheduleListener {
  /**
   * Called for each event, in their order and never by two threads at once, on a thread of the
   * client's. It may take its time: only later events of the same subscription wait.
   *
   * @param event what happened
   */
  void onEvent(ScheduleEvent event);
}
