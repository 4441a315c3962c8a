// Occurrences that a caller with a scheduler of its own names (T2).

import type { AlreadyDone, LeaseSpec, ReleaseResult, Skipped } from "../../gen/leasehold/v1/hold.js";
import { OutcomeResult, ReleaseOutcome } from "../../gen/leasehold/v1/hold.js";
import type { EndedRun } from "../../gen/leasehold/v1/schedule.js";
import { RunOutcome } from "../../gen/leasehold/v1/schedule.js";
import { LeaseholdError, ProtocolError } from "../errors/errors.js";
import { unknownCalls } from "../errors/unsupported.js";

/**
 * How an occurrence, or a run, ended for its holder. `"succeeded"` and `"failedFinal"` are final; after `"failed"` it is
 * tried again if attempts are left; with `"returned"` somebody else is to run it, and it does not count as an attempt (T11).
 */
export type Outcome = "succeeded" | "failed" | "failedFinal" | "returned";

/** The outcomes for the wire. */
export const OUTCOMES: Readonly<Record<Outcome, RunOutcome>> = {
  succeeded: RunOutcome.SUCCEEDED,
  failed: RunOutcome.FAILED,
  failedFinal: RunOutcome.FAILED_FINAL,
  returned: RunOutcome.RETURNED,
};

/** The occurrence that was asked for is not granted any more: an answer of the sidecar, and no fault. */
export class OccurrenceOverError extends LeaseholdError {
  constructor(
    /**
     * How it has ended, of which an old record may have the outcome only; `undefined` if it is skipped: it is older than
     * one that has an outcome, and none was recorded for it.
     */
    readonly run: EndedRun | undefined,
    /** The newest occurrence that has an outcome, where it is skipped, if that was said. */
    readonly watermark: Date | undefined,
  ) {
    super(
      run === undefined
        ? `the occurrence is skipped: a newer one is done${watermark === undefined ? "" : `, ${watermark.toISOString().replace(".000Z", "Z")}`}`
        : `the occurrence is done: ${run.outcome.replace(/^RUN_OUTCOME_/, "")}`,
    );
  }
}

/**
 * The lock was released, and the outcome of its occurrence was not recorded, or that is not known. Ask for the occurrence
 * again: it is granted once more, or it is said that it is done.
 */
export class OutcomeNotRecordedError extends LeaseholdError {
  constructor(
    /** What the release did, with what became of the outcome and of a checkpoint. */
    readonly result: ReleaseResult,
  ) {
    const problem =
      result.outcomeResult === OutcomeResult.NOT_RECORDED
        ? "the outcome of its occurrence was not recorded"
        : "it is not known whether the outcome of its occurrence was recorded";
    super(`the lock was released, and ${problem}; ask for the occurrence again`);
  }
}

/** What to fail with where the sidecar says that the occurrence is over. */
export function occurrenceOver(
  spec: LeaseSpec,
  answer:
    | { readonly $case: "alreadyDone"; readonly value: AlreadyDone }
    | { readonly $case: "skipped"; readonly value: Skipped },
): LeaseholdError {
  if (spec.occurrenceAt === undefined) return new ProtocolError("an occurrence was told that was not asked for");
  if (answer.$case === "skipped") return new OccurrenceOverError(undefined, answer.value.watermark);
  if (answer.value.run === undefined) return new ProtocolError("an occurrence is done without saying how");
  return new OccurrenceOverError(answer.value.run, undefined);
}

/** Fails unless the outcome that a release carried was recorded. */
export function checkRecorded(result: ReleaseResult): void {
  if (result.outcomeResult === OutcomeResult.RECORDED) return;
  const isReleased = result.outcome === ReleaseOutcome.RELEASED || result.outcome === ReleaseOutcome.RESTING;
  // S37: it says what became of an outcome, if it knows of them.
  if (isReleased && result.outcomeResult === OutcomeResult.UNSPECIFIED) {
    throw unknownCalls("occurrences");
  }
  throw new OutcomeNotRecordedError(result);
}
