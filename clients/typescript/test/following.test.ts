// Leads term after term, and runs a function on each occurrence: loops over what is held.

import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";

import { status } from "@grpc/grpc-js";

import { leadPauseMs } from "../src/hold/lead.js";
import type { Completion, Hold } from "../src/index.js";
import { RefusedError } from "../src/index.js";
import type { Refusing } from "./messages.js";
import { errorOf } from "./messages.js";
import type { Stage } from "./stage.js";
import { settled, staged } from "./stage.js";

const BOOM = new Error("boom");
const AWAY: Refusing = { code: "UNAVAILABLE", reason: "STORE_UNAVAILABLE" };
const DENIED: Refusing = { code: "PERMISSION_DENIED" };
const RELEASED = "release 1 by 1";

test("the pause between terms lies between 0.1 and 1 s, and grows to 10 s with failures", () => {
  assert.deepEqual([leadPauseMs(0, 0), leadPauseMs(0, 0.5), leadPauseMs(0, 1)], [100, 550, 1_000]);
  assert.deepEqual([leadPauseMs(1, 0), leadPauseMs(1, 1)], [100, 2_000]);
  assert.deepEqual([leadPauseMs(2_000, 0), leadPauseMs(2_000, 1)], [100, 10_000]);
});

/** What an asking is answered with: a break, or an event. */
type Answer = Refusing | "granted" | "lost" | "busy";

/** Answers a loop each time that it asks; gives when that was, and what the loop has ended with. */
async function follow(it: Stage, loop: () => Promise<unknown>, answers: readonly Answer[]): Promise<unknown[]> {
  it.replace(Math, "random", () => 0.5);
  const moments: number[] = [];
  const ended = loop().catch((error: unknown) => (error instanceof RefusedError ? status[error.code] : error));
  for (const answer of answers) {
    while (it.sidecar.streams.length === moments.length) {
      assert.ok(it.now < 60_000, "it asks");
      await it.reach(it.now + 50);
    }
    moments.push(it.now);
    if (typeof answer === "object") it.sidecar.break(undefined, answer);
    else it.sidecar.tell(undefined, { [answer]: { until: it.now + 58_000, for: 58_000 } });
    await settled();
  }
  return [moments, await ended];
}

const stays = (): boolean => true;
const leaves = (): boolean => false;
const throws = (): boolean => {
  throw BOOM;
};

/** The answers, what a term does, whether releases fail, and what comes of it: as {@link follow}, and the releases. */
const TERMS: readonly [readonly Answer[], () => boolean, Refusing | undefined, number[], unknown, number][] = [
  [["granted", "granted", DENIED], stays, undefined, [0, 550, 1_100], "PERMISSION_DENIED", 2],
  [["granted", DENIED], stays, AWAY, [0, 550], "PERMISSION_DENIED", 1],
  [["granted"], leaves, undefined, [0], undefined, 1],
  [["granted"], leaves, AWAY, [0], "UNAVAILABLE", 1],
  [["granted"], throws, undefined, [0], BOOM, 1],
  [[AWAY, "lost", "busy", "granted"], leaves, undefined, [0, 550, 1_600, 3_650], undefined, 1],
  [[AWAY, AWAY, "granted", DENIED], stays, undefined, [0, 550, 1_600, 2_150], "PERMISSION_DENIED", 1],
];

for (const [answers, body, failing, moments, end, releases] of TERMS) {
  const how = JSON.stringify([...answers, body.name, failing]);
  staged(`who leads leads again after a term, and tells what a release throws where it leaves: ${how}`, async (it) => {
    if (failing !== undefined) it.sidecar.answers["release"] = [errorOf(failing)];
    const leading = async (): Promise<void> => {
      for await (const term of it.client.lead({ function: "f" })) if (term.isValid() && !body()) break;
    };
    assert.deepEqual(await follow(it, leading, answers), [moments, end]);
    assert.deepEqual(it.sidecar.asked, Array(releases).fill(RELEASED));
  });
}

staged("who leads by a client that is closed leads no more", async (it) => {
  const leading = assert.rejects(it.client.lead({ function: "f" }).next(), { code: status.CANCELLED });
  await settled();
  await it.client.close();
  await leading;
});

staged("work runs in each term until one ends it, or the caller does", async (it) => {
  const work = async (signal: AbortSignal): Promise<string> => {
    const term = it.sidecar.streams.length;
    if (term === 3) return "done";
    if (term === 4) throw BOOM;
    it.sidecar.tell(undefined, { lost: {} });
    await settled();
    if (term === 1) signal.throwIfAborted();
    return "ended by its signal";
  };
  const leading = (): Promise<string> => it.client.withTerms({ function: "f" }, work);
  assert.deepEqual(await follow(it, leading, ["granted", "granted", "granted"]), [[0, 550, 1_100], "done"]);
  const failing = assert.rejects(leading(), BOOM);
  await settled();
  it.sidecar.tell(undefined, { granted: { until: it.now + 58_000, for: 58_000 } });
  await failing;
  const stop = new AbortController();
  const stopped = assert.rejects(it.client.withTerms({ function: "f" }, work, { signal: stop.signal }), BOOM);
  stop.abort(BOOM);
  await stopped;
  assert.deepEqual(it.sidecar.asked, Array(4).fill(RELEASED));
});

staged("s22 work that ends by the notice of its term is followed by another term", async (it) => {
  const work = async (_: AbortSignal, term: Hold): Promise<string> => {
    if (it.sidecar.streams.length === 2) return "done";
    it.sidecar.tell(undefined, { revoked: { until: it.now + 30_000, for: 30_000 } });
    await settled();
    throw term.revokedSignal.reason;
  };
  const leading = (): Promise<string> => it.client.withTerms({ function: "f" }, work);
  assert.deepEqual(await follow(it, leading, ["granted", "granted"]), [[0, 550], "done"]);
});

type Work = (signal: AbortSignal, stop: AbortController, it: Stage) => Completion | undefined | Promise<never>;
const done: Work = () => undefined;
const fails: Work = () => {
  throw BOOM;
};
const stops: Work = (signal, stop) => {
  stop.abort(BOOM);
  throw signal.reason;
};
const isLost: Work = async (_, _stop, it) => {
  it.sidecar.tell(undefined, { lost: { reason: "TAKEN" } });
  await settled();
  throw BOOM;
};
const heeds: Work = async (signal) => {
  await once(signal, "abort");
  throw signal.reason;
};
const isStopped: Work = (_, stop) => {
  setTimeout(() => {
    stop.abort();
  }, 100);
  return undefined;
};

/** The work on a run, the completion that comes of it and its answer, and how all ends: else another run follows. */
const RUNS: readonly [Work, string, { answer?: Refusing | "none"; ends?: string | undefined }][] = [
  [done, "SUCCEEDED", {}],
  [fails, "FAILED boom", {}],
  [() => ({ outcome: "failedFinal" }), "FAILED_FINAL", {}],
  [isLost, "RETURNED", { answer: { code: "FAILED_PRECONDITION", reason: "HOLD_LOST" } }],
  [heeds, "FAILED_FINAL stopped at its deadline", {}],
  [stops, "RETURNED", { ends: undefined }],
  [done, "SUCCEEDED", { answer: { code: "INTERNAL", reason: "STORE_FAILED" }, ends: "INTERNAL" }],
  // Nobody answers: it is given up 10 s after the stop.
  [isStopped, "SUCCEEDED", { answer: "none", ends: undefined }],
];

for (const [work, said, { answer, ...more }] of RUNS) {
  staged(`t8 t11 t12 t24 the outcome of the run is what the work gives, and another follows: ${said}`, async (it) => {
    if (answer !== undefined) it.sidecar.answers["complete_run"] = answer === "none" ? [] : [errorOf(answer)];
    const stop = new AbortController();
    const working = it.client.every(
      { function: "f", cron: "30 2 * * *" },
      (_, signal) => Promise.resolve().then(() => work(signal, stop, it)),
      { signal: stop.signal },
    );
    const ended = working.catch((error: unknown) => (error instanceof RefusedError ? status[error.code] : error));
    const deadline = { at: 5_000, after: 5_000 };
    it.sidecar.tell(undefined, { standby: { understood: true }, run: { until: 5_000, for: 5_000, deadline } });
    await it.reach(12_000);
    await settled();
    it.sidecar.break(undefined, DENIED);
    assert.equal(await ended, "ends" in more ? more.ends : "PERMISSION_DENIED");
    assert.equal(it.sidecar.asked[0], `complete_run 1 ${said} by 1`);
    assert.deepEqual(it.sidecar.open, []);
  });
}

staged("who runs goes on while no sidecar answers, and ends where that does not help", async (it) => {
  const running = (): Promise<void> => it.client.every({ function: "f", cron: "@daily" }, () => Promise.resolve());
  assert.deepEqual(await follow(it, running, [AWAY, AWAY, AWAY, DENIED]), [
    [0, 550, 1_600, 3_650],
    "PERMISSION_DENIED",
  ]);
});
