// Errors are in the words that all clients use: each line of proto/vectors/words.jsonl.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
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
import type { Busy, EndedRun, ReleaseResult } from "../src/proto.js";
import { unknownCalls } from "../src/errors/unsupported.js";
import { lossReasonNamed } from "../src/hold/loss.js";
import { message } from "./messages.js";

/** What an error is made from, and what it says. Numbers among that are only passed on. */
type Line = Readonly<Record<string, string>>;

function busy({ lock_path: lockPath, holder, held_permits: heldPermits, ...line }: Line): BusyError {
  const record = { lockPath, holder, holderIsLastRecorded: line["holder_is_last_recorded"] };
  const priorityStatus = `PRIORITY_STATUS_${line["priority_status"] ?? "UNSPECIFIED"}`;
  return new BusyError(
    message("Busy", { record, heldPermits, priorityStatus, reason: `BUSY_REASON_${line["reason"] ?? ""}` }) as Busy,
  );
}

function over({ outcome, watermark }: Line): OccurrenceOverError {
  const run = outcome === undefined ? undefined : message("EndedRun", { outcome: `RUN_OUTCOME_${outcome}` });
  return new OccurrenceOverError(
    run as EndedRun | undefined,
    watermark === undefined ? undefined : new Date(watermark),
  );
}

const ERRORS: Readonly<Record<string, (line: Line) => Error>> = {
  busy,
  lost: ({ reason, detail = "" }) => new LostError({ reason: lossReasonNamed(reason), detail }),
  release_unconfirmed: ({ lock_path = "", cause = "" }) => new ReleaseUnconfirmedError(lock_path, cause),
  checkpoint_unknown: ({ cause = "" }) => new CheckpointUnknownError(cause),
  occurrence_over: over,
  outcome_not_recorded: ({ result = "" }) =>
    new OutcomeNotRecordedError(
      message("ReleaseResult", { outcomeResult: `OUTCOME_RESULT_${result}` }) as ReleaseResult,
    ),
  endpoint: ({ endpoint = "", problem = "" }) => new EndpointError(endpoint, problem),
  protocol: ({ problem = "" }) => new ProtocolError(problem),
  unsupported: ({ feature = "" }) => unknownCalls(feature),
};

test("what is said is what all clients say", () => {
  const list = readFileSync(new URL("../../../../proto/vectors/words.jsonl", import.meta.url), "utf8");
  const lines = list.trimEnd().split("\n");
  assert.ok(lines.length >= 20);
  for (const line of lines.map((it) => JSON.parse(it) as Line)) {
    assert.equal(ERRORS[line["error"] ?? ""]?.(line).message, line["says"]);
  }
});
