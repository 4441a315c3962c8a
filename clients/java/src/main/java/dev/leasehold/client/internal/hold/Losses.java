package dev.leasehold.client.internal.hold;

import com.google.protobuf.Descriptors.EnumValueDescriptor;
import dev.leasehold.client.Loss;
import dev.leasehold.client.Reason;
import dev.leasehold.client.RefusedException;
import dev.leasehold.client.internal.errors.Refusals;
import dev.leasehold.v1.BreakNote;
import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.Lost;
import dev.leasehold.v1.ReleaseOutcome;
import dev.leasehold.v1.ReleaseResult;
import io.grpc.Status;
import java.util.EnumSet;
import java.util.Optional;
import java.util.Set;

/** Losses, by the messages and errors that tell of them. */
final class Losses {
  private static final String PREFIX = "LOSS_REASON_";

  /** Codes that say that no try to resume will ever work; anything else may pass (S16). */
  private static final Set<Status.Code> HOPELESS =
      EnumSet.of(
          Status.Code.INVALID_ARGUMENT,
          Status.Code.NOT_FOUND,
          Status.Code.FAILED_PRECONDITION,
          Status.Code.ABORTED,
          Status.Code.DATA_LOSS,
          Status.Code.UNIMPLEMENTED);

  private Losses() {}

  static Loss of(Lost lost) {
    Optional<BreakNote> note =
        lost.hasBreakNote() ? Optional.of(lost.getBreakNote()) : Optional.empty();
    return new Loss(lost.getReason(), lost.getDetail(), note);
  }

  /** The loss that a release tells of, if it does: the lease was another's, or gone (S13). */
  static Optional<Loss> foundBy(ReleaseResult result) {
    return result.getOutcome() == ReleaseOutcome.RELEASE_OUTCOME_ALREADY_LOST
        ? Optional.of(new Loss(result.getLossReason(), "found when it was released"))
        : Optional.empty();
  }

  /** Somebody else has ended the hold. */
  static Loss released() {
    return new Loss(LossReason.LOSS_REASON_UNSPECIFIED, "it was released by its lease id");
  }

  /** The loss that an answer tells of, if it does. */
  static Optional<Loss> toldBy(Throwable error) {
    if (!(error instanceof RefusedException refusal)) {
      return Optional.empty();
    }
    if (Refusals.is(refusal, Reason.HOLD_RELEASED)) {
      return Optional.of(released());
    }
    if (!Refusals.is(refusal, Reason.HOLD_LOST)) {
      return Optional.empty();
    }
    String name = PREFIX + refusal.lossReason().orElse("UNSPECIFIED");
    EnumValueDescriptor known = LossReason.getDescriptor().findValueByName(name);
    LossReason reason =
        known == null ? LossReason.LOSS_REASON_UNSPECIFIED : LossReason.valueOf(known);
    return Optional.of(new Loss(reason, refusal.sidecarMessage()));
  }

  /** A refusal that no try to resume will ever change (S16). */
  static Optional<Loss> ifFinal(RefusedException refusal) {
    boolean passes = Refusals.is(refusal, Reason.STREAM_BEHIND) || Refusals.isBelowNeeds(refusal);
    if (!HOPELESS.contains(refusal.code()) || passes) {
      return Optional.empty();
    }
    String detail = "the sidecar will not resume it: " + refusal.getMessage();
    return toldBy(refusal)
        .or(() -> Optional.of(new Loss(LossReason.LOSS_REASON_UNSPECIFIED, detail)));
  }
}
