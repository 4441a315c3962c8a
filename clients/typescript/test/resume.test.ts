import assert from "node:assert/strict";
import { test } from "node:test";

import { status } from "@grpc/grpc-js";

import type { RefusedError } from "../src/errors/errors.js";
import { ReleaseUnconfirmedError } from "../src/errors/errors.js";
import { finalRefusal } from "../src/hold/keeper.js";
import { LossReason } from "../src/index.js";
import { refused } from "../src/errors/refusal.js";
import type { Held, HoldCall, Refused } from "./fake-sidecar.js";
import { Bench, OURS, eventually, grant, refusal, validity } from "./fake-sidecar.js";

const GONE = refusal(status.UNAVAILABLE, "gone");

function errorOf(told: Refused): RefusedError {
  return refused(Object.assign(new Error(told.details), told));
}

/** Breaks the stream, and gives the call that is to resume the hold. */
async function interrupted(bench: Bench, { call, events }: Held): Promise<HoldCall> {
  call.fail(GONE);
  assert.equal((await events.next("the interruption is told")).type, "interrupted");
  return await bench.sidecar.hold();
}

async function lossOf({ hold }: Held): Promise<LossReason | undefined> {
  await eventually("the loss is told", () => hold.signal.aborted);
  return hold.loss?.reason;
}

test("s16 a hold survives a restart of the sidecar", async () => {
  await using bench = await Bench.create();
  const { hold, events } = await bench.held();
  bench.kill();
  assert.equal((await events.next("the interruption is told")).type, "interrupted");
  assert.ok(hold.isValid(), "the validity runs on");
  await bench.restart();
  const call = await bench.sidecar.hold();
  assert.equal(call.start?.$case, "resume");
  assert.equal(call.start.value.resumeToken, "resume-1");
  assert.deepEqual(call.start.value.toldValidUntil, validity(OURS, 1_058, 58).validUntil);
  bench.clock.advance(10);
  call.tell(grant(validity(OURS, 1_068, 58)));
  assert.deepEqual(await events.next("the resumption is told"), { type: "resumed", remainingMs: 58_000 });
  bench.clock.advance(10);
  call.tell({
    $case: "renewed",
    value: { validity: validity(OURS, 1_078, 58), resumeToken: "", maxHoldEnds: undefined },
  });
  assert.equal((await events.next("the new stream is read")).type, "renewed");
  await hold.release();
  await call.ended();
});

test("s16 the newest resume token is used", async () => {
  await using bench = await Bench.create();
  const held = await bench.held();
  const call = await interrupted(bench, held);
  const event = grant(validity(OURS, 1_058, 58));
  call.tell({ ...event, value: { ...event.value, resumeToken: "resume-2" } });
  assert.equal((await held.events.next("the resumption is told")).type, "resumed");
  const again = await interrupted(bench, { ...held, call });
  assert.equal(again.start?.$case, "resume");
  assert.equal(again.start.value.resumeToken, "resume-2");
});

test("s16 what cannot go on is lost", async () => {
  await using bench = await Bench.create();
  const answers: [LossReason, (call: HoldCall) => void][] = [
    [
      LossReason.TAKEN,
      (call): void => {
        call.tell({ $case: "lost", value: { reason: LossReason.TAKEN, detail: "", breakNote: undefined } });
      },
    ],
    [
      LossReason.UNSPECIFIED,
      (call): void => {
        call.fail(refusal(status.INVALID_ARGUMENT, "resume_token is not one of ours"));
      },
    ],
  ];
  for (const [reason, answer] of answers) {
    const held = await bench.held();
    answer(await interrupted(bench, held));
    assert.equal(await lossOf(held), reason);
    assert.ok(!held.hold.isValid());
  }
});

test("s16 a stream that ends without a word is resumed", async () => {
  await using bench = await Bench.create();
  const { hold, call, events } = await bench.held();
  call.end();
  assert.equal((await events.next("the interruption is told")).type, "interrupted");
  // So is a try that does.
  (await bench.sidecar.hold()).end();
  (await bench.sidecar.hold()).tell(grant(validity(OURS, 1_058, 58)));
  assert.equal((await events.next("the resumption is told")).type, "resumed");
  assert.ok(hold.isValid());
});

test("s16 another token is another hold", async () => {
  await using bench = await Bench.create();
  const held = await bench.held();
  const call = await interrupted(bench, held);
  const event = grant(validity(OURS, 1_058, 58));
  call.tell({ ...event, value: { ...event.value, fencingToken: 65_537 } });
  assert.equal(await lossOf(held), LossReason.TAKEN);
  await call.ended();
});

test("s16 a sidecar that stays away costs the hold at the end of validity", async () => {
  await using bench = await Bench.create();
  const held = await bench.held();
  bench.kill();
  assert.equal((await held.events.next("the interruption is told")).type, "interrupted");
  bench.clock.advance(57);
  assert.ok(held.hold.isValid());
  bench.clock.advance(1);
  assert.equal(await lossOf(held), LossReason.EXPIRED);
});

test("s14 a try to resume is not cut short while the hold is valid", async () => {
  await using bench = await Bench.create();
  const held = await bench.held();
  const call = await interrupted(bench, held);
  bench.clock.advance(57);
  assert.ok(held.hold.isValid() && call.isOpen);
  bench.clock.advance(1);
  assert.ok(!held.hold.isValid());
  await call.ended();
});

test("s4 a resumption that comes too late revives nothing", async () => {
  await using bench = await Bench.create();
  const held = await bench.held();
  const call = await interrupted(bench, held);
  bench.clock.advance(58);
  call.tell(grant(validity(OURS, 1_116, 58)));
  assert.equal(await lossOf(held), LossReason.EXPIRED);
  await call.ended();
  assert.ok(!held.hold.isValid());
});

test("s16 nothing is released while a resume is unanswered", async () => {
  await using bench = await Bench.create();
  const held = await bench.held();
  const call = await interrupted(bench, held);
  const releasing = held.hold.release();
  assert.ok(!held.hold.isValid());
  bench.clock.advance(58);
  await assert.rejects(releasing, ReleaseUnconfirmedError);
  await call.ended();
  assert.equal(held.hold.loss, undefined);
  assert.deepEqual(bench.sidecar.script.asked, []);
});

test("s16 a release waits for the answer to a resume, and carries its generation", async () => {
  await using bench = await Bench.create();
  const held = await bench.held();
  const call = await interrupted(bench, held);
  const releasing = held.hold.release();
  assert.ok(!held.hold.isValid());
  // A try that fails is repeated also now.
  call.fail(GONE);
  const event = grant(validity(OURS, 1_058, 58));
  (await bench.sidecar.hold()).tell({ ...event, value: { ...event.value, generation: 2 } });
  await releasing;
  assert.deepEqual(bench.sidecar.script.asked, ["release lease-1 of generation 2"]);
});

test("s16 later calls carry the newest generation, and the newest token resumes", async () => {
  await using bench = await Bench.create();
  const held = await bench.held();
  const { hold, events } = held;
  const resumed = async (call: HoldCall, generation: number): Promise<void> => {
    const event = grant(validity(OURS, 1_058, 58));
    call.tell({ ...event, value: { ...event.value, generation } });
    assert.equal((await events.next("the resumption is told")).type, "resumed");
  };
  await hold.extend(90_000);
  const lost = await interrupted(bench, held);
  assert.equal(lost.start?.$case, "resume");
  const first = lost.start.value;
  assert.equal(first.resumeToken, "resume-extended");
  assert.ok(first.attemptId.length > 0 && first.attemptId.length <= 64);
  // Its answer is lost, so the very same resume is repeated.
  lost.fail(GONE);
  const call = await bench.sidecar.hold();
  assert.deepEqual(call.start, lost.start);
  await resumed(call, 2);
  call.tell({
    $case: "renewed",
    value: { validity: validity(OURS, 1_059, 59), resumeToken: "resume-renewed", maxHoldEnds: undefined },
  });
  assert.equal((await events.next("the renewal is told")).type, "renewed");
  const again = await interrupted(bench, { ...held, call });
  assert.equal(again.start?.$case, "resume");
  assert.equal(again.start.value.resumeToken, "resume-renewed");
  assert.notEqual(again.start.value.attemptId, first.attemptId, "another break");
  await resumed(again, 3);
  await hold.release();
  assert.deepEqual(bench.sidecar.script.asked, ["extend lease-1 of generation 1", "release lease-1 of generation 3"]);
});

test("s16 which errors are final", () => {
  const info = (reason: string): { reason: string } => ({ reason });
  const final = [
    refusal(status.ABORTED, "", info("SUPERSEDED")),
    refusal(status.INVALID_ARGUMENT, ""),
    refusal(status.NOT_FOUND, ""),
    refusal(status.FAILED_PRECONDITION, ""),
    refusal(status.DATA_LOSS, ""),
    refusal(status.UNIMPLEMENTED, ""),
  ];
  for (const told of final) assert.equal(finalRefusal(errorOf(told))?.reason, LossReason.UNSPECIFIED, told.details);
  const passing = [
    refusal(status.ABORTED, "", info("STREAM_BEHIND")),
    refusal(status.UNAVAILABLE, "", info("SHUTTING_DOWN")),
    refusal(status.INTERNAL, ""),
    refusal(status.CANCELLED, ""),
    refusal(status.UNAUTHENTICATED, ""),
  ];
  for (const told of passing) assert.equal(finalRefusal(errorOf(told)), undefined);
  const lost = { reason: "HOLD_LOST", metadata: { loss_reason: "BROKEN" } };
  assert.equal(finalRefusal(errorOf(refusal(status.FAILED_PRECONDITION, "", lost)))?.reason, LossReason.BROKEN);
});
