import assert from "node:assert/strict";
import { test } from "node:test";

import { status } from "@grpc/grpc-js";

import { Reason, LossReason, RefusedError } from "../src/index.js";
import type { Completion, Run, Subscription } from "../src/index.js";
import { Lost } from "../src/proto.js";
import type { RunWork } from "../src/runs/every.js";
import { every } from "../src/runs/every.js";
import { Runs } from "../src/runs/runs.js";
import type { SubscribeCall } from "./fake-schedules.js";
import { STANDBY, granted } from "./fake-schedules.js";
import { Bench, Inbox, PATIENCE_MS, eventually, refusal } from "./fake-sidecar.js";

const NIGHTLY: Subscription = { function: "nightly", cron: "30 2 * * *" };
const SHORT = { timeout: PATIENCE_MS };

/** A caller at work, which takes no time to wait. */
interface Working {
  readonly done: Promise<void>;
  readonly stop: AbortController;
  readonly begun: Inbox<Run>;
  readonly pauses: number[];
}

function working(bench: Bench, work: RunWork): Working {
  const stop = new AbortController();
  const begun = new Inbox<Run>();
  const pauses: number[] = [];
  const noted = async (run: Run, signal: AbortSignal): Promise<Completion | undefined> => {
    begun.items.push(run);
    return (await work(run, signal)) as Completion | undefined;
  };
  const run = async (): Promise<void> => {
    const rpc = (bench.client as unknown as { readonly rpc: ConstructorParameters<typeof Runs>[0] }).rpc;
    const runs = new Runs(rpc, new Set(), NIGHTLY, { signal: stop.signal });
    const sleep = (ms: number): Promise<void> => {
      pauses.push(ms);
      return Promise.resolve();
    };
    await every({ rpc, runs, work: noted, signal: stop.signal }, { sleep, random: () => 0.5 });
  };
  return { done: run(), stop, begun, pauses };
}

async function granting(bench: Bench): Promise<SubscribeCall> {
  const call = await bench.sidecar.schedules.subscription();
  call.tell(STANDBY, granted());
  return call;
}

/** Goes on until its signal aborts, and fails then. */
async function untilAborted(_run: Run, signal: AbortSignal): Promise<void> {
  await new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => {
      reject(signal.reason as Error);
    });
  });
}

test("what the work gives is the outcome, and another run follows", SHORT, async () => {
  const cases: [RunWork, string][] = [
    [() => Promise.resolve(), "SUCCEEDED"],
    [() => Promise.reject(new Error("no disk")), "FAILED no disk"],
    [() => Promise.resolve({ outcome: "failedFinal", detail: "no user" }), "FAILED_FINAL no user"],
  ];
  for (const [work, outcome] of cases) {
    await using bench = await Bench.create();
    const { done, stop, begun } = working(bench, work);
    const call = await granting(bench);
    const first = await begun.next("it begins");
    await eventually("it is completed", () => bench.sidecar.schedules.completed.length === 1);
    assert.deepEqual(bench.sidecar.schedules.outcomes, [outcome]);
    assert.ok(!first.isValid(), "S13");
    call.tell(granted());
    await begun.next("the next begins");
    stop.abort();
    await done;
    await call.ended();
  }
});

test("t24 the work's signal aborts when the run is lost, which is returned, and another follows", SHORT, async () => {
  await using bench = await Bench.create();
  const { done, stop, begun } = working(bench, untilAborted);
  const call = await granting(bench);
  const first = await begun.next("it begins");
  call.tell({ $case: "lost", value: Lost.create({ reason: LossReason.TAKEN }) }, granted());
  await begun.next("the next begins");
  assert.equal(first.loss?.reason, LossReason.TAKEN);
  assert.deepEqual(bench.sidecar.schedules.outcomes, ["RETURNED"]);
  stop.abort();
  await done;
});

test("t11 a run whose caller is told to stop is returned", SHORT, async () => {
  await using bench = await Bench.create();
  const { done, stop, begun } = working(bench, untilAborted);
  await granting(bench);
  const run = await begun.next("it begins");
  stop.abort();
  await done;
  assert.ok(!run.isValid());
  assert.deepEqual(bench.sidecar.schedules.outcomes, ["RETURNED"]);
});

test("it goes on while no sidecar answers, and ends where that does not help", SHORT, async () => {
  await using bench = await Bench.create();
  const { done, pauses } = working(bench, () => Promise.resolve());
  const rejected = assert.rejects(done, (error) => {
    assert.ok(error instanceof RefusedError);
    assert.equal(error.reason, Reason.INVALID_FIELD);
    return true;
  });
  for (let tries = 0; tries < 3; tries += 1) {
    (await bench.sidecar.schedules.subscription()).fail(refusal(status.UNAVAILABLE, "not yet"));
  }
  const invalid = refusal(status.INVALID_ARGUMENT, "spec.cron", { reason: "INVALID_FIELD" });
  (await bench.sidecar.schedules.subscription()).fail(invalid);
  await rejected;
  assert.deepEqual(pauses, [550, 1_050, 2_050]);
});

test("a stop does not wait without end for a completion that nobody answers", SHORT, async () => {
  await using bench = await Bench.create();
  bench.client.close();
  bench.client = await bench.another({ releaseTimeoutMs: 50 });
  const { done, stop } = working(bench, () => Promise.resolve());
  const away = Array.from({ length: 1_000 }, () => refusal(status.UNAVAILABLE, "the store is away"));
  bench.sidecar.schedules.completions.push(...away);
  await granting(bench);
  await eventually("it is asked", () => bench.sidecar.schedules.completed.length > 0);
  stop.abort();
  await done;
});

test("the client's own method takes part until its signal aborts", SHORT, async () => {
  await using bench = await Bench.create();
  const stop = new AbortController();
  const tokens: number[] = [];
  const work: RunWork = (run) => {
    tokens.push(run.fencingToken);
    stop.abort();
    return Promise.resolve();
  };
  const done = bench.client.every(NIGHTLY, work, { signal: stop.signal });
  const call = await granting(bench);
  await done;
  await call.ended();
  assert.deepEqual([tokens, bench.sidecar.schedules.outcomes], [[65_536], ["SUCCEEDED"]]);
});
