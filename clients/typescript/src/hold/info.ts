// What the sidecar knows of a hold.

import type { GetHoldResponse, HoldState as WireHoldState } from "../../gen/leasehold/v1/lease_service.js";
import type { BreakNote } from "../../gen/leasehold/v1/lock.js";

/** A hold as the sidecar knows it. Durations are milliseconds, counted from when the answer was read. */
export interface HoldInfo {
  /** The state of the hold. */
  readonly state: WireHoldState;
  /** The path of the lock. */
  readonly lockPath: string;
  /** The token of the hold. */
  readonly fencingToken: number;
  /** How often the hold was resumed, plus one (S16). */
  readonly generation: number;
  /** Which permit of the lock is held. */
  readonly permit: number;
  /** The time left, unless renewed. */
  readonly remainingMs: number;
  /** The time until `maxHoldMs` is over; `undefined` without such a limit. */
  readonly maxHoldRemainingMs: number | undefined;
  /** The time until progress must have been reported; `undefined` if it is not watched. */
  readonly progressRemainingMs: number | undefined;
  /** Who broke the lock and why; only in state `REVOKED`. */
  readonly breakNote: BreakNote | undefined;
}

/** What was told, with these durations. */
export function holdInfo(
  told: GetHoldResponse,
  left: Pick<HoldInfo, "remainingMs" | "maxHoldRemainingMs" | "progressRemainingMs">,
): HoldInfo {
  const { state, lockPath, fencingToken, generation, permit, breakNote } = told;
  return { state, lockPath, fencingToken, generation, permit, breakNote, ...left };
}
