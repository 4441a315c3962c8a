// Over which connection a call goes, which one is left, and how long a wait for one is.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { status } from "@grpc/grpc-js";

import { LostError, Reason, RefusedError, UnreachableError } from "../src/index.js";
import { LockRecord } from "../src/proto.js";
import type { FakeSidecar, Held } from "./fake-sidecar.js";
import { Bench, GONE, GRANTED, LOST, OURS, PATIENCE_MS, TOO_OLD } from "./fake-sidecar.js";
import { eventually, grant, refusal, validity } from "./fake-sidecar.js";

const SHORT = { timeout: PATIENCE_MS };
const RELEASED = "releaseLease lease-1 1";
const VALID = validity(OURS, 1_058, 58);
const TOLD = { validity: VALID };

test("s13 more holds than a connection carries get another, and a release stands behind none", SHORT, async () => {
  await using bench = await Bench.create(3, { streams: 2 });
  const { sidecar } = bench;
  const held: Held[] = [];
  for (let made = 0; made < 5; made += 1) held.push(await bench.held());
  assert.equal(sidecar.connections, 3);
  for (const { hold, call } of held) {
    await hold.release();
    call.end();
  }
  assert.deepEqual(sidecar.asked, Array(5).fill(RELEASED));
  await eventually("those that are not needed are closed", () => sidecar.connections === 1);
  assert.ok((await bench.held()).hold.isValid());
});

test("waiting acquires and a watch do not stand in the way of short calls", SHORT, async () => {
  await using bench = await Bench.create(2, { streams: 1 });
  const { client, sidecar } = bench;
  let answer: (granted: object) => void = () => undefined;
  sidecar.answers["acquireLease"] = [new Promise<object>((resolve) => (answer = resolve))];
  sidecar.answers["getLock"] = [{ record: {} }];
  const { hold } = await bench.held();
  const acquiring = [client.acquire({ function: "f" }), client.acquire({ function: "f" })];
  const watching = client.watchLock({ function: "f", scope: "s" }).next();
  (await sidecar.watches.next("it is watched")).tell(LockRecord.create());
  assert.equal((await watching).done, false);
  await eventually("both wait", () => sidecar.asked.length === 2);
  await client.getLock({ function: "f" });
  await client.release("lease-9");
  await hold.release();
  assert.deepEqual(sidecar.asked.slice(-2), ["releaseLease lease-9 0", RELEASED]);
  answer({ outcome: GRANTED });
  await Promise.all(acquiring);
});

test("s37 new streams alone leave a sidecar that is too old, and calls about a hold when it does", SHORT, async () => {
  await using bench = await Bench.create();
  const tokens: Promise<string>[] = [];
  bench.client.close();
  bench.client = await bench.another({ bearerToken: async () => (await tokens.shift()) ?? "token" });
  const { hold, call, events } = await bench.held();
  const there = bench.sidecar;
  Object.assign(there.answers, { reportProgress: [TOLD], getHold: [TOLD], extendLease: [TOLD] });
  await bench.refuseHold();
  await hold.info();
  await hold.extend(90_000);
  await hold.save("x");
  call.fail(GONE);
  assert.equal((await events.next("it is interrupted")).type, "interrupted");
  const again = await bench.sidecar.hold();
  await hold.reportProgress();
  let goOut: (token: string) => void = () => undefined;
  tokens.push(new Promise((resolve) => (goOut = resolve)));
  const goingOut = hold.reportProgress();
  await eventually("it waits for its token", () => tokens.length === 0);
  again.tell(grant(VALID, { generation: 2 }));
  assert.equal((await events.next("it is resumed")).type, "resumed");
  goOut("token");
  await goingOut;
  await eventually("nothing keeps the connection that was left", () => there.connections === 0);
  await hold.release();
  const calls = ["getHold", "extendLease", "saveCheckpoint", "reportProgress", "reportProgress"];
  const asked = calls.map((name) => `${name} lease-1 1${name === "saveCheckpoint" ? " x" : ""}`);
  assert.deepEqual([there.asked, bench.sidecar.asked], [asked, ["releaseLease lease-1 2"]]);
  await assert.rejects(hold.reportProgress(), { reason: Reason.HOLD_RELEASED });
});

/** How a hold may end whose sidecar is `there`; gives how many releases that is to hear of. */
const ENDS: Readonly<Record<string, (held: Held, there: FakeSidecar, bench: Bench) => Promise<number>>> = {
  "it is released": async ({ hold, call }) => {
    await hold.release();
    call.end();
    return 1;
  },
  "it is released in vain": async ({ hold }, { answers }) => {
    answers["releaseLease"] = [refusal(status.INTERNAL, "no")];
    await assert.rejects(hold.release(), RefusedError);
    return 1;
  },
  "it is lost, and then released": async ({ hold, call }) => {
    call.tell(LOST);
    await call.ended();
    await assert.rejects(hold.release(), LostError);
    return 1;
  },
  "it is lost and dropped": async ({ call }) => {
    call.tell(LOST);
    await call.ended();
    return 0;
  },
  "its validity ends while it is being resumed": async ({ hold, call }, _there, { clock, sidecar }) => {
    call.fail(GONE);
    await sidecar.hold();
    clock.advance(58);
    await assert.rejects(hold.release(), LostError);
    return 0;
  },
  "its validity ends while it is being resumed, and it is dropped": async ({ call }, _there, { clock, sidecar }) => {
    call.fail(GONE);
    const again = await sidecar.hold();
    clock.advance(58);
    await again.ended();
    return 0;
  },
};

test("s13 s37 a hold keeps its connection until its end is known or given up", SHORT, async () => {
  setFlagsFromString("--expose-gc");
  const collectGarbage = runInNewContext("gc") as () => void;
  for (const [how, end] of Object.entries(ENDS)) {
    await using bench = await Bench.create();
    const there = bench.sidecar;
    const kept: Held[] = [];
    const releases = await (async (): Promise<number> => {
      const held = await bench.held();
      if (!how.includes("dropped")) kept.push(held);
      await bench.refuseHold();
      return await end(held, there, bench);
    })();
    await eventually(`nothing keeps the connection when ${how}`, () => {
      collectGarbage();
      return there.connections === 0;
    });
    assert.ok(kept.every(({ hold }) => !hold.isValid()));
    assert.deepEqual([there.asked, bench.sidecar.asked], [Array(releases).fill(RELEASED), []], how);
  }
});

test("s37 what a unary call was granted is known where it was granted", SHORT, async () => {
  await using bench = await Bench.create();
  const { client, sidecar: there } = bench;
  there.answers["acquireLease"] = [{ outcome: GRANTED }, TOO_OLD, { outcome: GRANTED }];
  const { leaseId } = await client.acquire({ function: "f" });
  await bench.refuseHold();
  await client.acquire({ function: "f", waitMs: 60_000 });
  await client.release(leaseId);
  assert.deepEqual([there.asked.length, there.asked.at(-1)], [4, "releaseLease lease-1 0"]);
});

test("a wait covers a sidecar that starts later, or ends with its signal", SHORT, async () => {
  await using bench = await Bench.create();
  bench.sidecar.kill();
  const { client } = bench;
  const waits = [3_600_000, Infinity].map((waitMs) => ({ function: "f", waitMs }));
  for (const spec of waits) {
    const options = { signal: AbortSignal.timeout(50) };
    await assert.rejects(client.hold(spec, options), { name: "TimeoutError" });
    await assert.rejects(client.acquire(spec, options), { name: "TimeoutError" });
  }
  const holding = waits.map((spec) => client.hold(spec));
  const acquiring = client.acquire({ function: "f", waitMs: 3_600_000 });
  await assert.rejects(client.getLock({ function: "f" }), UnreachableError);
  const sidecar = await bench.restart();
  sidecar.answers["acquireLease"] = [{ outcome: GRANTED }];
  for (const hold of holding) {
    (await sidecar.hold()).tell(GRANTED);
    await (await Promise.race([hold, ...holding])).release();
  }
  assert.equal((await acquiring).leaseId, "lease-1");
});
