// How a run ended, and telling it to the sidecar (T8).

import { COMPLETION_TIMEOUT_MS, DETAIL_BYTES } from "../constants.js";
import type { CheckpointOutcome } from "../../gen/leasehold/v1/hold.js";
import type { CompletionResult } from "../../gen/leasehold/v1/schedule_service.js";
import { CompleteRunRequest, ScheduleServiceService } from "../../gen/leasehold/v1/schedule_service.js";
import { checkpointBytes } from "../hold/checkpoint.js";
import type { Outcome } from "../hold/occurrence.js";
import { OUTCOMES } from "../hold/occurrence.js";
import type { HoldId, Rpc, UnaryOptions } from "../connect/rpc.js";
import { knowing } from "../errors/unsupported.js";

/** How a run ended. */
export interface Completion {
  /** How it ended. */
  readonly outcome: Outcome;
  /** Why, for the sidecar's log: more than 512 bytes are cut. Not for secrets. */
  readonly detail?: string;
  /** Replaces the lock's checkpoint in the same write: at most 2,048 bytes; a text in UTF-8. */
  readonly checkpoint?: Uint8Array | string;
}

/** What became of the outcome of a run. */
export interface CompletedRun {
  /** Whether it counts: with `SUPERSEDED` the run was or may be repeated. */
  readonly result: CompletionResult;
  /** When the occurrence is tried again; `undefined` if it is not. */
  readonly retryAt: Date | undefined;
  /** The occurrence that is waited for now; `undefined` if there is none. */
  readonly nextAt: Date | undefined;
  /** What became of the checkpoint; `UNSPECIFIED` if there was none. */
  readonly checkpointOutcome: CheckpointOutcome;
  /** The version of the checkpoint; with `SAVED` only. */
  readonly checkpointVersion: number;
}

/** The completion for the wire. */
export function completionRequest(
  runId: string,
  { leaseId, generation }: HoldId,
  completion: Completion,
): CompleteRunRequest {
  const { outcome, detail = "", checkpoint } = completion;
  return CompleteRunRequest.create({
    leaseId,
    generation,
    runId,
    outcome: OUTCOMES[outcome],
    detail: cut(detail),
    checkpoint: checkpoint === undefined ? undefined : checkpointBytes("checkpoint", checkpoint),
  });
}

/** At most {@link DETAIL_BYTES} bytes in UTF-8, and no half of a character. */
function cut(detail: string): string {
  const bytes = Buffer.from(detail, "utf8");
  if (bytes.length <= DETAIL_BYTES) return detail;
  // With `stream` the bytes of a character that was cut are kept back.
  return new TextDecoder().decode(bytes.subarray(0, DETAIL_BYTES), { stream: true });
}

/** Tells it once. */
export async function completeRun(
  rpc: Rpc,
  request: CompleteRunRequest,
  options: UnaryOptions = {},
): Promise<CompletedRun> {
  return await knowing("schedules", () =>
    rpc.unary(ScheduleServiceService.completeRun, request, { timeoutMs: COMPLETION_TIMEOUT_MS, ...options }),
  );
}
