package dev.leasehold.client;

import dev.leasehold.v1.DefinitionInForce;
import dev.leasehold.v1.Standby;
import dev.leasehold.v1.UnderstoodSchedule;
import java.time.Duration;

/** What happens to a subscription. */
public sealed interface ScheduleEvent {
  /**
   * The sidecar has understood the schedule, at the beginning and after each time that it was away.
   *
   * @param understood how
   */
  record Subscribed(UnderstoodSchedule understood) implements ScheduleEvent {}

  /**
   * The caller waits for an occurrence. Repeated when something of it changes, and at least every
   * 30 s.
   *
   * @param standby what is waited for
   */
  record Waiting(Standby standby) implements ScheduleEvent {}

  /**
   * Another definition is in force than the one that this caller came with (T16).
   *
   * @param definition the one in force
   */
  record OtherDefinition(DefinitionInForce definition) implements ScheduleEvent {}

  /**
   * The sidecar is shutting down: nothing new starts there.
   *
   * @param timeLeft how long it still waits for runs that go on
   */
  record Draining(Duration timeLeft) implements ScheduleEvent {}

  /**
   * The stream to the sidecar broke, and is opened again.
   *
   * @param detail what happened, for people
   */
  record Interrupted(String detail) implements ScheduleEvent {}

  /**
   * Something happened to the hold of a run.
   *
   * @param event what
   */
  record OfRun(HoldEvent event) implements ScheduleEvent {}
}
