// Test support against a real sidecar: tests/clients runs this with LEASEHOLD_PROGRAM.

import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";

import type { Hold, HoldEvent } from "leasehold-client";
import { LossReason } from "leasehold-client";
import { Sidecar, withSidecar } from "leasehold-client/testing";

const JOB = { function: "job" };

const PART = { function: "job", scope: "part" };

/** A test with a sidecar of its own. */
function scene(name: string, body: (sidecar: Sidecar) => Promise<void>): void {
  test(name, withSidecar(body));
}

/** Why the hold was lost, once it is. */
async function lost(hold: Hold): Promise<LossReason | undefined> {
  await aborted(hold.signal);
  return hold.loss?.reason;
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, "abort");
}

/** A listener, and a promise of the first event of a kind. */
function waitFor(kind: HoldEvent["type"]): { onEvent: (event: HoldEvent) => void; told: Promise<void> } {
  const heard = new AbortController();
  const onEvent = (event: HoldEvent): void => {
    if (event.type === kind) heard.abort();
  };
  return { onEvent, told: aborted(heard.signal) };
}

scene("a lock is lost at once, and a break is told and leaves time", async (sidecar) => {
  const client = await sidecar.client();
  const gone = await client.hold(JOB);
  await sidecar.lose(JOB);
  assert.equal(await lost(gone), LossReason.BROKEN);
  assert.notEqual((await sidecar.waitUntilAvailable(JOB)).breakNote, undefined);
  const hold = await client.hold(PART);
  await sidecar.breakLock(PART, "a new version");
  await aborted(hold.revokedSignal);
  assert.equal(hold.notice?.reason, "a new version");
  assert.ok(hold.isValid());
  await hold.release();
  await sidecar.waitUntilAvailable(PART);
});

scene("a hold is lost by its own clock while the sidecar is paused", async (sidecar) => {
  const hold = await (await sidecar.client()).hold(JOB);
  await sidecar.paused(async () => {
    await assert.rejects(sidecar.lose(JOB), /is paused/);
    assert.equal(await lost(hold), LossReason.EXPIRED);
  });
  await sidecar.waitUntilAvailable(JOB);
});

scene("a killed sidecar forgets its locks", async (sidecar) => {
  const hold = await (await sidecar.client()).hold(JOB);
  await sidecar.kill();
  await assert.rejects(sidecar.lose(JOB), /does not run/);
  await sidecar.start();
  await lost(hold);
  await sidecar.waitUntilAvailable(JOB);
});

test("a hold is resumed where locks outlast the sidecar", async () => {
  const folder = await mkdtemp(path.join(tmpdir(), "lh-"));
  const settings = { "store.kind": "embedded", "store.embedded.path": path.join(folder, "locks.db") };
  try {
    const { onEvent, told } = waitFor("resumed");
    const resumes = async (sidecar: Sidecar): Promise<void> => {
      const hold = await (await sidecar.client()).hold(JOB, { onEvent });
      await sidecar.kill();
      await sidecar.start();
      await told;
      assert.ok(hold.isValid());
      await hold.release();
    };
    await withSidecar(resumes, { settings })();
  } finally {
    await rm(folder, { recursive: true });
  }
});

scene("who waits can be waited for", async (sidecar) => {
  const client = await sidecar.client();
  const first = await client.hold(JOB);
  assert.equal((await sidecar.waitUntilHeld(JOB)).waitersHere, 0);
  const second = client.hold({ ...JOB, waitMs: Infinity });
  await sidecar.waitUntilWaiting(JOB);
  await first.release();
  await (await second).release();
});

scene("a shutdown is told", async (sidecar) => {
  const { onEvent, told } = waitFor("draining");
  const hold = await (await sidecar.client()).hold(JOB, { onEvent });
  const stopped = sidecar.stop();
  await told;
  await hold.release();
  await stopped;
  assert.match(sidecar.log(), /shut down/);
});

test("each sidecar has locks of its own", async () => {
  await using one = await Sidecar.start();
  await using other = await Sidecar.start();
  for (const sidecar of [one, other]) await (await sidecar.client()).hold(JOB);
  await one.waitUntilHeld(JOB);
  await other.waitUntilHeld(JOB);
});

test("what is wrong is said, with the log", async () => {
  let folder = "";
  const fails = withSidecar(async (sidecar) => {
    folder = path.dirname(sidecar.endpoint.slice("unix://".length));
    await assert.rejects(sidecar.lose(PART), /"part"\} cannot be lost or broken: nobody/);
    const late = /^Error: not after 1 ms: the lock .*"job"\} is held\. It is \{/;
    await assert.rejects(sidecar.waitUntilHeld(JOB, { timeoutMs: 1 }), late);
    // What it logs is written by the time that it has ended.
    await sidecar.stop();
    throw new Error("wrong");
  });
  await assert.rejects(fails(), /^Error: wrong\nthe sidecar's log:\n[^]*listening[^]*shut down/);
  assert.equal(existsSync(folder), false);
  await assert.rejects(Sidecar.start({ settings: { colour: "red" } }), /there is no setting colour/);
  await assert.rejects(Sidecar.start({ program: "/nowhere/leasehold" }), /cannot start \/nowhere\/leasehold/);
});
