// What a checkpoint is in TypeScript, and which saves are sent. The rest is in vectors and in tests/clients.

import assert from "node:assert/strict";

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
import { errorOf } from "./messages.js";
import { settled, staged } from "./stage.js";

const GONE = errorOf({ code: "UNAVAILABLE" });

staged("s24 s25 a checkpoint is bytes, a text or JSON: the last holder's, then this one's", async (it) => {
  const [value, savedAt] = [Buffer.from('{"next":7}'), new Date(1_700_000_000_000)];
  const hold = await it.held({ checkpoint: { value, version: 12, fencingToken: 9, savedAt } });
  assert.deepEqual(hold.checkpoint, new Checkpoint(value, 12, 9, savedAt));
  assert.deepEqual([hold.checkpoint.json(), hold.checkpoint.text()], [{ next: 7 }, '{"next":7}']);
  assert.throws(() => new Checkpoint(Uint8Array.of(0xff), 1, 1, undefined).text(), TypeError);
  assert.equal(await hold.save(Uint8Array.of(0x62)), 1);
  assert.deepEqual(hold.checkpoint, new Checkpoint(Buffer.from("b"), 1, 65_536, undefined));
  assert.equal(await hold.saveJson({ next: 8 }), 2);
  await assert.rejects(hold.saveJson(undefined), TypeError);
  await hold.release({ checkpoint: "c" }).catch(() => undefined);
  await assert.rejects(hold.save("d"), { reason: Reason.HOLD_RELEASED });
  const saves = ["save_checkpoint 1 b by 1", 'save_checkpoint 1 {"next":8} by 1'];
  assert.deepEqual(it.sidecar.asked, [...saves, "release 1 c by 1"]);
});

staged("s19 a checkpoint that is too long is refused before it is sent, and the hold goes on", async (it) => {
  const hold = await it.held();
  const tooLong = "a".repeat(CHECKPOINT_BYTES_MAX + 1);
  const isTooLong = (field: string): object => ({
    reason: Reason.INVALID_FIELD,
    message: RegExp(`${field}.*2049 bytes`),
  });
  await assert.rejects(hold.save(tooLong), isTooLong("value"));
  await assert.rejects(hold.release({ checkpoint: tooLong }), isTooLong("checkpoint"));
  assert.ok(hold.isValid());
  assert.deepEqual(it.sidecar.asked, []);
});

staged("s26 the newest of several saves is what the hold knows, in whichever order they are answered", async (it) => {
  const { answers, asked } = it.sidecar;
  const hold = await it.held();
  assert.deepEqual(await Promise.all([hold.save("a"), hold.save("b")]), [1, 2]);
  assert.deepEqual(asked, ["save_checkpoint 1 a by 1", "save_checkpoint 1 b by 1"]);
  assert.equal(hold.checkpoint?.text(), "b");
  answers["save_checkpoint"] = [];
  const earlier = hold.save("c");
  await settled();
  answers["save_checkpoint"] = [{ version: 4 }];
  assert.equal(await hold.save("d"), 4);
  it.sidecar.answer("save_checkpoint", { version: 3 });
  assert.equal(await earlier, 3);
  assert.equal(hold.checkpoint.text(), "d");
});

staged("s27 a save that nobody answers is unknown, and is not sent again", async (it) => {
  const { answers, asked } = it.sidecar;
  const hold = await it.held();
  const unknown = errorOf({ code: "UNAVAILABLE", reason: "CHECKPOINT_UNKNOWN" });
  const away = errorOf({ code: "UNAVAILABLE", reason: "SHUTTING_DOWN" });
  for (const answer of [GONE, unknown, errorOf({ code: "DEADLINE_EXCEEDED" })]) {
    answers["save_checkpoint"] = [answer];
    await assert.rejects(hold.save("a"), CheckpointUnknownError);
    answers["save_checkpoint"] = [answer];
    await assert.rejects(it.client.saveCheckpoint("l", "b"), CheckpointUnknownError);
  }
  answers["save_checkpoint"] = [away];
  await assert.rejects(hold.save("c"), { reason: Reason.SHUTTING_DOWN });
  assert.equal(asked.length, 7);
  await it.reach(60_000);
  await assert.rejects(hold.save("d"), LostError);
  assert.equal(asked.length, 7, "who has lost asks nobody");
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

staged("s26 s37 t8 a release with a checkpoint or an outcome tells what became of it", async (it) => {
  const { answers, asked } = it.sidecar;
  for (const [ending, result, end] of RELEASES) {
    answers["release"] = [{ result }];
    assert.equal(await told((await it.held()).release(ending)), end, JSON.stringify([ending, result]));
    it.sidecar.on().end();
    await settled();
  }
  assert.equal(await told(it.client.release("l", { outcome: "failed", checkpoint: "a" })), "UNSUPPORTED");
  assert.deepEqual(asked.slice(-2), ["release 1 FAILED_FINAL by 1", "release 0 a FAILED by 2"]);
});
