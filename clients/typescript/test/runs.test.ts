// A run as a program in TypeScript has it: loops, getters, functions. What it does is in the vectors.

import assert from "node:assert/strict";
import { test } from "node:test";

import { status } from "@grpc/grpc-js";

import type { Run, Subscription } from "../src/index.js";
import { CompletionResult, LossReason, LostError, Reason, RefusedError, RunKind } from "../src/index.js";
import { Lost, Recorded, Run as WireRun, Standby } from "../src/proto.js";
import type { Runs, ScheduleEvent as Told, SubscribeCall } from "./fake-sidecar.js";
import { Bench, GONE, LOST, OURS, PATIENCE_MS, eventually, grant, next, refusal, validity } from "./fake-sidecar.js";

const NIGHTLY: Subscription = { function: "nightly", cron: "30 2 * * *", timeZone: "Europe/Copenhagen" };
const SHORT = { timeout: PATIENCE_MS };
const STANDBY: Told = { $case: "standby", value: Standby.create({ understood: {} }) };
const RECORDED: Told = { $case: "recorded", value: Recorded.create({ runId: "run-1" }) };
const RETURNED = "completeRun lease-1 1 run-1 RETURNED";

/** A run of the occurrence at 1.8 s, valid until then on our boot clock. */
function granted(more: Partial<WireRun> = {}, until = 1_058): Told {
  const about = { runId: "run-1", kind: RunKind.SCHEDULED, scheduledAt: new Date(1_800), attempt: 2, maxAttempts: 3 };
  const late = { lateness: { seconds: 4, nanos: 0 }, missedCount: 7 };
  return {
    $case: "run",
    value: WireRun.create({ grant: grant(validity(OURS, until, 58)).value, ...about, ...late, ...more }),
  };
}

function lost(reason: LossReason): Told {
  return { $case: "lost", value: Lost.create({ reason }) };
}

/** A run that has just come, on this stream. */
async function running(bench: Bench, come = granted()): Promise<{ runs: Runs; run: Run; call: SubscribeCall }> {
  const runs = bench.client.runs(NIGHTLY);
  const asking = next(runs);
  const call = await bench.sidecar.subscription();
  call.tell(STANDBY, come);
  return { runs, run: await asking, call };
}

test("t2 t8 t20 a run tells what it is of, and that it should end; and how it has ended", SHORT, async () => {
  await using bench = await Bench.create();
  const { run, call } = await running(bench);
  assert.equal(call.request.key?.function, "nightly");
  assert.deepEqual([run.scheduledAt, run.kind, run.requestId], [new Date(1_800), RunKind.SCHEDULED, undefined]);
  assert.deepEqual([run.attempt, run.maxAttempts, run.missedCount, run.latenessMs], [2, 3, 7, 4_000]);
  const earlier: Told = { $case: "recorded", value: Recorded.create({ runId: "run-0" }) };
  call.tell(earlier, { $case: "draining", value: { timeLeft: undefined } });
  await eventually("it is told", () => run.endingSignal.aborted);
  await assert.rejects(run.complete({ outcome: "succeeded", checkpoint: "x".repeat(2_049) }), RefusedError);
  assert.ok(run.isValid() && !run.signal.aborted, "neither ends anything");
  const nextAt = new Date(3_600);
  bench.sidecar.answers["completeRun"] = [{ result: CompletionResult.RECORDED, nextAt }];
  const completed = run.complete({ outcome: "failed", checkpoint: "page 7", detail: `x${"\u00e9".repeat(300)}` });
  assert.deepEqual(await run.complete({ outcome: "succeeded" }), await completed);
  assert.ok(!run.isValid() && !run.signal.aborted, "S13");
  assert.deepEqual((await completed).nextAt, nextAt);
  assert.deepEqual(bench.sidecar.asked, [`completeRun lease-1 1 run-1 page 7 FAILED x${"\u00e9".repeat(255)}`]);
});

test("t11 a run that its body does not complete is returned, also where the loop is left", SHORT, async () => {
  await using bench = await Bench.create();
  const serving = (async (): Promise<void> => {
    const call = await bench.sidecar.subscription();
    call.tell(STANDBY, granted());
    await eventually("it is returned", () => bench.sidecar.asked.length === 1);
    call.tell(RECORDED, granted());
    await call.ended();
  })();
  let bodies = 0;
  for await (const run of bench.client.runs(NIGHTLY)) {
    assert.ok(run.isValid());
    bodies += 1;
    if (bodies === 2) break;
  }
  await serving;
  assert.deepEqual(bench.sidecar.asked, [RETURNED, RETURNED]);
});

test("t11 a run whose completion cannot be sent is returned, and that ends all", SHORT, async () => {
  await using bench = await Bench.create();
  const checkpoint = "x".repeat(2_049);
  const running = bench.client.every(NIGHTLY, () => Promise.resolve({ outcome: "succeeded", checkpoint }));
  const call = await bench.sidecar.subscription();
  call.tell(STANDBY, granted());
  await assert.rejects(running, { reason: Reason.INVALID_FIELD });
  assert.deepEqual(bench.sidecar.asked, [RETURNED]);
  await call.ended();
});

test("t12 t24 the stream goes on where a loss is told late, or its run is returned after it", SHORT, async () => {
  await using bench = await Bench.create();
  const told = validity(OURS, 1_058, 58);
  const { runs, run, call } = await running(
    bench,
    granted({ deadline: { at: told.validUntil, after: told.validFor } }),
  );
  assert.equal(run.deadlineRemainingMs(), 58_000);
  bench.clock.advance(58);
  assert.equal(run.loss?.reason, LossReason.MAX_HOLD_REACHED);
  await run.failed();
  call.tell(lost(LossReason.MAX_HOLD_REACHED), granted({}, 1_116));
  const second = await next(runs);
  call.tell(lost(LossReason.TAKEN));
  await eventually("it is lost", () => second.signal.aborted);
  const asking = next(runs);
  await eventually("it is returned", () => bench.sidecar.asked.at(-1) === RETURNED);
  call.tell(STANDBY, granted({}, 1_116));
  assert.ok((await asking).isValid() && call.isOpen);
});

test("s37 a sidecar that is older than schedules is found out", SHORT, async () => {
  await using bench = await Bench.create();
  const asking = next(bench.client.runs(NIGHTLY));
  (await bench.sidecar.subscription()).fail(refusal(status.UNIMPLEMENTED, "unknown service"));
  await assert.rejects(asking, { code: status.UNIMPLEMENTED, reason: Reason.UNSUPPORTED, message: /older/ });
});

test("s37 a run is completed at its sidecar, though its stream ended there before it was read", SHORT, async () => {
  await using bench = await Bench.create();
  const { runs, run, call } = await running(bench);
  const { hold, call: other } = await bench.held();
  const there = bench.sidecar;
  await bench.refuseHold();
  await run.succeeded();
  call.tell(RECORDED, granted());
  call.end();
  other.tell(LOST);
  await other.ended();
  // The answer comes after all that, and nothing else keeps the connection then.
  await assert.rejects(hold.release(), LostError);
  const second = await next(runs);
  const { reconnected, runId, resume } = (await bench.sidecar.subscription()).request;
  assert.deepEqual([reconnected, runId, resume?.resumeToken], [true, "run-1", "resume-1"]);
  bench.clock.advance(58);
  assert.ok(!second.isValid());
  there.answers["completeRun"] = [GONE, {}];
  await second.returned();
  const asked = ["completeRun lease-1 1 run-1 SUCCEEDED", "releaseLease lease-1 1", RETURNED, RETURNED];
  assert.deepEqual([there.asked, bench.sidecar.asked], [asked, []]);
  await eventually("nothing keeps the connection that was left", () => there.connections === 0);
});
