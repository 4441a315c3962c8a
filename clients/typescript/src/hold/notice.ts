// The notice that a lock was broken and its lease runs out (S22).

import type { BreakNote } from "../../gen/leasehold/v1/lock.js";
import { LeaseholdError } from "../errors/errors.js";

/**
 * The lock was broken, and the hold ends with its validity. Until then it is held: finish, save the checkpoint, release.
 * The reason of {@link Hold.revokedSignal}, and an error so that what the signal aborts fails with it.
 */
export class Notice extends LeaseholdError {
  readonly #remainingMs: () => number;

  /** @internal Notices come from the sidecar. */
  constructor(
    /** Who broke the lock and why, as it is stored; `undefined` if that is not known. */
    readonly breakNote: BreakNote | undefined,
    remainingMs: () => number,
  ) {
    const { reason = "", brokenBy = "" } = breakNote ?? {};
    const by = brokenBy === "" ? "" : ` by ${brokenBy}`;
    const priority = breakNote?.forPriority;
    const whom = priority === undefined ? "" : ` for a caller of priority ${String(priority)}`;
    const why = reason === "" ? "" : `: ${reason}`;
    super(`the lock was broken${by}${whom}${why}; the hold ends with its validity`);
    this.#remainingMs = remainingMs;
  }

  /** Why the lock was broken; empty if that is not known. */
  get reason(): string {
    return this.breakNote?.reason ?? "";
  }

  /** Who broke it; empty if that is not known. */
  get brokenBy(): string {
    return this.breakNote?.brokenBy ?? "";
  }

  /**
   * The priority of the caller that takes the lock over, such as a newer version ({@link LeaseSpec.priority});
   * `undefined` if an operator broke it.
   */
  get forPriority(): number | undefined {
    return this.breakNote?.forPriority;
  }

  /** The time until the deadline in milliseconds, now; 0 when the hold is over. */
  remainingMs(): number {
    return this.#remainingMs();
  }
}
