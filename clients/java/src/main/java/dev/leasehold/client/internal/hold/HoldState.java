package dev.leasehold.client.internal.hold;

import dev.leasehold.client.BootInstant;
import dev.leasehold.client.Constants;
import dev.leasehold.client.Loss;
import dev.leasehold.client.Notice;
import dev.leasehold.client.internal.clock.BootClock;
import dev.leasehold.client.internal.connect.Calls;
import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.v1.BootTime;
import dev.leasehold.v1.BreakNote;
import dev.leasehold.v1.Deadline;
import dev.leasehold.v1.GetHoldResponse;
import dev.leasehold.v1.Grant;
import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.Validity;
import java.time.Duration;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/** A hold's validity and its end. Both are looked at under one lock, so that lost is final (S4). */
public final class HoldState {
  private final BootClock clock;
  private final KnownValidity validity = new KnownValidity();
  private Consumer<Loss> whenLost = loss -> {};

  /** When {@code max_hold} ends; null if it does not. */
  private KnownValidity.Reading maxHold;

  private Notice notice;

  /** The loss at the end of a validity that is the last; null if the lock was not broken. */
  private Loss broken;

  private boolean over;
  private Loss loss;
  private boolean lossTold;

  /** A hold that was granted by {@code validity}, in answer to a request sent at {@code sent}. */
  HoldState(BootClock clock, Validity validity, BootInstant sent) {
    this.clock = clock;
    this.validity.takeIn(validity, Optional.of(sent), clock.present(), clock.bootId());
  }

  /**
   * What a grant in answer to a request sent at {@code sent} is worth. Elsewhere than on the
   * sidecar's kernel its duration counts from before the request, and a wait may have used it up.
   * Then the validity is asked for anew by {@code calls} (S21).
   */
  public static CompletableFuture<HoldState> granted(
      ClientContext context, Calls calls, Grant grant, BootInstant sent) {
    HoldState state = new HoldState(context.clock(), grant.getValidity(), sent);
    if (grant.hasMaxHoldEnds()) {
      state.takeInEnd(grant.getMaxHoldEnds(), Optional.of(sent));
    }
    if (!state.untilNextQuestion().map(Duration::isZero).orElse(false)) {
      return CompletableFuture.completedFuture(state);
    }
    BootInstant asked = context.clock().earliest();
    return calls
        .getHold(grant.getLeaseId(), grant.getGeneration(), Constants.CALL_TIMEOUT)
        .thenApply(
            answer -> {
              HoldState anew = new HoldState(context.clock(), answer.getValidity(), asked);
              anew.takeIn(answer, asked);
              return anew;
            });
  }

  /** Calls {@code listener} when the hold is lost, at once if it is; once, and under no lock. */
  void whenLost(Consumer<Loss> listener) {
    synchronized (this) {
      whenLost = listener;
      lossTold = false;
    }
    tellLoss();
  }

  /** The end of validity, unless it is renewed. */
  public synchronized BootInstant validUntil() {
    return validity.until();
  }

  /**
   * The time left; zero if the hold is over. Being past validity is being lost, whoever finds out
   * first (S21).
   */
  public Duration remaining() {
    Duration left;
    synchronized (this) {
      left = left();
    }
    tellLoss();
    return left;
  }

  /** Whether the holder may act now. */
  public boolean isValid() {
    return !remaining().isZero();
  }

  /** Takes in what the sidecar says, unless the hold is over (S4). Says whether it goes on. */
  boolean takeIn(Validity validity, Optional<BootInstant> sent) {
    boolean goesOn = false;
    synchronized (this) {
      if (!left().isZero()) {
        this.validity.takeIn(validity, sent, clock.present(), clock.bootId());
        goesOn = !left().isZero();
      }
    }
    tellLoss();
    return goesOn;
  }

  /** Takes in the answer to a question about the hold. */
  void takeIn(GetHoldResponse answer, BootInstant sent) {
    takeIn(answer.getValidity(), Optional.of(sent));
    if (answer.hasMaxHoldEnds()) {
      takeInEnd(answer.getMaxHoldEnds(), Optional.of(sent));
    }
  }

  /**
   * Takes in when {@code max_hold} ends, in an answer to a request sent at {@code sent}, if there
   * was one. An older message than the newest one changes nothing.
   */
  synchronized void takeInEnd(Deadline deadline, Optional<BootInstant> sent) {
    KnownValidity.readingOf(deadline, sent, clock.latest(), clock.bootId())
        .filter(reading -> maxHold == null || !reading.asOf().isBefore(maxHold.asOf()))
        .ifPresent(reading -> maxHold = reading);
  }

  /** When {@code max_hold} ends, if it does. */
  public synchronized Optional<BootInstant> maxHoldEnds() {
    return Optional.ofNullable(maxHold).map(KnownValidity.Reading::until);
  }

  /** The lock was broken, and the validity is the last (S22). */
  synchronized Notice revoke(BreakNote note) {
    OptionalInt priority =
        note.hasForPriority() ? OptionalInt.of(note.getForPriority()) : OptionalInt.empty();
    notice = new Notice(validity.until(), note.getReason(), note.getBrokenBy(), priority);
    broken =
        new Loss(
            LossReason.LOSS_REASON_BROKEN,
            "it was broken and its lease ran out",
            Optional.of(note));
    return notice;
  }

  /** Why the hold is lost if nothing but the end of its validity ends it. */
  private Loss atTheEnd() {
    if (broken != null) {
      return broken;
    }
    boolean isBounded = maxHold != null && !validity.until().isBefore(maxHold.until());
    return isBounded
        ? new Loss(LossReason.LOSS_REASON_MAX_HOLD_REACHED, "it lasted as long as its limit allows")
        : new Loss(LossReason.LOSS_REASON_EXPIRED, "its validity ended without a renewal");
  }

  /** The notice that the lock was broken, if it was. */
  public synchronized Optional<Notice> notice() {
    return Optional.ofNullable(notice);
  }

  /** The latest grant's or renewal's end, in the sidecar's words (S16). */
  synchronized Optional<BootTime> told() {
    return validity.told();
  }

  /**
   * The time until the sidecar should be asked for the validity; empty where its words are enough
   * (S21).
   */
  synchronized Optional<Duration> untilNextQuestion() {
    return validity.nextQuestion().map(due -> due.since(clock.latest()));
  }

  /** The hold is lost, unless it is over already. */
  void lose(Loss why) {
    synchronized (this) {
      end(why);
    }
    tellLoss();
  }

  /** The holder ends the hold (S13). False if it was over already. */
  public boolean end() {
    boolean wasValid;
    synchronized (this) {
      wasValid = !left().isZero();
      end(null);
    }
    tellLoss();
    return wasValid;
  }

  /** Why the hold was lost, if it was. */
  public synchronized Optional<Loss> loss() {
    return Optional.ofNullable(loss);
  }

  private Duration left() {
    if (over) {
      return Duration.ZERO;
    }
    Duration left = validity.until().since(clock.latest());
    if (left.isZero()) {
      end(atTheEnd());
    }
    return left;
  }

  private void end(Loss why) {
    if (!over) {
      over = true;
      loss = why;
    }
  }

  private void tellLoss() {
    Consumer<Loss> listener;
    synchronized (this) {
      if (loss == null || lossTold) {
        return;
      }
      lossTold = true;
      listener = whenLost;
    }
    listener.accept(loss);
  }
}
