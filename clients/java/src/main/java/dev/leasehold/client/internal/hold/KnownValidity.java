package dev.leasehold.client.internal.hold;

import dev.leasehold.client.BootInstant;
import dev.leasehold.client.internal.clock.BootClock;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.v1.BootTime;
import dev.leasehold.v1.Deadline;
import dev.leasehold.v1.Validity;
import java.time.Duration;
import java.util.Optional;

/**
 * Until when a client may act (S21). Reads no clock: readings are arguments. Not safe for several
 * threads.
 */
public final class KnownValidity {
  /** How much of a promised validity is worth a question: a tenth. */
  private static final int WORTH_ASKING = 10;

  private BootInstant until = BootInstant.BOOT;

  /**
   * The moment from which {@code until} was counted: an older message than the newest one changes
   * nothing.
   */
  private BootInstant asOf = BootInstant.BOOT;

  /** The sidecar's own words, for a resume (S16); null if it said none. */
  private BootTime told;

  private boolean sameKernel;

  /**
   * When the sidecar last told of a validity that is noticeably longer, and cannot be counted
   * before it is asked; null if it did not.
   */
  private BootInstant longerHeard;

  /** A validity, or another moment that lies ahead, on our clock. */
  record Reading(BootInstant until, BootInstant asOf, boolean sameKernel) {}

  /** The end of validity. Past it the hold is lost. */
  BootInstant until() {
    return until;
  }

  /** The latest validity told, in the sidecar's words. */
  Optional<BootTime> told() {
    return Optional.ofNullable(told);
  }

  /**
   * When the sidecar should be asked next for the validity: at once when it has told of one that
   * cannot be counted here, which it does at each renewal, and else when half of this one is over.
   * Empty where its words are enough, because its boot clock is ours.
   */
  public Optional<BootInstant> nextQuestion() {
    if (sameKernel) {
      return Optional.empty();
    }
    return Optional.ofNullable(longerHeard)
        .or(() -> Optional.of(asOf.plus(until.since(asOf).dividedBy(2))));
  }

  /**
   * Takes in a validity that was read at {@code now}, in an answer to a request sent at {@code
   * sent}, if there was one. Whether the old one still counts is for the caller to check before.
   */
  void takeIn(Validity validity, Optional<BootInstant> sent, BootClock.Present now, String bootId) {
    BootTime words = validity.hasValidUntil() ? validity.getValidUntil() : null;
    Optional<Reading> read = read(validity, sent, now.latest(), bootId);
    if (read.isEmpty()) {
      // Said, though it cannot be counted here: the sidecar keeps to it.
      told = words;
      hearOf(Durations.fromWire(validity.getValidFor()), now.earliest());
      return;
    }
    Reading reading = read.get();
    if (!reading.asOf.isBefore(asOf)) {
      until = reading.until;
      asOf = reading.asOf;
      sameKernel = reading.sameKernel;
      told = words;
      // An answer to a question from before says nothing of what was told since.
      if (sameKernel || (longerHeard != null && !asOf.isBefore(longerHeard))) {
        longerHeard = null;
      }
    }
  }

  private void hearOf(Duration validFor, BootInstant now) {
    if (until.plus(validFor.dividedBy(WORTH_ASKING)).isBefore(now.plus(validFor))) {
      longerHeard = now;
    }
  }

  /**
   * What {@code deadline} means on our clock, by the same rules as a validity's; empty if it cannot
   * be counted.
   */
  static Optional<Reading> readingOf(
      Deadline deadline, Optional<BootInstant> sent, BootInstant now, String bootId) {
    Validity alike =
        Validity.newBuilder()
            .setValidUntil(deadline.getAt())
            .setValidFor(deadline.getAfter())
            .build();
    return read(alike, sent, now, bootId);
  }

  /** What {@code validity} means on our clock; empty if nothing can be counted from it. */
  private static Optional<Reading> read(
      Validity validity, Optional<BootInstant> sent, BootInstant now, String bootId) {
    Duration validFor = Durations.fromWire(validity.getValidFor());
    BootTime words = validity.getValidUntil();
    if (validity.hasValidUntil() && !bootId.isEmpty() && words.getBootId().equals(bootId)) {
      BootInstant until = new BootInstant(Durations.fromWire(words.getSinceBoot()));
      BootInstant made = until.minus(validFor);
      // A message made after it was read, or before it was asked for, was made by another clock
      // after all: time
      // namespaces shift the boot clock and keep the boot id.
      boolean askedAfter = sent.isPresent() && made.isBefore(sent.get());
      if (!now.isBefore(made) && !askedAfter) {
        return Optional.of(new Reading(until, made, true));
      }
    }
    return sent.map(from -> new Reading(from.plus(validFor), from, false));
  }
}
