package dev.leasehold.client;

import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.client.internal.hold.Holder;
import dev.leasehold.v1.CatchUp;
import dev.leasehold.v1.FirstRun;
import dev.leasehold.v1.LockKey;
import dev.leasehold.v1.Overlap;
import dev.leasehold.v1.SubscribeScheduleRequest;
import java.time.Duration;
import java.time.ZoneId;
import java.util.Map;
import java.util.function.Consumer;

/**
 * A schedule to take part in, on a lock: immutable, made by {@link #of}, and changed by making
 * another. Say when it is due by {@link #cron} or {@link #every}.
 *
 * <p>Ranges are checked by the sidecar, which refuses with {@link Reason#INVALID_FIELD}. All
 * durations are whole seconds.
 */
public final class ScheduleSpec {
  private final SubscribeScheduleRequest message;

  private ScheduleSpec(SubscribeScheduleRequest message) {
    this.message = message;
  }

  /**
   * A schedule of a function.
   *
   * @param function what it runs; with the scope at most 256 bytes
   * @return the spec
   */
  public static ScheduleSpec of(String function) {
    return of(Locks.key(function, ""));
  }

  /**
   * A schedule of a part of a function.
   *
   * @param function what it runs; with the scope at most 256 bytes
   * @param scope the part: a tenant, a shard; may be empty
   * @return the spec
   */
  public static ScheduleSpec of(String function, String scope) {
    return of(Locks.key(function, scope));
  }

  /**
   * A schedule on a lock by its key.
   *
   * @param key the lock's name
   * @return the spec
   */
  public static ScheduleSpec of(LockKey key) {
    return new ScheduleSpec(SubscribeScheduleRequest.newBuilder().setKey(key).build());
  }

  /**
   * It is due when an expression says so (T15).
   *
   * @param expression five fields as cron has them, six with seconds first, {@code @daily} and its
   *     like, or {@code @every 90s}
   * @return a spec like this one, so changed
   */
  public ScheduleSpec cron(String expression) {
    return with(spec -> spec.setCron(expression));
  }

  /**
   * It is due after the same span again and again, counted from the Unix epoch.
   *
   * @param span 10 s to 366 days
   * @return a spec like this one, so changed
   */
  public ScheduleSpec every(Duration span) {
    return with(spec -> spec.setEvery(Durations.toWire(span)));
  }

  /**
   * The time zone whose clocks the expression is about. The zone of the process is never used.
   *
   * @param name an IANA name such as {@code Europe/Copenhagen}; default UTC
   * @return a spec like this one, so changed
   */
  public ScheduleSpec timeZone(String name) {
    return with(spec -> spec.setTimeZone(name));
  }

  /**
   * The time zone whose clocks the expression is about.
   *
   * @param zone a zone with an IANA name; default UTC
   * @return a spec like this one, so changed
   */
  public ScheduleSpec timeZone(ZoneId zone) {
    return timeZone(zone.getId());
  }

  /**
   * Which of two different definitions is in force: the one with the higher revision (T16).
   *
   * @param revision such as the number of the release; default 0, which replaces no positive one
   * @return a spec like this one, so changed
   */
  public ScheduleSpec revision(long revision) {
    return with(spec -> spec.setRevision(revision));
  }

  /**
   * What becomes of occurrences that were missed, but for the newest one (T9).
   *
   * @param policy LATEST, which is the default, or NONE; for ALL see {@link #catchUpAll}
   * @return a spec like this one, so changed
   */
  public ScheduleSpec catchUp(CatchUp policy) {
    return with(spec -> spec.setCatchUp(policy).clearCatchUpMax());
  }

  /**
   * Runs the newest of the occurrences that were missed, too, oldest first.
   *
   * @param atMost how many, beside the newest one: 1 to 100
   * @return a spec like this one, so changed
   */
  public ScheduleSpec catchUpAll(int atMost) {
    return with(spec -> spec.setCatchUp(CatchUp.CATCH_UP_ALL).setCatchUpMax(atMost));
  }

  /**
   * Never runs occurrences that are older than this.
   *
   * @param window 1 min to 366 days; default as far back as may be caught up, and 25 h at least
   * @return a spec like this one, so changed
   */
  public ScheduleSpec catchUpWindow(Duration window) {
    return with(spec -> spec.setCatchUpWindow(Durations.toWire(window)));
  }

  /**
   * How late the newest occurrence still counts as on time.
   *
   * @param grace at least twice the lease duration and 10 s more, which is the default; at most 7
   *     days
   * @return a spec like this one, so changed
   */
  public ScheduleSpec grace(Duration grace) {
    return with(spec -> spec.setGrace(Durations.toWire(grace)));
  }

  /**
   * What becomes of occurrences that fall due during a run (T10).
   *
   * @param policy FOLLOW, which is the default, or SKIP
   * @return a spec like this one, so changed
   */
  public ScheduleSpec overlap(Overlap policy) {
    return with(spec -> spec.setOverlap(policy));
  }

  /**
   * How many attempts an occurrence has that fail or are abandoned (T11).
   *
   * @param attempts 1 to 100; default 3
   * @return a spec like this one, so changed
   */
  public ScheduleSpec maxAttempts(int attempts) {
    return with(spec -> spec.setMaxAttempts(attempts));
  }

  /**
   * The wait before the second attempt. It doubles with each further one, up to 10 min.
   *
   * @param backoff 1 s to 10 min; default 10 s
   * @return a spec like this one, so changed
   */
  public ScheduleSpec backoff(Duration backoff) {
    return with(spec -> spec.setBackoff(Durations.toWire(backoff)));
  }

  /**
   * How long a run may take: at its deadline it has failed, and is not tried again (T12).
   *
   * @param timeout 1 s to 366 days; default until the next occurrence is due, but at least as long
   *     as the gap between the two
   * @return a spec like this one, so changed
   */
  public ScheduleSpec runTimeout(Duration timeout) {
    return with(spec -> spec.setRunTimeout(Durations.toWire(timeout)));
  }

  /**
   * A run may take as long as it likes.
   *
   * @return a spec like this one, so changed
   */
  public ScheduleSpec withoutRunTimeout() {
    return with(spec -> spec.setNoRunTimeout(true));
  }

  /**
   * How long a run may take to end after its deadline, and still say how it ended (T12).
   *
   * @param grace at most 1 h; default 10 s
   * @return a spec like this one, so changed
   */
  public ScheduleSpec stopGrace(Duration grace) {
    return with(spec -> spec.setStopGrace(Durations.toWire(grace)));
  }

  /**
   * A run is lost unless it {@link Run#reportProgress reports progress} at least this often (S11).
   *
   * @param timeout 1 s to 24 h; default none
   * @return a spec like this one, so changed
   */
  public ScheduleSpec progressTimeout(Duration timeout) {
    return with(spec -> spec.setProgressTimeout(Durations.toWire(timeout)));
  }

  /**
   * Starts later by an offset of its own, which does not change (T13).
   *
   * @param spread up to this: 0 to 24 h, and at most half the gap to the next occurrence; default 0
   * @return a spec like this one, so changed
   */
  public ScheduleSpec spread(Duration spread) {
    return with(spec -> spec.setSpread(Durations.toWire(spread)));
  }

  /**
   * The longest time after which a sidecar looks whether a run elsewhere was abandoned (T17).
   *
   * @param check 1 s to 10 min; by default it doubles from the lease duration up to 10 min
   * @return a spec like this one, so changed
   */
  public ScheduleSpec takeoverCheck(Duration check) {
    return with(spec -> spec.setTakeoverCheck(Durations.toWire(check)));
  }

  /**
   * The duration of the lease in the store, as {@link LeaseSpec#leaseDuration}.
   *
   * @param leaseDuration 15 s to 60 s; default the sidecar's
   * @return a spec like this one, so changed
   */
  public ScheduleSpec leaseDuration(Duration leaseDuration) {
    return with(spec -> spec.setLeaseDuration(Durations.toWire(leaseDuration)));
  }

  /**
   * A schedule that nobody has subscribed to before runs at once, in one replica, and not first at
   * its next occurrence (T25).
   *
   * @return a spec like this one, so changed
   */
  public ScheduleSpec firstNow() {
    return new ScheduleSpec(message.toBuilder().setFirst(FirstRun.FIRST_RUN_NOW).build());
  }

  /**
   * Who runs, for people to read in the lock's record.
   *
   * @param holder at most 256 bytes; default this pod or host, and the process id
   * @return a spec like this one, so changed
   */
  public ScheduleSpec holder(String holder) {
    return new ScheduleSpec(message.toBuilder().setHolder(holder).build());
  }

  /**
   * Free pairs for people and tools, shown in the lock's record. Not for secrets.
   *
   * @param labels at most 16, 1,024 bytes in all; they replace earlier ones
   * @return a spec like this one, so changed
   */
  public ScheduleSpec labels(Map<String, String> labels) {
    return new ScheduleSpec(message.toBuilder().clearLabels().putAllLabels(labels).build());
  }

  /**
   * The definition that is sent, without the lock.
   *
   * @return the message
   */
  public dev.leasehold.v1.ScheduleSpec toSpec() {
    return message.getSpec();
  }

  /**
   * The message of a new subscriber.
   *
   * @return the message
   */
  public SubscribeScheduleRequest toMessage() {
    return message.toBuilder().setHolder(Holder.orThis(message.getHolder())).build();
  }

  private ScheduleSpec with(Consumer<dev.leasehold.v1.ScheduleSpec.Builder> change) {
    SubscribeScheduleRequest.Builder changed = message.toBuilder();
    change.accept(changed.getSpecBuilder());
    return new ScheduleSpec(changed.build());
  }

  @Override
  public String toString() {
    LockKey key = message.getKey();
    return "ScheduleSpec[" + key.getFunction() + ", " + key.getScope() + "]";
  }
}
