package dev.leasehold.client;

import com.google.protobuf.Timestamp;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.client.internal.hold.Holder;
import dev.leasehold.v1.LockKey;
import dev.leasehold.v1.RunOutcome;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.function.Consumer;

/**
 * What is asked for when a lock is taken: immutable, made by {@link #of}, and changed by making
 * another.
 *
 * <p>Ranges are checked by the sidecar, which refuses with {@link Reason#INVALID_FIELD}.
 */
public final class LeaseSpec {
  private final dev.leasehold.v1.LeaseSpec spec;

  private LeaseSpec(dev.leasehold.v1.LeaseSpec spec) {
    this.spec = spec;
  }

  /**
   * Asks for the lock of a function; one try, everything else by default.
   *
   * @param function what the lock is for: a job, a function, a resource
   * @return the spec
   */
  public static LeaseSpec of(String function) {
    return of(Locks.key(function, ""));
  }

  /**
   * Asks for the lock of a part of a function; one try, everything else by default.
   *
   * @param function what the lock is for: a job, a function, a resource
   * @param scope the part: a tenant, an order, a shard; may be empty
   * @return the spec
   */
  public static LeaseSpec of(String function, String scope) {
    return of(Locks.key(function, scope));
  }

  /**
   * Asks for a lock by its key, which may carry a mode and overrides of host id and host type.
   *
   * @param key the lock's name
   * @return the spec
   */
  public static LeaseSpec of(LockKey key) {
    return new LeaseSpec(dev.leasehold.v1.LeaseSpec.newBuilder().setKey(key).build());
  }

  /**
   * Waits until the lock is acquired, however long that takes, also while the sidecar restarts.
   *
   * @return a spec like this one, so changed
   */
  public LeaseSpec waitWithoutEnd() {
    return with(spec -> spec.clearWait().setWaitWithoutEnd(true));
  }

  /**
   * Shares the lock among so many callers: each gets one permit, which is a lock of its own with a
   * fencing token and a checkpoint of its own. Give the same number everywhere.
   *
   * @param permits 1 to 32; default 1
   * @return a spec like this one, so changed
   */
  public LeaseSpec permits(int permits) {
    return with(spec -> spec.setPermits(permits));
  }

  /**
   * How important this caller is. Callers of a lock are served by priority, then by arrival. One
   * that has waited for a lease duration takes the lock over from a holder of smaller priority that
   * {@link #yields}: that one is told ({@link Hold#revoked}), and has what is left of its lease to
   * finish. With a number that grows with each version, such as a build number, the newest version
   * takes over (S33).
   *
   * @param priority 0 or more, not with {@link #permits} above 1; default 0
   * @return a spec like this one, so changed
   */
  public LeaseSpec priority(int priority) {
    return with(spec -> spec.setPriority(priority));
  }

  /**
   * Whether this holder gives the lock up to a greater priority, or to an equal one that rebalances
   * (S33, S35).
   *
   * @param yields true not with {@link #permits} above 1; default false
   * @return a spec like this one, so changed
   */
  public LeaseSpec yields(boolean yields) {
    return with(spec -> spec.setYields(yields));
  }

  /**
   * The group of like locks, such as all listeners of a deployment, that its sidecars spread among
   * themselves (S34).
   *
   * @param share at most 256 bytes, no invisible characters, not with {@link #permits} above 1; by
   *     default none
   * @return a spec like this one, so changed
   */
  public LeaseSpec share(String share) {
    return with(spec -> spec.setShare(share));
  }

  /**
   * Whether the sidecar of this caller may take a lock of the share from a sidecar that holds at
   * least two more: one at a time, at most one a minute, and only from holders of equal priority
   * that yield (S35).
   *
   * @param rebalance true only with {@link #share} and {@link #yields}; default false
   * @return a spec like this one, so changed
   */
  public LeaseSpec rebalance(boolean rebalance) {
    return with(spec -> spec.setRebalance(rebalance));
  }

  /**
   * Free pairs for people and tools, shown in the lock's record. Not for secrets.
   *
   * @param labels at most 16, 1,024 bytes in all; they replace earlier ones
   * @return a spec like this one, so changed
   */
  public LeaseSpec labels(Map<String, String> labels) {
    return with(spec -> spec.clearLabels().putAllLabels(labels));
  }

  /**
   * As the lock of a listener instead of a function: the same name has two independent locks.
   *
   * @return a spec like this one, so changed
   */
  public LeaseSpec listener() {
    return with(spec -> spec.setKey(Locks.listener(spec.getKey())));
  }

  /**
   * Overrides the sidecar's host id, where the operator allows it.
   *
   * @param hostId small letters, digits and single dashes, at most 32 characters
   * @return a spec like this one, so changed
   */
  public LeaseSpec hostId(String hostId) {
    return with(spec -> spec.getKeyBuilder().setHostId(hostId));
  }

  /**
   * Overrides the sidecar's host type, where the operator allows it.
   *
   * @param hostType 1 to 256 bytes
   * @return a spec like this one, so changed
   */
  public LeaseSpec hostType(String hostType) {
    return with(spec -> spec.getKeyBuilder().setHostType(hostType));
  }

  /**
   * Waits so long while the lock is busy.
   *
   * @param wait 0 to 24 h; 0, which is the default, is one try
   * @return a spec like this one, so changed
   */
  public LeaseSpec waitUpTo(Duration wait) {
    return with(spec -> spec.clearWaitWithoutEnd().setWait(Durations.toWire(wait)));
  }

  /**
   * The duration of the lease in the store: it bounds how long the lock stays taken after a crash,
   * and how long an outage of the store a hold survives.
   *
   * @param leaseDuration whole seconds, 15 s to 60 s; default 60 s
   * @return a spec like this one, so changed
   */
  public LeaseSpec leaseDuration(Duration leaseDuration) {
    return with(spec -> spec.setLeaseDuration(Durations.toWire(leaseDuration)));
  }

  /**
   * How long the hold may last in all; at its end it is lost (MAX_HOLD_REACHED) unless it was
   * extended.
   *
   * @param maxHold more than 0; for {@code acquire} at most 24 h and by default 10 min, for {@code
   *     hold} by default without bound
   * @return a spec like this one, so changed
   */
  public LeaseSpec maxHold(Duration maxHold) {
    return with(spec -> spec.setMaxHold(Durations.toWire(maxHold)));
  }

  /**
   * How long the lock stays taken at least, counted from the grant, also when it was released
   * before.
   *
   * @param minHold 0 to 24 h, and not over {@code maxHold}; default 0
   * @return a spec like this one, so changed
   */
  public LeaseSpec minHold(Duration minHold) {
    return with(spec -> spec.setMinHold(Durations.toWire(minHold)));
  }

  /**
   * Loses the hold (NO_PROGRESS) when progress was not reported for so long.
   *
   * @param progressTimeout 1 s to 24 h; by default progress is not watched
   * @return a spec like this one, so changed
   */
  public LeaseSpec progressTimeout(Duration progressTimeout) {
    return with(spec -> spec.setProgressTimeout(Durations.toWire(progressTimeout)));
  }

  /**
   * Whether the sidecar renews the lease.
   *
   * @param autoRenew false for a hold of one lease duration and no more; default true
   * @return a spec like this one, so changed
   */
  public LeaseSpec autoRenew(boolean autoRenew) {
    return with(spec -> spec.setAutoRenew(autoRenew));
  }

  /**
   * Makes {@code acquire} repeatable: a call with the id of an earlier one for the same lock gives
   * the same grant as long as that hold lives.
   *
   * @param requestId at most 128 bytes, fresh and random for each hold
   * @return a spec like this one, so changed
   */
  public LeaseSpec requestId(String requestId) {
    return with(spec -> spec.setRequestId(requestId));
  }

  /**
   * The occurrence that the caller is about to run, for callers with a scheduler of their own. It
   * is granted until an outcome was recorded for it ({@link Hold#release(RunOutcome)}), and never
   * after: then, or when a newer one has an outcome, the answer is an {@link
   * OccurrenceOverException} (T2).
   *
   * @param at whole seconds, at most 5 s after the store's time; not on a lock that has a schedule
   * @return a spec like this one, so changed
   */
  public LeaseSpec occurrence(Instant at) {
    Timestamp wire =
        Timestamp.newBuilder().setSeconds(at.getEpochSecond()).setNanos(at.getNano()).build();
    return with(spec -> spec.setOccurrenceAt(wire));
  }

  /**
   * How often the occurrence may fail or be abandoned before that is final.
   *
   * @param attempts 1 to 100; default without limit
   * @return a spec like this one, so changed
   */
  public LeaseSpec occurrenceMaxAttempts(int attempts) {
    return with(spec -> spec.setOccurrenceMaxAttempts(attempts));
  }

  /**
   * Who is asking, for people to read in the lock's record.
   *
   * @param holder at most 256 bytes; default this pod or host, and the process id
   * @return a spec like this one, so changed
   */
  public LeaseSpec holder(String holder) {
    return with(spec -> spec.setHolder(holder));
  }

  /**
   * The message that is sent.
   *
   * @return the message
   */
  public dev.leasehold.v1.LeaseSpec toMessage() {
    return spec.toBuilder().setHolder(Holder.orThis(spec.getHolder())).build();
  }

  private LeaseSpec with(Consumer<dev.leasehold.v1.LeaseSpec.Builder> change) {
    dev.leasehold.v1.LeaseSpec.Builder changed = spec.toBuilder();
    change.accept(changed);
    return new LeaseSpec(changed.build());
  }

  @Override
  public String toString() {
    return "LeaseSpec[" + spec.getKey().getFunction() + ", " + spec.getKey().getScope() + "]";
  }
}
