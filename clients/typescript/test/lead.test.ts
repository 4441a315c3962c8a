import assert from "node:assert/strict";
import { test } from "node:test";

import { status } from "@grpc/grpc-js";

import type { Hold } from "../src/index.js";
import { LossReason, RefusedError } from "../src/index.js";
import type { Candidate, Pacing } from "../src/hold/lead.js";
import { lead, leadPauseMs } from "../src/hold/lead.js";
import type { HoldCall } from "./fake-sidecar.js";
import { Bench, OURS, PATIENCE_MS, grant, refusal, validity } from "./fake-sidecar.js";

const LOST = { reason: LossReason.TAKEN, detail: "", breakNote: undefined };

/** Notes the pauses, and takes no time. */
function noted(pauses: number[]): Pacing {
  return {
    sleep: (ms) => {
      pauses.push(ms);
      return Promise.resolve();
    },
    random: () => 0.5,
  };
}

function candidate(bench: Bench, signal?: AbortSignal): Candidate {
  const options = signal === undefined ? {} : { signal };
  const open = (): Promise<Hold> => bench.client.hold({ function: "f", waitMs: Infinity }, options);
  return { open, isClosed: () => false, signal };
}

/** Grants so many terms, with tokens from 1 on; gives their calls as they come. */
function granting(bench: Bench, terms: number): HoldCall[] {
  const calls: HoldCall[] = [];
  const serve = async (): Promise<void> => {
    for (let fencingToken = 1; fencingToken <= terms; fencingToken += 1) {
      const call = await bench.sidecar.hold();
      calls.push(call);
      call.tell(grant(validity(OURS, 1_058, 58), { fencingToken }));
    }
  };
  void serve();
  return calls;
}

async function untilLost({ signal }: Hold): Promise<void> {
  await new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener("abort", resolve);
  });
}

test("the pause between terms lies between 0.1 and 1 s, and grows to 10 s with failures", () => {
  assert.deepEqual([leadPauseMs(0, 0), leadPauseMs(0, 0.5), leadPauseMs(0, 1)], [100, 550, 1_000]);
  assert.deepEqual([leadPauseMs(1, 0), leadPauseMs(1, 1)], [100, 2_000]);
  assert.deepEqual([leadPauseMs(2_000, 0), leadPauseMs(2_000, 1)], [100, 10_000]);
});

test("who leads leads again after a loss, and releases what it leaves", { timeout: PATIENCE_MS }, async () => {
  await using bench = await Bench.create();
  const calls = granting(bench, 3);
  const pauses: number[] = [];
  const tokens: number[] = [];
  for await (const term of lead(candidate(bench), noted(pauses))) {
    tokens.push(term.fencingToken);
    if (tokens.length === 1) {
      calls[0]?.tell({ $case: "lost", value: LOST });
      await untilLost(term);
    }
    if (tokens.length === 3) break;
  }
  assert.deepEqual(tokens, [1, 2, 3]);
  // The first was lost; the second was released by the end of the body, the third by leaving the loop.
  // The lost term says that it knows (S13).
  assert.deepEqual(bench.sidecar.script.asked, Array(3).fill("release lease-1 of generation 1"));
  assert.deepEqual(pauses, [550, 550]);
});

test("a body that throws ends the leading with its error, and the term", { timeout: PATIENCE_MS }, async () => {
  await using bench = await Bench.create();
  granting(bench, 1);
  const boom = new Error("boom");
  const leading = async (): Promise<void> => {
    for await (const term of lead(candidate(bench), noted([]))) {
      assert.ok(term.isValid());
      throw boom;
    }
  };
  await assert.rejects(leading(), boom);
  assert.deepEqual(bench.sidecar.script.asked, ["release lease-1 of generation 1"]);
});

test("a failed release where the loop is left is told, and no term follows", { timeout: PATIENCE_MS }, async () => {
  await using bench = await Bench.create();
  granting(bench, 1);
  bench.sidecar.script.release = refusal(status.UNAVAILABLE, "not now");
  const leading = async (): Promise<void> => {
    for await (const term of lead(candidate(bench), noted([]))) {
      assert.equal(term.fencingToken, 1);
      break;
    }
  };
  await assert.rejects(leading(), RefusedError);
  assert.equal(bench.sidecar.holds.items.length, 0);
});

test("who leads goes on while the store is away, and not when it is refused", { timeout: PATIENCE_MS }, async () => {
  await using bench = await Bench.create();
  const away = refusal(status.UNAVAILABLE, "no store", { reason: "STORE_UNAVAILABLE" });
  const serve = async (): Promise<void> => {
    for (const told of [away, away]) (await bench.sidecar.hold()).fail(told);
    granting(bench, 1);
    // After that term.
    await new Promise<void>((resolve) => (bench.sidecar.script.onRelease = resolve));
    (await bench.sidecar.hold()).fail(refusal(status.PERMISSION_DENIED, "no", { reason: "ACCESS_DENIED" }));
  };
  void serve();
  const pauses: number[] = [];
  let terms = 0;
  const leading = async (): Promise<void> => {
    for await (const term of lead(candidate(bench), noted(pauses))) terms += term.fencingToken;
  };
  await assert.rejects(leading(), { reason: "ACCESS_DENIED" });
  assert.equal(terms, 1);
  assert.deepEqual(pauses, [1_050, 2_050, 550]);
});

test("who is cancelled while it waits leads no more", { timeout: PATIENCE_MS }, async () => {
  await using bench = await Bench.create();
  const abort = new AbortController();
  const enough = new Error("enough");
  const next = lead(candidate(bench, abort.signal), noted([])).next();
  const call = await bench.sidecar.hold();
  abort.abort(enough);
  await assert.rejects(next, enough);
  await call.ended();
});

test("a client that is closed leads no more", { timeout: PATIENCE_MS }, async () => {
  await using bench = await Bench.create();
  granting(bench, 1);
  const leading = async (): Promise<void> => {
    for await (const term of bench.client.lead({ function: "f" })) {
      bench.client.close();
      assert.ok(!term.isValid());
    }
  };
  await assert.rejects(leading(), { name: "RefusedError", code: status.CANCELLED });
});

test("work runs in each term until one ends it", { timeout: PATIENCE_MS }, async () => {
  await using bench = await Bench.create();
  const calls = granting(bench, 3);
  const work = async (signal: AbortSignal, term: Hold): Promise<string> => {
    if (term.fencingToken === 3) return "done";
    calls[term.fencingToken - 1]?.tell({ $case: "lost", value: LOST });
    await untilLost(term);
    if (term.fencingToken === 1) signal.throwIfAborted();
    return "ended by its signal";
  };
  assert.equal(await bench.client.withTerms({ function: "f" }, work), "done");
  // The lost terms say that they know (S13).
  assert.deepEqual(bench.sidecar.script.asked, Array(3).fill("release lease-1 of generation 1"));
  granting(bench, 1);
  const boom = new Error("boom");
  const failing = bench.client.withTerms({ function: "f" }, () => {
    throw boom;
  });
  await assert.rejects(failing, boom);
});
