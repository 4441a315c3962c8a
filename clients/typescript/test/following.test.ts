// Leads term after term, and runs a function on each occurrence: loops over what is held, with pauses that take no time.

import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";

import { status } from "@grpc/grpc-js";

import type { Rpc } from "../src/connect/rpc.js";
import type { Pacing } from "../src/hold/lead.js";
import { lead, leadPauseMs } from "../src/hold/lead.js";
import type { Completion, Hold, RefusedError, Run } from "../src/index.js";
import { BusyError, LossReason, LostError } from "../src/index.js";
import { Busy } from "../src/proto.js";
import type { RunWork } from "../src/runs/every.js";
import { every } from "../src/runs/every.js";
import type { Runs } from "../src/runs/runs.js";
import { refused } from "../src/errors/refusal.js";
import { settled, staged } from "./stage.js";
import { refusal } from "./tools.js";

const BOOM = new Error("boom");
const RPC = { isClosed: false, limits: { releaseMs: 50 } } as unknown as Rpc;
const errorOf = (code: status): RefusedError => refused(Object.assign(new Error("no"), refusal(code, "no")));
const AWAY = errorOf(status.UNAVAILABLE);
const DENIED = errorOf(status.PERMISSION_DENIED);

/** Notes the pauses, and takes no time. */
function noted(pauses: number[]): Pacing {
  const sleep = (ms: number): Promise<void> => {
    pauses.push(ms);
    return Promise.resolve();
  };
  return { sleep, random: () => 0.5 };
}

/** Gives one after the other; throws those that are errors. */
function inTurn<T>(outcomes: (T | Error)[]): () => Promise<T> {
  return () => {
    const outcome = outcomes.shift();
    return outcome instanceof Error ? Promise.reject(outcome) : Promise.resolve(outcome as T);
  };
}

test("the pause between terms lies between 0.1 and 1 s, and grows to 10 s with failures", () => {
  assert.deepEqual([leadPauseMs(0, 0), leadPauseMs(0, 0.5), leadPauseMs(0, 1)], [100, 550, 1_000]);
  assert.deepEqual([leadPauseMs(1, 0), leadPauseMs(1, 1)], [100, 2_000]);
  assert.deepEqual([leadPauseMs(2_000, 0), leadPauseMs(2_000, 1)], [100, 10_000]);
});

/** Leads over these terms and failures until a body leaves, throws, or no more is granted; what was done is noted. */
async function leads(
  outcomes: (string | Error)[],
  body: (term: string) => boolean,
  isClosed = false,
): Promise<unknown[]> {
  const [did, pauses]: [unknown[], number[]] = [[], []];
  const term = (name: string): Hold => {
    const release = (): Promise<void> => {
      did.push(`release ${name}`);
      return name.includes("in vain") ? Promise.reject(AWAY) : Promise.resolve();
    };
    return { lockPath: name, release } as unknown as Hold;
  };
  const open = inTurn(outcomes.map((outcome) => (outcome instanceof Error ? outcome : term(outcome))));
  try {
    for await (const { lockPath } of lead({ open, isClosed: () => isClosed, signal: undefined }, noted(pauses))) {
      if (!body(lockPath)) break;
    }
    return [...did, ...pauses];
  } catch (error) {
    return [...did, ...pauses, error];
  }
}

const stays = (): boolean => true;
const leaves = (): boolean => false;
const throws = (): boolean => {
  throw BOOM;
};
const [lost, busy] = [new LostError({ reason: LossReason.TAKEN, detail: "" }), new BusyError(Busy.create())];

test("who leads leads again after a term, and tells what a release throws where it leaves", async () => {
  for (const [outcomes, body, did, isClosed] of [
    [["1", "2 in vain", DENIED], stays, ["release 1", "release 2 in vain", 550, 550, DENIED]],
    [["1"], leaves, ["release 1"]],
    [["1 in vain"], leaves, ["release 1 in vain", AWAY]],
    [["1"], throws, ["release 1", BOOM]],
    [[AWAY, lost, busy, "1"], leaves, ["release 1", 1_050, 2_050, 4_050]],
    [[AWAY, AWAY, "1", DENIED], stays, ["release 1", 1_050, 2_050, 550, DENIED]],
    [[AWAY], stays, [AWAY], true],
  ] as [(string | Error)[], () => boolean, unknown[], boolean?][]) {
    assert.deepEqual(await leads(outcomes, body, isClosed), did);
  }
});

staged("work runs in each term until one ends it", async (it) => {
  const { client, sidecar } = it;
  const work = async (signal: AbortSignal): Promise<string> => {
    const term = sidecar.streams.length;
    if (term === 3) return "done";
    if (term === 4) throw BOOM;
    sidecar.tell(undefined, { lost: {} });
    await settled();
    if (term === 1) signal.throwIfAborted();
    return "ended by its signal";
  };
  /** Grants the term that is asked for, once the longest pause between terms is over. */
  const grant = async (): Promise<void> => {
    await it.reach(it.now + 1_000);
    sidecar.tell(undefined, { granted: { until: it.now + 58_000, for: 58_000 } });
    await settled();
  };
  const leading = client.withTerms({ function: "f" }, work);
  for (let term = 1; term <= 3; term += 1) await grant();
  assert.equal(await leading, "done");
  const failing = assert.rejects(client.withTerms({ function: "f" }, work), BOOM);
  await grant();
  await failing;
  const stop = new AbortController();
  const stopped = assert.rejects(client.withTerms({ function: "f" }, work, { signal: stop.signal }), BOOM);
  stop.abort(BOOM);
  await stopped;
  assert.deepEqual(sidecar.asked, Array(4).fill("release 1 by 1"));
});

type Work = (signal: AbortSignal, stop: AbortController) => Completion | undefined;
const done: Work = () => undefined;
const fails: Work = () => {
  throw BOOM;
};
const heeds: Work = (signal) => {
  signal.throwIfAborted();
  return undefined;
};
const stops: Work = (signal, stop) => {
  stop.abort(BOOM);
  return heeds(signal, stop);
};
const inVain = (): Promise<void> => Promise.reject(AWAY);
/** Nobody answers: it is given up a while after the stop. */
const unanswered = async (giveUp: AbortSignal, stop: AbortController): Promise<void> => {
  stop.abort();
  if (!giveUp.aborted) await once(giveUp, "abort");
  throw giveUp.reason;
};
const isOver = (reason: LossReason): object => ({ loss: { reason, detail: "" }, signal: AbortSignal.abort(BOOM) });

/** The work on a run, the completion that comes of it, and what else is so; `ends` is how all ends, if not by the next. */
const RUNS: readonly [Work, Completion, { run?: object; complete?: typeof unanswered; ends?: Error | undefined }][] = [
  [done, { outcome: "succeeded" }, {}],
  [fails, { outcome: "failed", detail: "boom" }, {}],
  [() => ({ outcome: "failedFinal" }), { outcome: "failedFinal" }, {}],
  [fails, { outcome: "returned" }, { run: isOver(LossReason.TAKEN), complete: inVain }],
  [heeds, { outcome: "failedFinal", detail: "stopped at its deadline" }, { run: isOver(LossReason.MAX_HOLD_REACHED) }],
  [stops, { outcome: "returned" }, { ends: undefined }],
  [done, { outcome: "succeeded" }, { complete: inVain, ends: AWAY }],
  [done, { outcome: "succeeded" }, { complete: unanswered, ends: undefined }],
];

test("t8 t11 t12 t24 what the work gives is the outcome of the run, and another follows unless it is to stop", async () => {
  for (const [work, completion, { run = {}, complete, ...more }] of RUNS) {
    const stop = new AbortController();
    const told: Completion[] = [];
    const given = {
      signal: new AbortController().signal,
      leave: () => Promise.resolve(),
      complete: async (said: Completion, { signal }: { signal: AbortSignal }) => {
        told.push(said);
        await complete?.(signal, stop);
      },
      ...run,
    } as unknown as Run;
    let closed = 0;
    const runs = { next: inTurn([given, DENIED]), close: () => (closed += 1) } as unknown as Runs;
    const working: RunWork = (_run, signal) => Promise.resolve().then(() => work(signal, stop));
    const worker = { rpc: RPC, runs, work: working, signal: stop.signal };
    const error: unknown = await every(worker, noted([])).catch((thrown: unknown) => thrown);
    assert.deepEqual([told, closed, error], [[completion], 1, "ends" in more ? more.ends : DENIED]);
  }
});

test("who runs goes on while no sidecar answers, and ends where that does not help", async () => {
  const pauses: number[] = [];
  const runs = { next: inTurn<Run>([AWAY, AWAY, AWAY, DENIED]), close: () => undefined } as unknown as Runs;
  const worker = { rpc: RPC, runs, work: () => Promise.resolve(), signal: undefined };
  await assert.rejects(every(worker, noted(pauses)), DENIED);
  assert.deepEqual(pauses, [550, 1_050, 2_050]);
});
