// Why a hold is over, though its holder did not end it.

import { LossReason, ReleaseOutcome } from "../../gen/leasehold/v1/hold.js";
import type { Lost, ReleaseResult } from "../../gen/leasehold/v1/hold.js";
import type { BreakNote } from "../../gen/leasehold/v1/lock.js";

/** Why a hold is over, though its holder did not end it. */
export interface Loss {
  /** Why. `UNSPECIFIED` or `UNRECOGNIZED` for a reason that this version of the client does not know. */
  readonly reason: LossReason;
  /** The same for people. */
  readonly detail: string;
  /** Who broke the lock and why, where it was broken and that is known. */
  readonly breakNote?: BreakNote;
}

/** The loss that the sidecar tells. */
export function lossOf(lost: Lost): Loss {
  const { reason, detail, breakNote } = lost;
  return breakNote === undefined ? { reason, detail } : { reason, detail, breakNote };
}

/** The loss that a release tells of, if it does: the lease was another's, or gone, before (S13). */
export function alreadyLost(result: ReleaseResult | undefined): Loss | undefined {
  if (result?.outcome !== ReleaseOutcome.ALREADY_LOST) return undefined;
  return { reason: result.lossReason, detail: "found when it was released" };
}

/** A reason's name as people read it: `EXPIRED` and so on. */
export function lossReasonName(reason: LossReason): string {
  return reason.replace(/^LOSS_REASON_/, "");
}

/** The reason with this name, as it stands in the metadata of an error. */
export function lossReasonNamed(name: string | undefined): LossReason {
  return Object.values(LossReason).find((reason) => lossReasonName(reason) === name) ?? LossReason.UNSPECIFIED;
}
