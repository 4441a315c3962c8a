import assert from "node:assert/strict";
import { test } from "node:test";

import { status } from "@grpc/grpc-js";

import { CompletionResult, Reason, LossReason, RefusedError, RunKind } from "../src/index.js";
import type { HoldEvent, Run, RunsOptions, Subscription } from "../src/index.js";
import type { ScheduleEvent } from "../src/index.js";
import { CatchUp, Lost, Overlap, Recorded, Renewed, RunOutcome } from "../src/proto.js";
import { scheduleSpec } from "../src/runs/spec.js";
import type { ScheduleEvent as Told, SubscribeCall } from "./fake-schedules.js";
import { STANDBY, granted } from "./fake-schedules.js";
import { Bench, Inbox, OURS, PATIENCE_MS, TOO_OLD, eventually, grant, refusal, validity } from "./fake-sidecar.js";

const NIGHTLY: Subscription = {
  function: "nightly",
  cron: "30 2 * * *",
  timeZone: "Europe/Copenhagen",
  holder: "me",
};
const SHORT = { timeout: PATIENCE_MS };

const RECORDED: Told = {
  $case: "recorded",
  value: Recorded.create({ runId: "run-1", outcome: RunOutcome.SUCCEEDED, result: CompletionResult.RECORDED }),
};

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
): Promise<{ runs: Runs; run: Run; call: SubscribeCall }> {
  const runs = bench.client.runs(NIGHTLY, options);
  const asking = next(runs);
  const call = await bench.sidecar.schedules.subscription();
  call.tell(STANDBY, granted());
  return { runs, run: await asking, call };
}

test("t2 a run tells what it is of, its outcome is recorded, and the stream goes on", SHORT, async () => {
  await using bench = await Bench.create();
  const { runs, run, call } = await running(bench);
  assert.equal(call.request.key?.function, "nightly");
  assert.ok(!call.request.reconnected);
  assert.deepEqual([run.scheduledAt, run.kind, run.requestId], [new Date(1_800), RunKind.SCHEDULED, undefined]);
  assert.deepEqual([run.attempt, run.maxAttempts, run.missedCount, run.latenessMs], [2, 3, 7, 4_000]);
  assert.deepEqual([run.fencingToken, run.runId, run.isValid()], [65_536, "run-1", true]);
  const completed = await run.complete({ outcome: "succeeded", checkpoint: "page 7" });
  assert.ok(!run.isValid() && !run.signal.aborted, "S13");
  assert.deepEqual([completed.result, completed.nextAt], [CompletionResult.RECORDED, new Date(3_600)]);
  const [asked] = bench.sidecar.schedules.completed;
  assert.deepEqual([asked?.leaseId, asked?.generation, asked?.checkpoint?.toString()], ["lease-1", 1, "page 7"]);
  call.tell(RECORDED, STANDBY, granted({ attempt: 3 }));
  assert.equal((await next(runs)).attempt, 3);
  assert.ok(call.isOpen);
  assert.deepEqual(bench.sidecar.schedules.outcomes, ["SUCCEEDED"]);
});

test("a run that comes before the answer to the completion is not lost", SHORT, async () => {
  await using bench = await Bench.create();
  const { runs, run, call } = await running(bench);
  call.tell(RECORDED, STANDBY, granted({ attempt: 3 }));
  await run.succeeded();
  assert.equal((await next(runs)).attempt, 3);
});

test("t11 a run that its body does not complete is returned, also where the loop is left", SHORT, async () => {
  await using bench = await Bench.create();
  const serving = (async (): Promise<void> => {
    const call = await bench.sidecar.schedules.subscription();
    call.tell(STANDBY, granted());
    await eventually("it is returned", () => bench.sidecar.schedules.completed.length === 1);
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
  assert.deepEqual(bench.sidecar.schedules.outcomes, ["RETURNED", "RETURNED"]);
});

test("s37 a sidecar that is older than schedules is found out", SHORT, async () => {
  await using bench = await Bench.create();
  const rejected = assert.rejects(next(bench.client.runs(NIGHTLY)), (error) => {
    assert.ok(error instanceof RefusedError);
    assert.deepEqual([error.code, error.reason], [status.UNIMPLEMENTED, Reason.UNSUPPORTED]);
    assert.match(error.message, /older/);
    return true;
  });
  (await bench.sidecar.schedules.subscription()).fail(refusal(status.UNIMPLEMENTED, "unknown service"));
  await rejected;
});

test("s37 a sidecar that is too old interrupts a subscription", SHORT, async () => {
  for (const before of [[], [STANDBY]]) {
    await using bench = await Bench.create();
    const events = new Inbox<ScheduleEvent>();
    const asking = next(bench.client.runs(NIGHTLY, { onEvent: (event) => void events.items.push(event) }));
    const there = await bench.sidecar.schedules.subscription();
    await bench.restart();
    there.tell(...before);
    there.fail(TOO_OLD);
    (await bench.sidecar.schedules.subscription()).tell(granted());
    assert.ok((await asking).isValid());
    assert.deepEqual(events.items.at(-1), { type: "interrupted", detail: "2 and 1" });
  }
});

test("s37 a run is completed at its sidecar", SHORT, async () => {
  await using bench = await Bench.create();
  const { run, call } = await running(bench);
  const there = bench.sidecar;
  const { schedules } = there;
  const holding = bench.client.hold({ function: "f", waitMs: 30_000 });
  const refused = await bench.sidecar.hold();
  await bench.restart();
  refused.fail(TOO_OLD);
  (await bench.sidecar.hold()).tell(grant(validity(OURS, 1_058, 58)));
  await (await holding).release();
  call.fail(refusal(status.UNAVAILABLE, "gone"));
  await bench.sidecar.schedules.subscription();
  bench.clock.advance(58);
  assert.ok(!run.isValid());
  schedules.completions.push(refusal(status.UNAVAILABLE, "the store is away"));
  await run.returned();
  assert.deepEqual([schedules.outcomes, bench.sidecar.schedules.outcomes], [["RETURNED", "RETURNED"], []]);
  await eventually("nothing keeps the connection that was left", () => there.connections === 0);
});

test("t16 a subscriber whose sidecar restarts comes back as no new one", SHORT, async () => {
  await using bench = await Bench.create();
  const events = new Inbox<ScheduleEvent>();
  const runs = bench.client.runs(NIGHTLY, { onEvent: (event) => void events.items.push(event) });
  const asking = next(runs);
  const first = await bench.sidecar.schedules.subscription();
  first.tell(STANDBY);
  assert.equal((await events.next("it is understood")).type, "subscribed");
  first.fail(refusal(status.UNAVAILABLE, "shutting down"));
  const second = await bench.sidecar.schedules.subscription();
  assert.ok(second.request.reconnected && second.request.resume === undefined);
  bench.kill();
  await bench.restart();
  const third = await bench.sidecar.schedules.subscription();
  assert.ok(third.request.reconnected);
  third.tell(STANDBY, granted());
  await (await asking).returned();
});

test("s16 a run survives a restart of the sidecar, and its stream goes on", SHORT, async () => {
  await using bench = await Bench.create();
  const events = new Inbox<HoldEvent>();
  const { runs, run } = await running(bench, { onHoldEvent: (event) => void events.items.push(event) });
  bench.kill();
  assert.equal((await events.next("it is told")).type, "interrupted");
  await bench.restart();
  const call = await bench.sidecar.schedules.subscription();
  assert.deepEqual([call.request.reconnected, call.request.runId], [true, "run-1"]);
  assert.equal(call.request.resume?.resumeToken, "resume-1");
  const resumed = grant(validity(OURS, 1_058, 58), { generation: 2, resumeToken: "resume-2" }).value;
  call.tell(granted({ grant: resumed }));
  assert.equal((await events.next("it is told")).type, "resumed");
  await run.succeeded();
  assert.equal(bench.sidecar.schedules.completed[0]?.generation, 2);
  call.tell(RECORDED, granted());
  assert.ok((await next(runs)).isValid());
});

test("s4 a run that is told lost is over, and the stream goes on", SHORT, async () => {
  await using bench = await Bench.create();
  const { runs, run, call } = await running(bench);
  call.tell(lost(LossReason.MAX_HOLD_REACHED));
  await eventually("it is lost", () => run.signal.aborted);
  assert.equal(run.loss?.reason, LossReason.MAX_HOLD_REACHED);
  await run.returned();
  call.tell(STANDBY, granted());
  assert.ok((await next(runs)).isValid());
  assert.ok(call.isOpen && !run.isValid());
});

test("t24 a run that was lost is returned when the next one is asked for", SHORT, async () => {
  await using bench = await Bench.create();
  const { runs, run, call } = await running(bench);
  call.tell(lost(LossReason.TAKEN));
  await eventually("it is lost", () => run.signal.aborted);
  const asking = next(runs);
  await eventually("it is told", () => bench.sidecar.schedules.outcomes.length === 1);
  assert.deepEqual(bench.sidecar.schedules.outcomes, ["RETURNED"]);
  call.tell(STANDBY, granted());
  assert.ok((await asking).isValid());
});

test("t12 a deadline that the sidecar tells after the clock does not end the stream", SHORT, async () => {
  await using bench = await Bench.create();
  const runs = bench.client.runs(NIGHTLY);
  const asking = next(runs);
  const call = await bench.sidecar.schedules.subscription();
  const told = validity(OURS, 1_058, 58);
  const maxHoldEnds = { at: told.validUntil, after: told.validFor };
  call.tell(STANDBY, granted({ grant: grant(told, { maxHoldEnds }).value }));
  const run = await asking;
  assert.equal(run.deadlineRemainingMs(), 58_000);
  bench.clock.advance(58);
  assert.equal(run.loss?.reason, LossReason.MAX_HOLD_REACHED);
  assert.ok(run.signal.aborted);
  await run.complete({ outcome: "failed" });
  call.tell(lost(LossReason.MAX_HOLD_REACHED), granted({}, 1_116));
  assert.ok((await next(runs)).isValid());
  assert.ok(call.isOpen);
});

test("s13 t24 a run that is over here only, and of which nothing was said, ends its stream", SHORT, async () => {
  await using bench = await Bench.create();
  const { runs, run, call } = await running(bench);
  bench.sidecar.schedules.completions.push(refusal(status.INVALID_ARGUMENT, "run_id is not one of ours"));
  bench.clock.advance(58);
  assert.equal(run.loss?.reason, LossReason.EXPIRED);
  const asking = next(runs);
  await call.ended();
  const again = await bench.sidecar.schedules.subscription();
  assert.ok(again.request.reconnected);
  again.tell(STANDBY, granted({}, 1_116));
  assert.ok((await asking).isValid());
});

test("t8 a completion is repeated until it is answered, also when the hold is over", SHORT, async () => {
  await using bench = await Bench.create();
  const { run, call } = await running(bench);
  const away = refusal(status.UNAVAILABLE, "the store is away");
  bench.sidecar.schedules.completions.push(away, away, CompletionResult.RECORDED_LATE);
  bench.clock.advance(58);
  assert.ok(!run.isValid());
  await call.ended();
  assert.equal((await run.succeeded()).result, CompletionResult.RECORDED_LATE);
  assert.deepEqual(bench.sidecar.schedules.outcomes, ["SUCCEEDED", "SUCCEEDED", "SUCCEEDED"]);
});

test("t8 a completion that is refused is an error, and ends the stream", SHORT, async () => {
  await using bench = await Bench.create();
  const { run, call } = await running(bench);
  bench.sidecar.schedules.completions.push(refusal(status.INVALID_ARGUMENT, "run_id is not one of ours"));
  await assert.rejects(run.succeeded(), RefusedError);
  await call.ended();
});

test("a checkpoint that is too long ends nothing, and a detail that is too long is cut", SHORT, async () => {
  await using bench = await Bench.create();
  const { run } = await running(bench);
  await assert.rejects(run.complete({ outcome: "succeeded", checkpoint: "x".repeat(2_049) }), RefusedError);
  assert.ok(run.isValid());
  await run.failed(`x${"\u00e9".repeat(300)}`);
  assert.equal(bench.sidecar.schedules.completed[0]?.detail, `x${"\u00e9".repeat(255)}`);
});

test("a run that comes too late is returned", SHORT, async () => {
  await using bench = await Bench.create();
  const runs = bench.client.runs(NIGHTLY);
  const asking = next(runs);
  const call = await bench.sidecar.schedules.subscription();
  call.tell(STANDBY);
  bench.clock.advance(60);
  call.tell(granted(), { $case: "renewed", value: Renewed.create() }, granted({}, 1_118));
  const run = await asking;
  assert.ok(run.isValid());
  const there = bench.sidecar;
  assert.deepEqual(there.schedules.outcomes, ["RETURNED"]);
  await bench.restart();
  call.fail(TOO_OLD);
  const resumed = await bench.sidecar.schedules.subscription();
  resumed.tell(granted({ grant: grant(validity(OURS, 1_118, 58), { generation: 2 }).value }));
  await eventually("nothing keeps the connection that was left", () => there.connections === 0);
  await run.succeeded();
});

test("t20 a run is told gently that it should end", SHORT, async () => {
  await using bench = await Bench.create();
  const { run, call } = await running(bench);
  call.tell({ $case: "draining", value: { timeLeft: undefined } });
  await eventually("it is told", () => run.endingSignal.aborted);
  assert.ok(run.isValid() && !run.signal.aborted);
});

test("the waiting between runs ends with the signal's reason, and the stream with it", SHORT, async () => {
  await using bench = await Bench.create();
  const stop = new AbortController();
  const asking = next(bench.client.runs(NIGHTLY, { signal: stop.signal }));
  const call = await bench.sidecar.schedules.subscription();
  const boom = new Error("enough");
  stop.abort(boom);
  await assert.rejects(asking, boom);
  await call.ended();
});

test("every call about schedules reaches the sidecar", SHORT, async () => {
  await using bench = await Bench.create();
  const { client } = bench;
  assert.equal((await client.getSchedule({ function: "f" })).lockPath, "f");
  assert.equal((await client.pauseSchedule({ function: "f" }))?.paused, true);
  assert.equal((await client.resumeSchedule({ lockPath: "locks/a" }))?.lockPath, "locks/a");
  assert.deepEqual((await client.triggerSchedule({ function: "f" }, "by-hand"))?.waitingRequestIds, ["by-hand"]);
  assert.equal((await client.removeSchedule({ function: "f" }, "moved", { force: true }))?.lockPath, "f");
  assert.equal((await client.resetSchedule({ function: "f" }, "clock", { revision: 3 }))?.lockPath, "f");
  assert.deepEqual(bench.sidecar.schedules.asked.splice(0), ["remove moved true", "reset clock 3"]);
  const paths: string[] = [];
  for await (const { lockPath } of client.listSchedules({ hostId: "h", pageSize: 7 })) paths.push(lockPath);
  assert.deepEqual(paths, ["h/", "h/second"]);
  assert.deepEqual(bench.sidecar.schedules.asked, ["list 7 ", "list 7 second"]);
  const after = new Date(1_000);
  const { understood, occurrences } = await client.previewSchedule({ cron: "@daily" }, { after, count: 2 });
  assert.deepEqual([understood.zoneData, occurrences.map(({ at }) => at)], ["2026b", [after, after]]);
  await client.completeRun("run-7", { outcome: "failedFinal" });
  assert.equal(bench.sidecar.schedules.completed[0]?.runId, "run-7");
  assert.deepEqual(bench.sidecar.schedules.outcomes, ["FAILED_FINAL"]);
});

test("a spec says all that was asked for, and nothing else", () => {
  const spec = scheduleSpec({
    everyMs: 90_000,
    catchUp: "all",
    catchUpMax: 5,
    overlap: "skip",
    runTimeoutMs: Infinity,
    revision: 7,
  });
  assert.deepEqual(spec.timetable, { $case: "every", value: { seconds: 90, nanos: 0 } });
  assert.deepEqual([spec.catchUp, spec.catchUpMax, spec.overlap], [CatchUp.ALL, 5, Overlap.SKIP]);
  assert.deepEqual([spec.timeout, spec.revision], [{ $case: "noRunTimeout", value: true }, 7]);
  assert.deepEqual([spec.grace, spec.maxAttempts, spec.timeZone], [undefined, 0, ""]);
  assert.throws(() => scheduleSpec({ cron: "@daily", maxAttempts: 1.5 }), RangeError);
});
