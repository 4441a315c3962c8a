// What a checkpoint is in TypeScript, and which saves are sent. The rest is in vectors and in tests/clients.

import assert from "node:assert/strict";
import { test } from "node:test";

import { status } from "@grpc/grpc-js";

import type { ReleaseOptions, ReleaseResult } from "../src/index.js";
import {
  CHECKPOINT_BYTES_MAX,
  Checkpoint,
  CheckpointOutcome,
  CheckpointUnknownError,
  LostError,
  OutcomeResult,
  Reason,
  RefusedError,
  ReleaseOutcome,
} from "../src/index.js";
import { Bench, GONE, OURS, PATIENCE_MS, eventually, grant, refusal, validity } from "./fake-sidecar.js";

const SHORT = { timeout: PATIENCE_MS };

test("s24 s25 a checkpoint is bytes, a text or JSON: the last holder's, then this one's", SHORT, async () => {
  await using bench = await Bench.create();
  const [value, savedAt] = [Buffer.from('{"next":7}'), new Date(1_700_000_000_000)];
  const checkpoint = { value, version: 12, fencingToken: 9, savedAt };
  const { hold } = await bench.held(grant(validity(OURS, 1_058, 58), { checkpoint }));
  assert.deepEqual(hold.checkpoint, new Checkpoint(value, 12, 9, savedAt));
  assert.deepEqual([hold.checkpoint.json(), hold.checkpoint.text()], [{ next: 7 }, '{"next":7}']);
  assert.throws(() => new Checkpoint(Uint8Array.of(0xff), 1, 1, undefined).text(), TypeError);
  assert.equal(await hold.save(Uint8Array.of(0x62)), 1);
  assert.deepEqual(hold.checkpoint, new Checkpoint(Buffer.from("b"), 1, 65_536, undefined));
  assert.equal(await hold.saveJson({ next: 8 }), 2);
  await assert.rejects(hold.saveJson(undefined), TypeError);
  await hold.release({ checkpoint: "c" }).catch(() => undefined);
  await assert.rejects(hold.save("d"), { reason: Reason.HOLD_RELEASED });
  const saves = ["saveCheckpoint lease-1 1 b", 'saveCheckpoint lease-1 1 {"next":8}'];
  assert.deepEqual(bench.sidecar.asked, [...saves, "releaseLease lease-1 1 c"]);
});

test("s19 a checkpoint that is too long is refused before it is sent, and the hold goes on", SHORT, async () => {
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
  assert.ok(hold.isValid());
  assert.deepEqual(bench.sidecar.asked, []);
  assert.equal(await hold.save("a".repeat(CHECKPOINT_BYTES_MAX)), 1);
});

test("s26 one save is under way, and of those that wait only the newest is sent", SHORT, async () => {
  await using bench = await Bench.create();
  const { hold } = await bench.held();
  assert.deepEqual(await Promise.all([hold.save("a"), hold.save("b"), hold.save("c")]), [1, 2, 2]);
  assert.deepEqual(bench.sidecar.asked, ["saveCheckpoint lease-1 1 a", "saveCheckpoint lease-1 1 c"]);
  assert.equal(hold.checkpoint?.text(), "c");
});

test("s16 s27 a save whose answer was lost is repeated within the validity, or is unknown", SHORT, async () => {
  await using bench = await Bench.create();
  const { sidecar, clock } = bench;
  const { hold } = await bench.held();
  sidecar.answers["saveCheckpoint"] = [GONE, { version: 7 }];
  assert.equal(await hold.save("a"), 7);
  assert.deepEqual(sidecar.asked, ["saveCheckpoint lease-1 1 a", "saveCheckpoint lease-1 1 a"]);
  sidecar.answers["saveCheckpoint"] = [refusal(status.UNAVAILABLE, "who knows", { reason: "CHECKPOINT_UNKNOWN" })];
  await assert.rejects(hold.save("b"), CheckpointUnknownError);
  sidecar.answers["saveCheckpoint"] = [GONE];
  const saving = hold.save("c");
  await eventually("it is sent", () => sidecar.asked.length === 4);
  clock.advance(58);
  await assert.rejects(saving, CheckpointUnknownError);
  await assert.rejects(hold.save("d"), LostError);
  assert.ok(!sidecar.asked.some((asked) => asked.endsWith("d")), "who has lost asks nobody");
});

const { RELEASED, ALREADY_RELEASED, ALREADY_LOST } = ReleaseOutcome;
const { NOT_RECORDED, RECORDED, UNKNOWN } = OutcomeResult;
const [saving, done] = [{ checkpoint: "" }, { outcome: "succeeded" }] as const;
const notSaved = { checkpointOutcome: CheckpointOutcome.NOT_SAVED };

/** What a release is with, what it is answered with, and what its caller is told. */
const RELEASES: readonly [ReleaseOptions, Partial<ReleaseResult>, string][] = [
  [saving, { outcome: RELEASED }, "UNSUPPORTED"],
  [saving, { outcome: RELEASED, ...notSaved }, "CHECKPOINT_OUTCOME_NOT_SAVED"],
  [saving, { outcome: ALREADY_LOST, ...notSaved }, "LostError CHECKPOINT_OUTCOME_NOT_SAVED"],
  [done, { outcome: RELEASED, outcomeResult: RECORDED }, "CHECKPOINT_OUTCOME_UNSPECIFIED"],
  [done, { outcome: RELEASED, outcomeResult: NOT_RECORDED }, "OutcomeNotRecordedError"],
  [done, { outcome: RELEASED, outcomeResult: UNKNOWN }, "OutcomeNotRecordedError"],
  [done, { outcome: ALREADY_RELEASED }, "OutcomeNotRecordedError"],
  [{ outcome: "failedFinal" }, { outcome: RELEASED }, "UNSUPPORTED"],
];

/** What a release is answered with, in a word. */
async function told(releasing: Promise<ReleaseResult>): Promise<string> {
  const outcome: unknown = await releasing.catch((error: unknown) => error);
  if (outcome instanceof LostError) return `LostError ${String(outcome.released?.checkpointOutcome)}`;
  if (outcome instanceof RefusedError) return String(outcome.reason);
  return outcome instanceof Error ? outcome.name : (outcome as ReleaseResult).checkpointOutcome;
}

test("s26 s37 t8 a release with a checkpoint or an outcome tells what became of it", SHORT, async () => {
  await using bench = await Bench.create();
  for (const [ending, result, end] of RELEASES) {
    bench.sidecar.answers["releaseLease"] = [{ result }];
    assert.equal(await told((await bench.held()).hold.release(ending)), end, JSON.stringify([ending, result]));
  }
  assert.equal(await told(bench.client.release("l", { outcome: "failed", checkpoint: "a" })), "UNSUPPORTED");
  const last = ["releaseLease lease-1 1 FAILED_FINAL", "releaseLease l 0 a FAILED"];
  assert.deepEqual(bench.sidecar.asked.slice(-2), last);
});
