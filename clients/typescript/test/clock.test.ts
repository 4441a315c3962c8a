// The boot clock, and what is counted by it. What a validity means is in the vectors, whose clock is exact.

import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";

import type { BootReading } from "../src/hold/boot-clock.js";
import { BootClock, MacClock, clockOf, isShifted, machineClock } from "../src/hold/boot-clock.js";
import { KnownValidity } from "../src/hold/known-validity.js";
import { HoldState } from "../src/hold/state.js";
import { LossReason, PlatformError } from "../src/index.js";
import type { Validity } from "../src/proto.js";
import { duration } from "../src/duration.js";
import { ELSEWHERE, OURS } from "./messages.js";

test("s21 a clock that a time namespace shifts is not the kernel's", async () => {
  const [zero, one, other] = [
    "monotonic           7         0\nboottime            0         0\n",
    "time:[1]",
    "time:[2]",
  ];
  const cases: [string | undefined, string | undefined, string | undefined, boolean][] = [
    [zero, one, one, false],
    [undefined, undefined, undefined, false],
    ["monotonic 0 0\nboottime 9 0\n", one, one, true],
    ["boottime -1 500000000\n", one, one, true],
    [zero, one, other, true],
    [zero, undefined, undefined, true],
    [undefined, one, one, true],
    ["nonsense", one, one, true],
  ];
  for (const [offsets, ours, ofChildren, shifted] of cases) {
    const folder = await mkdtemp(path.join(tmpdir(), "leasehold-"));
    await mkdir(path.join(folder, "ns"));
    if (offsets !== undefined) await writeFile(path.join(folder, "timens_offsets"), offsets);
    if (ours !== undefined) await symlink(ours, path.join(folder, "ns/time"));
    if (ofChildren !== undefined) await symlink(ofChildren, path.join(folder, "ns/time_for_children"));
    const found = isShifted(folder);
    await rm(folder, { recursive: true });
    assert.equal(found, shifted, `${offsets ?? ""} ${ours ?? ""} ${ofChildren ?? ""}`);
  }
});

test("s3 the boot clock never goes back, and its readings are apart by its step", async () => {
  const clock = new BootClock();
  const first = clock.read();
  assert.ok(first.earliest > 0);
  assert.equal(first.latest - first.earliest, 10);
  assert.match(clock.bootId, /^[0-9a-f-]{36}$/);
  // It goes on.
  while (clock.read().earliest <= first.earliest) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(machineClock(), machineClock());
});

test("each platform has its clock, or says why not", () => {
  const mac = clockOf("darwin");
  assert.ok(mac instanceof MacClock);
  assert.equal(mac.bootId, "", "S21: no sidecar is compared with it");
  const first = mac.read();
  assert.ok(mac.read().latest >= first.earliest);
  assert.notEqual(clockOf("linux").bootId, "");
  assert.throws(() => clockOf("win32"), PlatformError);
});

/** A validity in milliseconds since boot, which lasts for 58 s from when it was made. */
function validity(bootId: string, until: number): Validity {
  return { validUntil: { bootId, sinceBoot: duration("until", until) }, validFor: duration("for", 58_000) };
}

function known(told: Validity, sent: BootReading, now: BootReading, bootId = OURS): KnownValidity {
  const after = new KnownValidity();
  after.takeIn(told, sent, now, bootId);
  return after;
}

test("s21 a coarse clock is read to the safe side, and an unknown one is not ours", () => {
  const [sent, now] = [
    { earliest: 99_000, latest: 99_010 },
    { earliest: 140_000, latest: 140_000 },
  ];
  assert.equal(known(validity(ELSEWHERE, 9_158_000), sent, now).until, 157_000);
  // Made between the two ends of a reading: no other clock's.
  assert.equal(known(validity(OURS, 157_005), sent, sent).until, 157_005);
  assert.notEqual(known(validity("", 157_005), sent, sent, "").nextQuestion, undefined);
  const nonsense = { validUntil: undefined, validFor: { seconds: -5, nanos: 0 } };
  assert.equal(known(nonsense, sent, now).until, 99_000);
  const late = { bootId: OURS, read: () => ({ earliest: 1_057_995, latest: 1_058_005 }) };
  const state = new HoldState(late, validity(OURS, 1_058_000), { earliest: 999_990, latest: 1_000_000 });
  assert.deepEqual([state.remainingMs(), state.loss?.reason], [0, LossReason.EXPIRED]);
});
