package dev.leasehold.client;

import dev.leasehold.v1.LockRecord;

/** What a watch of many locks tells. */
public sealed interface LocksEvent {
  /**
   * A lock as it is now: when the watch begins, and after each change.
   *
   * @param record its record
   */
  record Changed(LockRecord record) implements LocksEvent {}

  /**
   * A lock was deleted, or does not have the labels any more.
   *
   * @param lockPath its path
   */
  record Gone(String lockPath) implements LocksEvent {}

  /**
   * All that is known has been told: after the first records, and at least every 30 s.
   *
   * @param locks how many locks there are
   */
  record Listed(int locks) implements LocksEvent {}
}
