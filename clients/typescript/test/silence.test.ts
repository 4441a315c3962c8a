import assert from "node:assert/strict";
import { test } from "node:test";

import { status } from "@grpc/grpc-js";

import type { Hold, LockRecord } from "../src/index.js";
import { ReleaseUnconfirmedError, RefusedError } from "../src/index.js";
import type { Event, HoldCall } from "./fake-sidecar.js";
import { Bench, OURS, eventually, grant, refusal, validity } from "./fake-sidecar.js";

const GRANTED = grant(validity(OURS, 1_058, 58));
const WAITING: Event = { $case: "waiting", value: { position: 1, record: undefined } };
const GONE = refusal(status.UNAVAILABLE, "gone");
/** Streams are silent after this; long enough for a busy machine to answer. */
const IMPATIENT = { silenceMs: 1_000 };

/** Grants what is asked for, and gives the call. On a busy machine the first answer may come too late. */
async function grantTo(bench: Bench, asked: Promise<Hold>): Promise<HoldCall> {
  const state = { isDone: false };
  void asked.then(() => {
    state.isDone = true;
  });
  for (;;) {
    const call = await bench.sidecar.hold();
    call.tell(WAITING);
    call.tell(GRANTED);
    await eventually("it asks, or has it", () => state.isDone || bench.sidecar.holds.items.length > 0);
    if (state.isDone) return call;
  }
}

test("a waiter that hears nothing asks again", async () => {
  await using bench = await Bench.create(undefined, IMPATIENT);
  const asked = bench.client.hold({ function: "f", waitMs: 30_000 });
  const silent = await bench.sidecar.hold();
  silent.tell(WAITING);
  await silent.ended();
  await grantTo(bench, asked);
  assert.ok((await asked).isValid());
});

test("a single try that hears nothing fails", async () => {
  await using bench = await Bench.create(undefined, IMPATIENT);
  const asked = bench.client.hold({ function: "f" });
  const silent = await bench.sidecar.hold();
  await assert.rejects(asked, { name: "RefusedError", code: status.UNAVAILABLE });
  await silent.ended();
});

test("s16 a holder that hears nothing resumes before it leaves the silent stream", async () => {
  await using bench = await Bench.create(undefined, IMPATIENT);
  const asked = bench.client.hold({ function: "f", waitMs: 30_000 });
  const silent = await grantTo(bench, asked);
  const hold = await asked;
  const resume = await bench.sidecar.hold();
  assert.equal(resume.start?.$case, "resume");
  assert.ok(silent.isOpen, "S14: its end would be the end of the hold");
  resume.tell({ ...GRANTED, value: { ...GRANTED.value, generation: 2 } });
  await silent.ended();
  assert.ok(hold.isValid());
});

test("s12 a waiter whose connection breaks asks again for the rest of its wait", async () => {
  await using bench = await Bench.create();
  const asked = bench.client.hold({ function: "f", waitMs: 30_000 });
  const call = await bench.sidecar.hold();
  call.tell(WAITING);
  bench.clock.advance(10);
  call.fail(GONE);
  const again = await bench.sidecar.hold();
  assert.equal(again.start?.$case, "spec");
  assert.equal(again.start.value.wait?.seconds, 20);
  bench.clock.advance(20);
  again.fail(GONE);
  await assert.rejects(asked, RefusedError, "the wait is over");
});

test("a waiter between two rounds of waiting is told that the client was closed", async () => {
  await using bench = await Bench.create();
  const asked = bench.client.hold({ function: "f", waitMs: Infinity });
  const call = await bench.sidecar.hold();
  call.tell(WAITING);
  call.fail(GONE);
  bench.client.close();
  await assert.rejects(asked, { name: "RefusedError", code: status.CANCELLED });
});

async function nextHolder(watch: AsyncGenerator<LockRecord>): Promise<string | undefined> {
  const { value } = (await watch.next()) as { value: LockRecord | undefined };
  return value?.holder;
}

test("a watch that hears nothing is opened again, and tells nothing twice", async () => {
  await using bench = await Bench.create(undefined, IMPATIENT);
  bench.sidecar.script.holders = ["a", "a"];
  const watch = bench.client.watchLock({ lockPath: "locks/a" });
  assert.equal(await nextHolder(watch), "a");
  bench.sidecar.script.holders = ["a", "b"];
  assert.equal(await nextHolder(watch), "b");
  await watch.return();
});

test("a watch whose connection breaks is opened again, and not for an error of the store", async () => {
  await using bench = await Bench.create();
  bench.sidecar.script.holders = ["a"];
  const watch = bench.client.watchLock({ lockPath: "locks/a" });
  assert.equal(await nextHolder(watch), "a");
  bench.sidecar.script.holders = ["b"];
  (await bench.sidecar.watches.next("it watches")).emit("error", GONE);
  assert.equal(await nextHolder(watch), "b");
  const noStore = refusal(status.UNAVAILABLE, "no store", { reason: "STORE_UNAVAILABLE" });
  (await bench.sidecar.watches.next("it watches again")).emit("error", noStore);
  await assert.rejects(watch.next(), { name: "RefusedError", reason: "STORE_UNAVAILABLE" });
});

test("s13 a release is waited for no longer than asked, and a block says so", async () => {
  await using bench = await Bench.create();
  bench.sidecar.script.mute = true;
  bench.client.close();
  bench.client = await bench.another({ releaseTimeoutMs: 200 });
  const block = async (): Promise<void> => {
    const { hold } = await bench.held();
    await using own = hold;
    assert.ok(own.isValid());
  };
  await assert.rejects(
    block(),
    (error) => error instanceof ReleaseUnconfirmedError && error.message.includes("within 200 ms"),
  );
  const boom = new Error("boom");
  const holding = bench.client.withHold({ function: "f" }, () => {
    throw boom;
  });
  (await bench.sidecar.hold()).tell(GRANTED);
  await assert.rejects(holding, boom);
  assert.ok((boom as { suppressed?: unknown }).suppressed instanceof ReleaseUnconfirmedError);
});
