import assert from "node:assert/strict";
import { test } from "node:test";

import { status } from "@grpc/grpc-js";

import { LockState } from "../src/index.js";
import type { LocksEvent } from "../src/index.js";
import { LockRecord } from "../src/proto.js";
import { Bench, PATIENCE_MS, refusal } from "./fake-sidecar.js";

const LISTED_AT = new Date(1_700_000_000_000);

function changed(lockPath: string, holder = ""): { $case: "changed"; value: LockRecord } {
  return { $case: "changed", value: LockRecord.create({ lockPath, holder, state: LockState.HELD }) };
}

function listed(locks: number): { $case: "listed"; value: { locks: number; at: Date } } {
  return { $case: "listed", value: { locks, at: LISTED_AT } };
}

/** The next events, each as a short text. */
async function next(watch: AsyncGenerator<LocksEvent>, count: number): Promise<string[]> {
  const told: string[] = [];
  while (told.length < count) {
    const { value } = (await watch.next()) as { value: LocksEvent };
    if (value.type === "changed") told.push(`${value.record.lockPath} ${value.record.holder}`);
    else if (value.type === "gone") told.push(`gone ${value.lockPath}`);
    else told.push(`listed ${String(value.locks)}`);
  }
  return told;
}

test("many locks are watched by one stream", { timeout: PATIENCE_MS }, async () => {
  await using bench = await Bench.create();
  const watch = bench.client.watchLocks({ prefix: "locks/p", labels: { team: "a" }, share: "listeners" });
  const first = next(watch, 3);
  const call = await bench.sidecar.lockWatches.next("they are watched");
  const under = { $case: "prefix", value: "locks/p" };
  assert.deepEqual(call.request, { under, labels: { team: "a" }, share: "listeners" });
  call.tell(changed("a", "x"), changed("b", "x"), listed(2));
  assert.deepEqual(await first, ["a x", "b x", "listed 2"]);
  call.tell(changed("a", "y"), { $case: "gone", value: "b" }, { $case: "gone", value: "b" }, listed(1));
  assert.deepEqual(await next(watch, 3), ["a y", "gone b", "listed 1"]);
  await watch.return();
});

test("a new stream tells only what is different, and what is gone", { timeout: PATIENCE_MS }, async () => {
  await using bench = await Bench.create();
  const watch = bench.client.watchLocks();
  const first = next(watch, 4);
  const call = await bench.sidecar.lockWatches.next("they are watched");
  assert.equal(call.request.under, undefined);
  call.tell(changed("a", "x"), changed("b", "x"), changed("c", "x"), listed(3));
  assert.equal((await first).length, 4);
  const again = next(watch, 4);
  call.fail(refusal(status.UNAVAILABLE, "gone"));
  const other = await bench.sidecar.lockWatches.next("they are watched again");
  other.tell(changed("a", "x"), changed("c", "y"), changed("d", "x"), listed(3), listed(3));
  assert.deepEqual(await again, ["c y", "d x", "gone b", "listed 3"]);
  assert.deepEqual(await next(watch, 1), ["listed 3"]);
  other.fail(refusal(status.UNAVAILABLE, "no store", { reason: "STORE_UNAVAILABLE" }));
  await assert.rejects(watch.next(), { reason: "STORE_UNAVAILABLE" });
});

test("locks are listed by state, label and share", async () => {
  await using bench = await Bench.create();
  const states = [LockState.HELD, LockState.BREAKING];
  const paths = [];
  for await (const { lockPath } of bench.client.listLocks({ prefix: "p", states, labels: { team: "a" } })) {
    paths.push(lockPath);
  }
  assert.deepEqual(paths, ["p/", "p/third"]);
  const { asked } = bench.sidecar.script;
  assert.deepEqual(asked.splice(0), Array(3).fill("list LOCK_STATE_HELD,LOCK_STATE_BREAKING team=a"));
  for await (const { lockPath } of bench.client.listLocks({ share: "listeners" })) paths.push(lockPath);
  assert.deepEqual(asked, Array(3).fill("list   of listeners"));
});
