// A run as a program in TypeScript has it: loops, getters, functions. What it does is in the vectors.

import assert from "node:assert/strict";

import { status } from "@grpc/grpc-js";

import type { Run, Subscription } from "../src/index.js";
import { CompletionResult, LossReason, LostError, Reason, RefusedError, RunKind } from "../src/index.js";
import type { SubscribeScheduleRequest } from "../src/proto.js";
import type { Said } from "./messages.js";
import { errorOf } from "./messages.js";
import type { Runs, Stage } from "./stage.js";
import { next, settled, staged } from "./stage.js";

const NIGHTLY: Subscription = { function: "nightly", cron: "30 2 * * *", timeZone: "Europe/Copenhagen" };
const STANDBY = { standby: { understood: true } };
const RETURNED = "complete_run 1 RETURNED by 1";

/** What tells a run that is valid for 58 s. */
const granted = ({ now }: Stage, said: Said = {}): Record<string, Said> => ({
  run: { until: now + 58_000, for: 58_000, kind: RunKind.SCHEDULED, attempt: 2, ...said },
});

/** A run that has just come. */
async function running(it: Stage, said: Said = {}): Promise<{ runs: Runs; run: Run }> {
  const runs = it.client.runs(NIGHTLY);
  const asking = next(runs);
  it.sidecar.tell(undefined, { ...STANDBY, ...granted(it, said) });
  return { runs, run: await asking };
}

staged("t2 t8 t20 a run tells what it is of, and that it should end; and how it has ended", async (it) => {
  const { answers, calls } = it.sidecar;
  const said = { maxAttempts: 3, lateness: { seconds: 4, nanos: 0 }, missedCount: 7 };
  const { run } = await running(it, said);
  assert.equal((it.sidecar.on().heard.request as SubscribeScheduleRequest).key?.function, "nightly");
  assert.deepEqual([run.scheduledAt, run.kind, run.requestId], [new Date(1_800_000), RunKind.SCHEDULED, undefined]);
  assert.deepEqual([run.attempt, run.maxAttempts, run.missedCount, run.latenessMs], [2, 3, 7, 4_000]);
  it.sidecar.tell(undefined, { recorded: { runId: "run-0" }, draining: {} });
  await settled();
  assert.ok(run.endingSignal.aborted);
  await assert.rejects(run.complete({ outcome: "succeeded", checkpoint: "x".repeat(2_049) }), RefusedError);
  assert.ok(run.isValid() && !run.signal.aborted, "neither ends anything");
  const nextAt = new Date(3_600);
  answers["complete_run"] = [{ result: CompletionResult.RECORDED, nextAt }];
  const completed = run.complete({ outcome: "failed", checkpoint: "page 7", detail: `x${"\u00e9".repeat(300)}` });
  assert.deepEqual(await run.complete({ outcome: "succeeded" }), await completed);
  assert.ok(!run.isValid() && !run.signal.aborted, "S13");
  assert.deepEqual((await completed).nextAt, nextAt);
  assert.deepEqual(it.sidecar.asked, [`complete_run 1 page 7 FAILED x${"\u00e9".repeat(255)} by 1`]);
  assert.deepEqual(calls[0]?.request, { ...calls[0]?.request, runId: "run-1", leaseId: "lease-1" });
});

staged("t11 a run that its body does not complete is returned, also where the loop is left", async (it) => {
  const { asked } = it.sidecar;
  let bodies = 0;
  const loop = async (): Promise<void> => {
    for await (const run of it.client.runs(NIGHTLY)) {
      assert.ok(run.isValid());
      bodies += 1;
      if (bodies === 2) break;
    }
  };
  const looping = loop();
  it.sidecar.tell(undefined, { ...STANDBY, ...granted(it) });
  await settled();
  assert.deepEqual(asked, [RETURNED]);
  it.sidecar.tell(undefined, { recorded: {}, ...granted(it) });
  await looping;
  assert.deepEqual([asked, it.sidecar.open], [[RETURNED, RETURNED], []]);
});

staged("t11 a run whose completion cannot be sent is returned, and that ends all", async (it) => {
  const checkpoint = "x".repeat(2_049);
  const running = it.client.every(NIGHTLY, () => Promise.resolve({ outcome: "succeeded", checkpoint }));
  it.sidecar.tell(undefined, { ...STANDBY, ...granted(it) });
  await assert.rejects(running, { reason: Reason.INVALID_FIELD });
  await settled();
  assert.deepEqual([it.sidecar.asked, it.sidecar.open], [[RETURNED], []]);
});

staged("t12 t24 a run that is lost at its deadline is returned when the next one is asked for", async (it) => {
  const { runs, run } = await running(it, { deadline: { at: 58_000, after: 58_000 } });
  assert.equal(run.deadlineRemainingMs(), 58_000);
  it.sleep(58_000);
  assert.equal(run.loss?.reason, LossReason.MAX_HOLD_REACHED);
  it.sidecar.tell(undefined, { lost: { reason: "MAX_HOLD_REACHED" } });
  const asking = next(runs);
  await settled();
  assert.deepEqual(it.sidecar.asked, [RETURNED]);
  it.sidecar.tell(undefined, { ...STANDBY, ...granted(it) });
  assert.ok((await asking).isValid());
  assert.deepEqual(it.sidecar.open, [2]);
});

staged("s37 a sidecar that is older than schedules is found out", async (it) => {
  const asking = next(it.client.runs(NIGHTLY));
  it.sidecar.break(undefined, { code: "UNIMPLEMENTED" });
  await assert.rejects(asking, { code: status.UNIMPLEMENTED, reason: Reason.UNSUPPORTED, message: /older/ });
});

staged("s37 a run is completed at its sidecar, though its stream ended there before it was read", async (it) => {
  const { answers, asked, connections } = it.sidecar;
  const { runs, run } = await running(it);
  const hold = await it.held();
  await it.leave();
  await run.succeeded();
  it.sidecar.tell(1, { recorded: {}, ...granted(it) });
  it.sidecar.on(1).end();
  it.sidecar.tell(2, { lost: {} });
  await settled();
  // The answer comes after all that, and nothing else keeps the connection then.
  await assert.rejects(hold.release(), LostError);
  const second = await next(runs);
  await settled();
  const { reconnected, runId, resume } = it.sidecar.on().heard.request as SubscribeScheduleRequest;
  assert.deepEqual([reconnected, runId, resume?.resumeToken], [true, "run-1", "resume-1"]);
  it.sleep(58_000);
  assert.ok(!second.isValid());
  answers["complete_run"] = [errorOf({ code: "UNAVAILABLE" }), { result: CompletionResult.RECORDED }];
  await Promise.all([second.returned(), it.reach(it.now + 50)]);
  assert.deepEqual(asked, ["complete_run 1 SUCCEEDED by 1", "release 1 by 1", RETURNED, RETURNED]);
  await it.reach(it.now + 5_000);
  assert.ok(!connections.has(1), "nothing keeps the connection that was left");
});
