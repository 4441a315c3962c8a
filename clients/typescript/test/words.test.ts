// Errors are in the words that all clients use: each line of proto/vectors/words.jsonl.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import {
  BusyError,
  CheckpointUnknownError,
  EndpointError,
  LostError,
  OccurrenceOverError,
  OutcomeNotRecordedError,
  ProtocolError,
  ReleaseUnconfirmedError,
} from "../src/index.js";
import {
  Busy,
  EndedRun,
  LockRecord,
  ReleaseResult,
  busyReasonFromJSON,
  lossReasonFromJSON,
  outcomeResultFromJSON,
  priorityStatusFromJSON,
  runOutcomeFromJSON,
} from "../src/proto.js";
import { unknownCalls } from "../src/errors/unsupported.js";

interface Line {
  readonly error: string;
  readonly says: string;
  readonly lock_path: string;
  readonly reason: string;
  readonly detail: string;
  readonly cause: string;
  readonly holder?: string;
  readonly holder_is_last_recorded?: boolean;
  readonly held_permits?: number;
  readonly priority_status?: string;
  readonly outcome?: string;
  readonly watermark?: string;
  readonly result: string;
  readonly endpoint: string;
  readonly problem: string;
  readonly feature?: string;
}

function busy(line: Line): BusyError {
  const record = LockRecord.create({
    lockPath: line.lock_path,
    holder: line.holder ?? "",
    holderIsLastRecorded: line.holder_is_last_recorded ?? false,
  });
  const priorityStatus = priorityStatusFromJSON(`PRIORITY_STATUS_${line.priority_status ?? "UNSPECIFIED"}`);
  const reason = busyReasonFromJSON(`BUSY_REASON_${line.reason}`);
  return new BusyError(Busy.create({ record, reason, heldPermits: line.held_permits ?? 0, priorityStatus }));
}

function over({ outcome, watermark }: Line): OccurrenceOverError {
  if (outcome === undefined) {
    return new OccurrenceOverError(undefined, watermark === undefined ? undefined : new Date(watermark));
  }
  return new OccurrenceOverError(EndedRun.create({ outcome: runOutcomeFromJSON(`RUN_OUTCOME_${outcome}`) }), undefined);
}

const ERRORS: Readonly<Record<string, (line: Line) => Error>> = {
  busy,
  lost: ({ reason, detail }) => new LostError({ reason: lossReasonFromJSON(`LOSS_REASON_${reason}`), detail }),
  release_unconfirmed: (line) => new ReleaseUnconfirmedError(line.lock_path, line.cause),
  checkpoint_unknown: ({ cause }) => new CheckpointUnknownError(cause),
  occurrence_over: over,
  outcome_not_recorded: ({ result }) => {
    const outcomeResult = outcomeResultFromJSON(`OUTCOME_RESULT_${result}`);
    return new OutcomeNotRecordedError(ReleaseResult.create({ outcomeResult }));
  },
  endpoint: ({ endpoint, problem }) => new EndpointError(endpoint, problem),
  protocol: ({ problem }) => new ProtocolError(problem),
  unsupported: ({ feature = "" }) => unknownCalls(feature),
};

test("what is said is what all clients say", async () => {
  const list = await readFile(new URL("../../../../proto/vectors/words.jsonl", import.meta.url), "utf8");
  const lines = list
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Line);
  assert.ok(lines.length >= 20);
  for (const line of lines) assert.equal(ERRORS[line.error]?.(line).message, line.says);
});
