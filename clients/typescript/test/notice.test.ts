import assert from "node:assert/strict";
import { test } from "node:test";

import { status } from "@grpc/grpc-js";

import { BreakMode, LostError, LossReason, Notice } from "../src/index.js";
import { BreakNote } from "../src/proto.js";
import type { Event, Held } from "./fake-sidecar.js";
import { Bench, OURS, eventually, refusal, validity } from "./fake-sidecar.js";

const NOTE = BreakNote.create({ reason: "deploy", brokenBy: "ops", fencingToken: 65_536, mode: BreakMode.RUN_OUT });
const REVOKED: Event = { $case: "revoked", value: { validity: validity(OURS, 1_058, 48), breakNote: NOTE } };

async function noticed({ hold }: Held): Promise<Notice> {
  await eventually("the notice is told", () => hold.revokedSignal.aborted);
  assert.ok(hold.revokedSignal.reason instanceof Notice);
  assert.equal(hold.revokedSignal.reason, hold.notice);
  return hold.revokedSignal.reason;
}

test("s22 a notice is a signal of its own, and the hold is still valid", async () => {
  await using bench = await Bench.create();
  const held = await bench.held();
  const { hold, call, events } = held;
  assert.equal(hold.notice, undefined);
  bench.clock.advance(10);
  call.tell(REVOKED);
  const notice = await noticed(held);
  assert.equal(notice.reason, "deploy");
  assert.equal(notice.brokenBy, "ops");
  assert.equal(notice.breakNote?.mode, BreakMode.RUN_OUT);
  assert.match(notice.message, /broken by ops: deploy/);
  assert.equal(notice.remainingMs(), 48_000);
  assert.deepEqual(await events.next("the notice is told"), { type: "revoked", remainingMs: 48_000, notice });
  assert.ok(hold.isValid() && !hold.signal.aborted, "it is no loss");
  assert.equal(await hold.save("a"), 1);
  await hold.release();
  assert.equal(notice.remainingMs(), 0);
  assert.deepEqual(bench.sidecar.script.asked, ["save a of generation 1", "release lease-1 of generation 1"]);
});

test("s22 after a notice the hold is lost as broken at its deadline", async () => {
  await using bench = await Bench.create();
  const held = await bench.held();
  held.call.tell(REVOKED);
  await noticed(held);
  bench.clock.advance(57);
  assert.ok(held.hold.isValid());
  bench.clock.advance(1);
  assert.ok(!held.hold.isValid());
  assert.deepEqual(held.hold.loss, { reason: LossReason.BROKEN, detail: "deploy", breakNote: NOTE });
  assert.ok(held.hold.signal.reason instanceof LostError);
});

test("s22 a notice is told once, and a loss is none", async () => {
  await using bench = await Bench.create();
  const held = await bench.held();
  held.call.tell(REVOKED);
  held.call.tell(REVOKED);
  held.call.tell({ $case: "lost", value: { reason: LossReason.BROKEN, detail: "", breakNote: NOTE } });
  const told: string[] = [];
  do told.push((await held.events.next("it is told")).type);
  while (told.at(-1) !== "lost");
  assert.deepEqual(told, ["revoked", "lost"]);

  const lost = await bench.held();
  lost.call.tell({ $case: "lost", value: { reason: LossReason.BROKEN, detail: "", breakNote: NOTE } });
  await eventually("the loss is told", () => lost.hold.signal.aborted);
  assert.ok(!lost.hold.revokedSignal.aborted);
});

test("s22 a hold that resumes after its notice is lost", async () => {
  await using bench = await Bench.create();
  const held = await bench.held();
  held.call.tell(REVOKED);
  await noticed(held);
  held.call.fail(refusal(status.UNAVAILABLE, "gone"));
  const resume = await bench.sidecar.hold();
  assert.ok(held.hold.isValid(), "until the sidecar has said so");
  resume.tell({ $case: "lost", value: { reason: LossReason.BROKEN, detail: "", breakNote: NOTE } });
  await eventually("the loss is told", () => held.hold.signal.aborted);
  assert.equal(held.hold.loss?.reason, LossReason.BROKEN);
});
