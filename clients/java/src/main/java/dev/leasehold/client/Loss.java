package dev.leasehold.client;

import dev.leasehold.v1.BreakNote;
import dev.leasehold.v1.LossReason;
import java.util.Optional;

/**
 * Why a hold is over, though its holder did not end it.
 *
 * @param reason why; {@code LOSS_REASON_UNSPECIFIED} or {@code UNRECOGNIZED} for a reason that this
 *     client does not know
 * @param detail the same for people
 * @param breakNote who broke the lock and why, where it was broken and that is known
 */
public record Loss(LossReason reason, String detail, Optional<BreakNote> breakNote) {
  private static final String PREFIX = "LOSS_REASON_";

  /**
   * A loss that is no break.
   *
   * @param reason why
   * @param detail the same for people
   */
  public Loss(LossReason reason, String detail) {
    this(reason, detail, Optional.empty());
  }

  /**
   * The reason's name in the API.
   *
   * @return {@code EXPIRED} and so on
   */
  public String reasonName() {
    String name = reason.name();
    return name.startsWith(PREFIX) ? name.substring(PREFIX.length()) : name;
  }

  @Override
  public String toString() {
    return detail.isEmpty() ? reasonName() : reasonName() + ": " + detail;
  }
}
