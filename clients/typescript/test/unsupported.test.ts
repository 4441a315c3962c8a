import assert from "node:assert/strict";
import { test } from "node:test";

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { status } from "@grpc/grpc-js";

import { needs } from "../src/errors/unsupported.js";
import type { HoldEvent } from "../src/index.js";
import { LostError, LossReason, Reason, RefusedError } from "../src/index.js";
import {
  HoldLeaseRequest,
  LeaseSpec,
  ListLocksRequest,
  LockKey,
  ReleaseLeaseRequest,
  SaveCheckpointRequest,
} from "../src/proto.js";
import type { Event, FakeSidecar, Held } from "./fake-sidecar.js";
import { Bench, OURS, PATIENCE_MS, TOO_OLD, eventually, grant, refusal, validity } from "./fake-sidecar.js";

const GRANTED = validity(OURS, 1_058, 58);
const SHORT = { timeout: PATIENCE_MS };

test("s37 a request needs the revision of its newest field", () => {
  const newer = [["start.spec.permits", 2] as const, ["start.spec.key.scope", 3] as const];
  const needed = (spec: Partial<LeaseSpec>): number =>
    needs(HoldLeaseRequest, { start: { $case: "spec", value: LeaseSpec.create(spec) } }, newer);
  assert.equal(needed({ priority: 7, key: LockKey.create({ function: "f" }) }), 1);
  assert.equal(needed({ permits: 2, key: LockKey.create({ function: "f" }) }), 2);
  assert.equal(needed({ permits: 2, key: LockKey.create({ scope: "s" }) }), 3);
  const resume = { $case: "resume", value: { resumeToken: "r", toldValidUntil: undefined, attemptId: "" } } as const;
  assert.equal(needs(HoldLeaseRequest, { start: resume }, newer), 1);
  assert.equal(needs(HoldLeaseRequest, { start: resume }, [["start.resume", 2]]), 2);
});

test("s37 a field is set if it goes over the wire", () => {
  const needed = (field: string, spec: Partial<LeaseSpec>): number =>
    needs(HoldLeaseRequest, { start: { $case: "spec", value: LeaseSpec.create(spec) } }, [[`start.spec.${field}`, 2]]);
  assert.deepEqual([needed("permits", { permits: 0 }), needed("permits", {})], [2, 1], "an optional number");
  assert.deepEqual([needed("autoRenew", { autoRenew: false }), needed("autoRenew", {})], [2, 1], "an optional truth");
  const host = (hostId?: string): number => needed("key.hostId", { key: LockKey.create({ hostId }) });
  assert.deepEqual([host(""), host()], [2, 1], "an optional text");
  assert.deepEqual([needed("priority", { priority: 0 }), needed("priority", { priority: 1 })], [1, 2], "a number");
  assert.deepEqual([needed("labels", { labels: {} }), needed("labels", { labels: { a: "" } })], [1, 2], "a map");
  assert.deepEqual([needed("key", { key: LockKey.create() }), needed("key", {})], [2, 1], "a message");
  const value = (text: string): number =>
    needs(SaveCheckpointRequest, { leaseId: "l", value: Buffer.from(text) }, [["value", 2]]);
  assert.deepEqual([value(""), value("x")], [1, 2], "bytes");
  const checkpoint = (bytes?: Buffer): number =>
    needs(ReleaseLeaseRequest, { leaseId: "l", checkpoint: bytes }, [["checkpoint", 2]]);
  assert.deepEqual([checkpoint(Buffer.alloc(0)), checkpoint()], [2, 1], "optional bytes");
  const states = (names: ListLocksRequest["states"]): number =>
    needs(ListLocksRequest, { states: names }, [["states", 2]]);
  assert.deepEqual([states([]), states(ListLocksRequest.fromPartial({ states: [] }).states)], [1, 1], "a list");
});

test("s37 a call tries on while its wait lasts", async () => {
  await using bench = await Bench.create();
  const { client, sidecar } = bench;
  sidecar.script.acquires.push(TOO_OLD, TOO_OLD, TOO_OLD);
  await assert.rejects(client.acquire({ function: "f" }), { reason: Reason.UNSUPPORTED, message: "2 and 1" });
  sidecar.script.acquire = grant(GRANTED);
  await client.acquire({ function: "f", waitMs: 60_000 });
  assert.equal(sidecar.script.asked.length, 4);
});

test("s37 who stops waiting between two tries is told so", SHORT, async () => {
  await using bench = await Bench.create();
  bench.sidecar.script.acquires.push(...Array<typeof TOO_OLD>(20).fill(TOO_OLD));
  const signal = AbortSignal.timeout(100);
  await assert.rejects(bench.client.acquire({ function: "f", waitMs: 60_000 }, { signal }), { name: "TimeoutError" });
});

/** Has another hold refused by the sidecar that is there, and granted and released by a new one in its place. */
async function refuseHold(bench: Bench): Promise<FakeSidecar> {
  const holding = bench.client.hold({ function: "g", waitMs: 30_000 });
  const refused = await bench.sidecar.hold();
  await bench.restart();
  refused.fail(TOO_OLD);
  (await bench.sidecar.hold()).tell(grant(GRANTED, { leaseId: "lease-2" }));
  await (await holding).release();
  assert.deepEqual(bench.sidecar.script.asked.splice(0), ["release lease-2 of generation 1"]);
  return bench.sidecar;
}

test("s37 new streams alone leave a sidecar that is too old", SHORT, async () => {
  for (const isAskedBefore of [false, true]) {
    await using bench = await Bench.create();
    const { hold } = await bench.held();
    const { script } = bench.sidecar;
    script.report = GRANTED;
    if (isAskedBefore) await bench.client.getLock({ function: "f" });
    const elsewhere = await refuseHold(bench);
    await hold.reportProgress();
    await hold.info();
    await hold.extend(90_000);
    await hold.save("x");
    await hold.release();
    assert.deepEqual(script.asked, [
      "report progress of generation 1",
      "get hold of generation 1",
      "extend lease-1 of generation 1",
      "save x of generation 1",
      "release lease-1 of generation 1",
    ]);
    assert.deepEqual(elsewhere.script.asked, []);
  }
});

test("s37 calls about a hold go to its sidecar while a try to resume it is elsewhere", SHORT, async () => {
  await using bench = await Bench.create();
  const { hold, call, events } = await bench.held();
  const there = bench.sidecar;
  there.script.report = GRANTED;
  await refuseHold(bench);
  call.fail({ ...TOO_OLD, code: status.UNAVAILABLE });
  assert.equal((await events.next("it is interrupted")).type, "interrupted" satisfies HoldEvent["type"]);
  const again = await bench.sidecar.hold();
  await hold.reportProgress();
  again.tell(grant(GRANTED, { generation: 2 }));
  assert.equal((await events.next("it is resumed")).type, "resumed" satisfies HoldEvent["type"]);
  await eventually("nothing keeps the connection that was left", () => there.connections === 0);
  await hold.release();
  assert.deepEqual(there.script.asked, ["report progress of generation 1"]);
  assert.deepEqual(bench.sidecar.script.asked, ["release lease-1 of generation 2"]);
  await assert.rejects(hold.reportProgress(), { reason: Reason.HOLD_RELEASED });
});

const LOST: Event = { $case: "lost", value: { reason: LossReason.BROKEN, detail: "", breakNote: undefined } };
const GONE = refusal(status.UNAVAILABLE, "gone");

/** How a hold may end whose sidecar is `there`; gives how many releases that is to hear of. */
const ENDS: Readonly<Record<string, (held: Held, there: FakeSidecar, bench: Bench) => Promise<number>>> = {
  "it is released": async ({ hold, call }) => {
    await hold.release();
    call.end();
    return 1;
  },
  "it is released in vain": async ({ hold }, { script }) => {
    script.release = refusal(status.INTERNAL, "no");
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
      await refuseHold(bench);
      return await end(held, there, bench);
    })();
    await eventually(`nothing keeps the connection when ${how}`, () => {
      collectGarbage();
      return there.connections === 0;
    });
    assert.ok(kept.every(({ hold }) => !hold.isValid()));
    assert.deepEqual(there.script.asked, Array(releases).fill("release lease-1 of generation 1"), how);
    assert.deepEqual(bench.sidecar.script.asked, [], how);
  }
});

test("s37 what a unary call was granted is known where it was granted", SHORT, async () => {
  await using bench = await Bench.create();
  const { script } = bench.sidecar;
  script.acquire = grant(GRANTED);
  const { leaseId } = await bench.client.acquire({ function: "f" });
  await refuseHold(bench);
  script.acquires.push(TOO_OLD);
  await bench.client.acquire({ function: "f", waitMs: 60_000 });
  await bench.client.release(leaseId);
  assert.deepEqual([script.asked.length, script.asked.at(-1)], [4, "release lease-1 of generation 0"]);
});
