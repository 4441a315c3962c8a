import assert from "node:assert/strict";
import { test } from "node:test";

import { status } from "@grpc/grpc-js";

import type { ReleaseOptions } from "../src/index.js";
import {
  CHECKPOINT_BYTES_MAX,
  Checkpoint,
  CheckpointOutcome,
  CheckpointUnknownError,
  Reason,
  LostError,
  LossReason,
  RefusedError,
  ReleaseOutcome,
} from "../src/index.js";
import { ReleaseResult } from "../src/proto.js";
import { Bench, ELSEWHERE, OURS, eventually, grant, refusal, validity } from "./fake-sidecar.js";

const GRANTED = validity(OURS, 1_058, 58);
const GONE = refusal(status.UNAVAILABLE, "gone");
const SAVED_AT = new Date(1_700_000_000_000);

test("s25 the grant has the checkpoint of the last holder, or none", async () => {
  await using bench = await Bench.create();
  const value = Buffer.from('{"next":7}');
  const checkpoint = { value, version: 12, fencingToken: 9, savedAt: SAVED_AT };
  const { hold } = await bench.held(GRANTED, { checkpoint });
  assert.deepEqual(hold.checkpoint, new Checkpoint(value, 12, 9, SAVED_AT));
  assert.deepEqual(hold.checkpoint.json(), { next: 7 });
  assert.equal(hold.checkpoint.text(), '{"next":7}');
  assert.equal((await bench.held()).hold.checkpoint, undefined);
  assert.throws(() => new Checkpoint(Uint8Array.of(0xff), 1, 1, undefined).text(), TypeError);
});

test("s24 a save is done when the store has it, and is the checkpoint then", async () => {
  await using bench = await Bench.create();
  const { hold } = await bench.held();
  assert.equal(await hold.save("a"), 1);
  assert.equal(await hold.save(Uint8Array.of(0x62)), 2);
  assert.deepEqual(hold.checkpoint, new Checkpoint(Buffer.from("b"), 2, 65_536, undefined));
  assert.equal(await hold.saveJson({ next: 8 }), 3);
  assert.deepEqual(hold.checkpoint.json(), { next: 8 });
  await assert.rejects(hold.saveJson(undefined), TypeError);
  assert.deepEqual(bench.sidecar.script.asked, [
    "save a of generation 1",
    "save b of generation 1",
    'save {"next":8} of generation 1',
  ]);
});

test("s21 the validity in a save's answer counts from before the save", async () => {
  await using bench = await Bench.create();
  const { hold } = await bench.held(validity(ELSEWHERE, 70, 58));
  bench.sidecar.script.savedValidity = validity(ELSEWHERE, 90, 50);
  bench.clock.advance(20);
  await hold.save("a");
  assert.equal(hold.remainingMs(), 50_000);
});

test("s19 a checkpoint that is too long is refused before it is sent", async () => {
  await using bench = await Bench.create();
  const { hold } = await bench.held();
  const tooLong = "a".repeat(CHECKPOINT_BYTES_MAX + 1);
  const isTooLong = (field: string) => (error: unknown) =>
    error instanceof RefusedError &&
    error.reason === Reason.INVALID_FIELD &&
    error.violations[0]?.field === field &&
    error.message.includes("2049 bytes");
  await assert.rejects(hold.save(tooLong), isTooLong("value"));
  await assert.rejects(hold.release({ checkpoint: tooLong }), isTooLong("checkpoint"));
  assert.ok(hold.isValid(), "the hold goes on");
  assert.deepEqual(bench.sidecar.script.asked, []);
  assert.equal(await hold.save("a".repeat(CHECKPOINT_BYTES_MAX)), 1);
});

test("s24 a holder whose lease is gone cannot save, and has lost the hold", async () => {
  await using bench = await Bench.create();
  const { hold } = await bench.held();
  const info = { reason: "HOLD_LOST", metadata: { loss_reason: "TAKEN" } };
  bench.sidecar.script.saves.push(refusal(status.FAILED_PRECONDITION, "it is another's", info));
  await assert.rejects(hold.save("a"), LostError);
  assert.equal(hold.loss?.reason, LossReason.TAKEN);
  await assert.rejects(hold.save("b"), LostError);
  assert.equal(bench.sidecar.script.asked.length, 1, "who has lost asks nobody");

  const { hold: released } = await bench.held();
  await released.release();
  await assert.rejects(released.save("c"), { reason: Reason.HOLD_RELEASED });
});

test("s27 a save of unknown outcome says so", async () => {
  await using bench = await Bench.create();
  const { hold } = await bench.held();
  bench.sidecar.script.saves.push(refusal(status.UNAVAILABLE, "who knows", { reason: "CHECKPOINT_UNKNOWN" }));
  await assert.rejects(hold.save("a"), CheckpointUnknownError);
  assert.equal(hold.checkpoint, undefined);
});

test("s16 a save waits for the resume, and goes with the new generation", async () => {
  await using bench = await Bench.create();
  const { hold, call, events } = await bench.held();
  call.fail(GONE);
  assert.equal((await events.next("the interruption is told")).type, "interrupted");
  const saving = hold.save("a");
  const resume = await bench.sidecar.hold();
  assert.deepEqual(bench.sidecar.script.asked, []);
  resume.tell(grant(GRANTED, { generation: 2 }));
  assert.equal(await saving, 1);
  assert.deepEqual(bench.sidecar.script.asked, ["save a of generation 2"]);
});

test("s16 a save whose connection breaks is repeated within the validity", async () => {
  await using bench = await Bench.create();
  const { hold } = await bench.held();
  bench.sidecar.script.saves.push(GONE);
  assert.equal(await hold.save("a"), 2);
  assert.deepEqual(bench.sidecar.script.asked, ["save a of generation 1", "save a of generation 1"]);

  bench.kill();
  const saving = hold.save("b");
  await eventually("the break is noticed", () => bench.sidecar.connections === 0);
  bench.clock.advance(58);
  await assert.rejects(saving, (error) => error instanceof LostError || error instanceof CheckpointUnknownError);
});

test("s26 one save is under way, and of those that wait only the newest is sent", async () => {
  await using bench = await Bench.create();
  const { hold } = await bench.held();
  const versions = await Promise.all([hold.save("a"), hold.save("b"), hold.save("c")]);
  assert.deepEqual(versions, [1, 2, 2]);
  assert.deepEqual(bench.sidecar.script.asked, ["save a of generation 1", "save c of generation 1"]);
  assert.equal(hold.checkpoint?.text(), "c");
});

test("s26 a release with a checkpoint tells both outcomes", async () => {
  await using bench = await Bench.create();
  const { script } = bench.sidecar;
  const outcome = ReleaseOutcome.RELEASED;
  const release = async (result: Partial<ReleaseResult>, options: ReleaseOptions): Promise<ReleaseResult> => {
    script.release = ReleaseResult.create({ outcome, ...result });
    return await (await bench.held()).hold.release(options);
  };
  const saved = { checkpointOutcome: CheckpointOutcome.SAVED, checkpointVersion: 7 };
  assert.equal((await release(saved, { checkpoint: "a" })).checkpointVersion, 7);
  const notSaved = { checkpointOutcome: CheckpointOutcome.NOT_SAVED, checkpointDetail: "full" };
  assert.equal((await release(notSaved, { checkpoint: "" })).checkpointDetail, "full");
  assert.deepEqual(script.asked, ["release lease-1 of generation 1 with a", "release lease-1 of generation 1 with "]);

  const taken = { outcome: ReleaseOutcome.ALREADY_LOST, lossReason: LossReason.TAKEN };
  const isLoss = (error: unknown): boolean =>
    error instanceof LostError && error.released?.checkpointOutcome === CheckpointOutcome.NOT_SAVED;
  await assert.rejects(release({ ...taken, ...notSaved }, { checkpoint: "a" }), isLoss);
});

test("s37 a sidecar that knows no checkpoints is told apart, and the lock is released", async () => {
  await using bench = await Bench.create();
  const { hold } = await bench.held();
  await assert.rejects(hold.release({ checkpoint: "a" }), { reason: Reason.UNSUPPORTED });
  assert.deepEqual(bench.sidecar.script.asked, ["release lease-1 of generation 1 with a"]);
});

test("a hold without a stream saves by its lease id", async () => {
  await using bench = await Bench.create();
  assert.equal((await bench.client.saveCheckpoint("lease-1", "a")).version, 1);
  await bench.client.release("lease-1", { checkpoint: "b" });
  assert.deepEqual(bench.sidecar.script.asked, ["save a of generation 0", "release lease-1 of generation 0 with b"]);
});
