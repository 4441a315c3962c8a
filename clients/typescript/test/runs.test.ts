// Runs of a schedule. What goes well is in tests/clients, too.

import assert from "node:assert/strict";
import { test } from "node:test";

import { status } from "@grpc/grpc-js";

import type { HoldEvent, Run, RunsOptions, ScheduleEvent, Subscription } from "../src/index.js";
import { CompletionResult, LossReason, Reason, RefusedError, RunKind } from "../src/index.js";
import { Lost, Recorded, Renewed, Run as WireRun, RunOutcome, Standby } from "../src/proto.js";
import type { ScheduleEvent as Told, SubscribeCall } from "./fake-sidecar.js";
import {
  Bench,
  GONE,
  Inbox,
  OURS,
  PATIENCE_MS,
  TOO_OLD,
  eventually,
  grant,
  refusal,
  validity,
} from "./fake-sidecar.js";

const NIGHTLY: Subscription = { function: "nightly", cron: "30 2 * * *", timeZone: "Europe/Copenhagen" };
const SHORT = { timeout: PATIENCE_MS };
const UNDERSTOOD = { expression: "30 2 * * *", timeZone: "Europe/Copenhagen", description: "", zoneData: "2026b" };
const STANDBY: Told = { $case: "standby", value: Standby.create({ understood: UNDERSTOOD, nextAt: new Date(1_800) }) };
const ended = { runId: "run-1", outcome: RunOutcome.SUCCEEDED, result: CompletionResult.RECORDED };
const RECORDED: Told = { $case: "recorded", value: Recorded.create(ended) };
const NOT_OURS = refusal(status.INVALID_ARGUMENT, "run_id is not one of ours");

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

type Runs = AsyncGenerator<Run, void, undefined>;

async function next(runs: Runs): Promise<Run> {
  const { value } = await runs.next();
  assert.ok(value !== undefined);
  return value;
}

/** A run that has just come, on this stream. */
async function running(
  bench: Bench,
  options: RunsOptions = {},
  come = granted(),
): Promise<{ runs: Runs; run: Run; call: SubscribeCall }> {
  const runs = bench.client.runs(NIGHTLY, options);
  const asking = next(runs);
  const call = await bench.sidecar.subscription();
  call.tell(STANDBY, come);
  return { runs, run: await asking, call };
}

test("t2 a run tells what it is of, its outcome is recorded, and the stream goes on", SHORT, async () => {
  await using bench = await Bench.create();
  const { runs, run, call } = await running(bench);
  assert.deepEqual([call.request.key?.function, call.request.reconnected], ["nightly", false]);
  assert.deepEqual([run.scheduledAt, run.kind, run.requestId], [new Date(1_800), RunKind.SCHEDULED, undefined]);
  assert.deepEqual([run.attempt, run.maxAttempts, run.missedCount, run.latenessMs], [2, 3, 7, 4_000]);
  await assert.rejects(run.complete({ outcome: "succeeded", checkpoint: "x".repeat(2_049) }), RefusedError);
  assert.ok(run.isValid(), "a checkpoint that is too long ends nothing");
  const nextAt = new Date(3_600);
  bench.sidecar.answers["completeRun"] = [{ result: CompletionResult.RECORDED, nextAt }, {}];
  const completed = await run.complete({ outcome: "succeeded", checkpoint: "page 7" });
  assert.ok(!run.isValid() && !run.signal.aborted, "S13");
  assert.deepEqual([completed.result, completed.nextAt], [CompletionResult.RECORDED, nextAt]);
  call.tell(RECORDED, STANDBY, granted({ attempt: 3 }));
  const second = await next(runs);
  // The next one comes before the answer to the completion.
  call.tell(RECORDED, STANDBY, granted({ attempt: 4 }));
  await second.failed(`x${"\u00e9".repeat(300)}`);
  assert.equal((await next(runs)).attempt, 4);
  assert.ok(call.isOpen);
  const first = "completeRun lease-1 1 run-1 page 7 SUCCEEDED";
  assert.deepEqual(bench.sidecar.asked, [first, `completeRun lease-1 1 run-1 FAILED x${"\u00e9".repeat(255)}`]);
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
  assert.deepEqual(bench.sidecar.asked, Array(2).fill("completeRun lease-1 1 run-1 RETURNED"));
});

test(
  "s37 a sidecar that is older than schedules is found out, and one that refuses for good ends it",
  SHORT,
  async () => {
    await using bench = await Bench.create();
    const asking = next(bench.client.runs(NIGHTLY));
    (await bench.sidecar.subscription()).fail(refusal(status.UNIMPLEMENTED, "unknown service"));
    await assert.rejects(asking, { code: status.UNIMPLEMENTED, reason: Reason.UNSUPPORTED, message: /older/ });
    const again = next(bench.client.runs(NIGHTLY));
    const call = await bench.sidecar.subscription();
    call.tell(STANDBY);
    call.fail(refusal(status.PERMISSION_DENIED, "no"));
    await assert.rejects(again, { code: status.PERMISSION_DENIED });
  },
);

test("t16 s37 a subscriber tries on past a sidecar that is too old, and comes back as no new one", SHORT, async () => {
  for (const isHeard of [false, true]) {
    await using bench = await Bench.create();
    const events = new Inbox<ScheduleEvent>();
    const asking = next(bench.client.runs(NIGHTLY, { onEvent: (event) => void events.items.push(event) }));
    const there = await bench.sidecar.subscription();
    if (isHeard) there.tell(STANDBY);
    if (isHeard) assert.equal((await events.next("it is understood")).type, "subscribed");
    const sidecar = await bench.restart();
    there.fail(TOO_OLD);
    const again = await sidecar.subscription();
    assert.deepEqual([again.request.reconnected, again.request.resume], [isHeard, undefined]);
    again.tell(granted());
    assert.ok((await asking).isValid());
    assert.deepEqual(events.items.at(-1), { type: "interrupted", detail: "2 and 1" });
  }
});

test("s37 a run is completed at its sidecar, also when its stream has ended there", SHORT, async () => {
  await using bench = await Bench.create();
  const { run, call } = await running(bench);
  const there = bench.sidecar;
  const holding = bench.client.hold({ function: "f", waitMs: 30_000 });
  const refused = await there.hold();
  const elsewhere = await bench.restart();
  refused.fail(TOO_OLD);
  (await elsewhere.hold()).tell(grant(validity(OURS, 1_058, 58)));
  await (await holding).release();
  call.fail(GONE);
  await elsewhere.subscription();
  bench.clock.advance(58);
  assert.ok(!run.isValid());
  there.answers["completeRun"] = [GONE, {}];
  await run.returned();
  assert.deepEqual(there.asked, Array(2).fill("completeRun lease-1 1 run-1 RETURNED"));
  assert.deepEqual(elsewhere.asked, ["releaseLease lease-1 1"]);
  await eventually("nothing keeps the connection that was left", () => there.connections === 0);
});

test("a run that comes too late is returned, and one that is resumed leaves its connection", SHORT, async () => {
  await using bench = await Bench.create();
  const events = new Inbox<HoldEvent>();
  const runs = bench.client.runs(NIGHTLY, { onHoldEvent: (event) => void events.items.push(event) });
  const asking = next(runs);
  const there = bench.sidecar;
  const call = await there.subscription();
  call.tell(STANDBY);
  bench.clock.advance(60);
  call.tell(granted(), { $case: "renewed", value: Renewed.create() }, granted({}, 1_118));
  const run = await asking;
  assert.deepEqual(there.asked, ["completeRun lease-1 1 run-1 RETURNED"]);
  const sidecar = await bench.restart();
  call.fail(TOO_OLD);
  assert.equal((await events.next("it is told")).type, "interrupted");
  const again = await sidecar.subscription();
  const { reconnected, runId, resume } = again.request;
  assert.deepEqual([reconnected, runId, resume?.resumeToken], [true, "run-1", "resume-1"]);
  again.tell(granted({ grant: grant(validity(OURS, 1_118, 58), { generation: 2 }).value }));
  assert.equal((await events.next("it is told")).type, "resumed");
  await eventually("nothing keeps the connection that was left", () => there.connections === 0);
  await run.succeeded();
  assert.deepEqual(sidecar.asked, ["completeRun lease-1 2 run-1 SUCCEEDED"]);
  again.tell(RECORDED, granted({}, 1_118));
  assert.ok((await next(runs)).isValid());
});

test("t24 a run that was lost is returned when the next one is asked for, on the same stream", SHORT, async () => {
  await using bench = await Bench.create();
  const { runs, run, call } = await running(bench);
  call.tell(lost(LossReason.TAKEN));
  await eventually("it is lost", () => run.signal.aborted);
  assert.equal(run.loss?.reason, LossReason.TAKEN);
  const asking = next(runs);
  await eventually("it is told", () => bench.sidecar.asked.length === 1);
  assert.deepEqual(bench.sidecar.asked, ["completeRun lease-1 1 run-1 RETURNED"]);
  call.tell(STANDBY, granted());
  assert.ok((await asking).isValid() && call.isOpen);
});

test("t12 a deadline that the sidecar tells after the clock does not end the stream", SHORT, async () => {
  await using bench = await Bench.create();
  const told = validity(OURS, 1_058, 58);
  const deadline = { at: told.validUntil, after: told.validFor };
  const { runs, run, call } = await running(bench, {}, granted({ deadline }));
  assert.equal(run.deadlineRemainingMs(), 58_000);
  bench.clock.advance(58);
  assert.equal(run.loss?.reason, LossReason.MAX_HOLD_REACHED);
  await run.complete({ outcome: "failed" });
  call.tell(lost(LossReason.MAX_HOLD_REACHED), granted({}, 1_116));
  assert.ok((await next(runs)).isValid() && call.isOpen);
});

test("t8 t24 a completion is repeated until it is answered; one in vain ends the stream", SHORT, async () => {
  await using bench = await Bench.create();
  const { runs, run, call } = await running(bench);
  bench.sidecar.answers["completeRun"] = [GONE, GONE, { result: CompletionResult.RECORDED_LATE }, NOT_OURS];
  bench.clock.advance(58);
  assert.ok(!run.isValid());
  assert.equal((await run.succeeded()).result, CompletionResult.RECORDED_LATE);
  assert.equal(bench.sidecar.asked.length, 3);
  call.tell(granted({}, 1_116));
  const second = await next(runs);
  await assert.rejects(second.succeeded(), RefusedError);
  const asking = next(runs);
  await call.ended();
  const again = await bench.sidecar.subscription();
  assert.ok(again.request.reconnected);
  again.tell(STANDBY, granted({}, 1_116));
  assert.ok((await asking).isValid());
});

test("the waiting between runs ends with the signal's reason, and the stream with it", SHORT, async () => {
  await using bench = await Bench.create();
  const stop = new AbortController();
  const asking = next(bench.client.runs(NIGHTLY, { signal: stop.signal }));
  const call = await bench.sidecar.subscription();
  const boom = new Error("enough");
  stop.abort(boom);
  await assert.rejects(asking, boom);
  await call.ended();
});

test("t11 a run whose completion cannot be sent is returned, and that ends all", SHORT, async () => {
  await using bench = await Bench.create();
  const checkpoint = "x".repeat(2_049);
  const running = bench.client.every(NIGHTLY, () => Promise.resolve({ outcome: "succeeded", checkpoint }));
  const call = await bench.sidecar.subscription();
  call.tell(STANDBY, granted());
  await assert.rejects(running, { reason: Reason.INVALID_FIELD });
  assert.deepEqual(bench.sidecar.asked, ["completeRun lease-1 1 run-1 RETURNED"]);
  await call.ended();
});

test("t20 a run is told gently that it should end", SHORT, async () => {
  await using bench = await Bench.create();
  const { run, call } = await running(bench);
  call.tell({ $case: "draining", value: { timeLeft: undefined } });
  await eventually("it is told", () => run.endingSignal.aborted);
  assert.ok(run.isValid() && !run.signal.aborted);
});
