import assert from "node:assert/strict";
import { test } from "node:test";

import {
  Reason,
  LostError,
  OccurrenceOverError,
  OutcomeNotRecordedError,
  OutcomeResult,
  ProtocolError,
  ReleaseOutcome,
  RunOutcome,
} from "../src/index.js";
import type { Hold } from "../src/index.js";
import { AlreadyDone, EndedRun, Grant, ReleaseResult, Skipped } from "../src/proto.js";
import { Bench, OURS, grant, validity } from "./fake-sidecar.js";

const DUE = new Date("2026-11-22T02:30:00Z");
const LATER = new Date("2026-11-22T03:30:00Z");
const ASKED = { function: "f", scope: "s", occurrence: DUE, occurrenceMaxAttempts: 3 };

/** A hold that was granted for the occurrence, as this attempt. */
async function attempted(bench: Bench, attempt = 1): Promise<Hold> {
  const holding = bench.client.hold(ASKED);
  const call = await bench.sidecar.hold();
  assert.equal(call.start?.$case, "spec");
  const { occurrenceAt, occurrenceMaxAttempts } = call.start.value;
  assert.deepEqual([occurrenceAt, occurrenceMaxAttempts], [DUE, 3]);
  call.tell(grant(validity(OURS, 1_058, 58), { attempt }));
  return await holding;
}

test("t2 an occurrence is asked for, and its attempt told", async () => {
  await using bench = await Bench.create();
  assert.equal((await attempted(bench, 2)).attempt, 2);
  assert.equal((await bench.held()).hold.attempt, 0);
  bench.sidecar.script.acquire = { $case: "granted", value: Grant.create({ attempt: 3 }) };
  assert.equal((await bench.client.acquire(ASKED)).attempt, 3);
  await assert.rejects(bench.client.hold({ function: "f", occurrence: new Date(Number.NaN) }), RangeError);
});

test("t2 an occurrence that is over is an error of its own", async () => {
  await using bench = await Bench.create();
  const run = EndedRun.create({ scheduledAt: DUE, outcome: RunOutcome.SUCCEEDED, attempt: 2 });
  const answers = [
    { $case: "alreadyDone", value: AlreadyDone.create({ run }) },
    { $case: "skipped", value: Skipped.create({ watermark: LATER }) },
  ] as const;
  for (const answer of answers) {
    const isIt = (error: unknown): boolean => {
      assert.ok(error instanceof OccurrenceOverError);
      const isDone = answer.$case === "alreadyDone";
      assert.deepEqual([error.run?.attempt, error.watermark], isDone ? [2, undefined] : [undefined, LATER]);
      assert.match(error.message, isDone ? /done: SUCCEEDED/ : /skipped: .*2026-11-22T03:30/);
      return true;
    };
    for (const [request, wanted] of [
      [ASKED, isIt],
      [{ function: "f" }, ProtocolError],
    ] as const) {
      const holding = bench.client.hold(request);
      const call = await bench.sidecar.hold();
      call.tell(answer);
      await assert.rejects(holding, wanted);
      await call.ended();
      bench.sidecar.script.acquire = answer;
      await assert.rejects(bench.client.acquire(request), wanted);
    }
  }
});

test("t8 a release tells the outcome, and fails if that was not recorded", async () => {
  await using bench = await Bench.create();
  const { script } = bench.sidecar;
  const outcome = ReleaseOutcome.RELEASED;
  script.release = ReleaseResult.create({ outcome, outcomeResult: OutcomeResult.RECORDED });
  const recorded = await attempted(bench);
  assert.equal((await recorded.release({ outcome: "failedFinal" })).outcomeResult, OutcomeResult.RECORDED);
  // The first one decides.
  assert.equal((await recorded.release({ outcome: "succeeded" })).outcomeResult, OutcomeResult.RECORDED);
  await bench.client.release("lease-2", { outcome: "succeeded", checkpoint: "a" });
  assert.deepEqual(script.asked, [
    "release lease-1 of generation 1 FAILED_FINAL",
    "release lease-2 of generation 0 with a SUCCEEDED",
  ]);
  for (const [outcomeResult, words] of [
    [OutcomeResult.NOT_RECORDED, /was not recorded/],
    [OutcomeResult.UNKNOWN, /it is not known/],
  ] as const) {
    script.release = ReleaseResult.create({ outcome, outcomeResult });
    const isIt = (error: unknown): boolean => {
      assert.ok(error instanceof OutcomeNotRecordedError);
      assert.match(error.message, words);
      return error.result.outcomeResult === outcomeResult;
    };
    await assert.rejects((await attempted(bench)).release({ outcome: "returned" }), isIt);
    await assert.rejects(bench.client.release("lease-2", { outcome: "failed" }), isIt);
  }
});

test("t8 a release that says nothing of its outcome has not recorded it", async () => {
  await using bench = await Bench.create();
  const { script } = bench.sidecar;
  await assert.rejects((await attempted(bench)).release({ outcome: "failed" }), { reason: Reason.UNSUPPORTED });
  script.release = ReleaseResult.create({ outcome: ReleaseOutcome.ALREADY_RELEASED });
  await assert.rejects(bench.client.release("lease-2", { outcome: "failed" }), OutcomeNotRecordedError);
  script.release = ReleaseResult.create({ outcome: ReleaseOutcome.ALREADY_LOST });
  await assert.rejects((await attempted(bench)).release({ outcome: "failed" }), LostError);
  // Without an outcome nothing is said, and nothing missed.
  script.release = ReleaseResult.create({ outcome: ReleaseOutcome.RELEASED });
  await (await attempted(bench)).release();
});
