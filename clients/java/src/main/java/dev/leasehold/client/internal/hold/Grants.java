package dev.leasehold.client.internal.hold;

import com.google.protobuf.Timestamp;
import dev.leasehold.client.BootInstant;
import dev.leasehold.client.Checkpoint;
import dev.leasehold.client.Grant;
import dev.leasehold.client.LeaseSpec;
import dev.leasehold.client.LeaseholdException;
import dev.leasehold.client.OccurrenceOverException;
import dev.leasehold.client.ProtocolException;
import dev.leasehold.client.internal.clock.BootClock;
import dev.leasehold.v1.Validity;
import java.time.Instant;
import java.util.Optional;

/** What a sidecar has granted, as the caller has it. */
public final class Grants {
  private Grants() {}

  /** The answer to a request that was sent at {@code sent}. */
  public static Grant of(dev.leasehold.v1.Grant grant, BootInstant sent, BootClock clock) {
    return new Grant(
        grant.getLockPath(),
        grant.getHostId(),
        grant.getFencingToken(),
        grant.getLeaseId(),
        until(grant.getValidity(), sent, clock),
        maxHoldEnds(grant, sent, clock),
        grant.getPermit(),
        grant.getAttempt(),
        checkpointOf(grant));
  }

  private static Optional<BootInstant> maxHoldEnds(
      dev.leasehold.v1.Grant grant, BootInstant sent, BootClock clock) {
    return grant.hasMaxHoldEnds()
        ? KnownValidity.readingOf(
                grant.getMaxHoldEnds(), Optional.of(sent), clock.latest(), clock.bootId())
            .map(KnownValidity.Reading::until)
        : Optional.empty();
  }

  /** The end of a validity that answers a request sent at {@code sent}. */
  public static BootInstant until(Validity validity, BootInstant sent, BootClock clock) {
    KnownValidity known = new KnownValidity();
    known.takeIn(validity, Optional.of(sent), clock.present(), clock.bootId());
    return known.until();
  }

  /** The checkpoint that comes with a grant; empty if the lock has none. */
  static Optional<Checkpoint> checkpointOf(dev.leasehold.v1.Grant grant) {
    if (!grant.hasCheckpoint()) {
      return Optional.empty();
    }
    dev.leasehold.v1.Checkpoint wire = grant.getCheckpoint();
    Timestamp at = wire.getSavedAt();
    Optional<Instant> savedAt =
        wire.hasSavedAt()
            ? Optional.of(Instant.ofEpochSecond(at.getSeconds(), at.getNanos()))
            : Optional.empty();
    return Optional.of(
        new Checkpoint(wire.getValue(), wire.getVersion(), wire.getFencingToken(), savedAt));
  }

  /** What to fail with where the occurrence is over. */
  public static LeaseholdException over(LeaseSpec asked, OccurrenceOverException answer) {
    return asked.toMessage().hasOccurrenceAt()
        ? answer
        : new ProtocolException("a call without an occurrence was answered with one");
  }
}
