import assert from "node:assert/strict";
import { test } from "node:test";

import { KnownValidity } from "../src/hold/known-validity.js";
import type { BootReading } from "../src/hold/boot-clock.js";
import { BootClock, machineClock } from "../src/hold/boot-clock.js";
import { duration, milliseconds } from "../src/duration.js";
import type { Validity } from "../src/proto.js";
import { ELSEWHERE, OURS, validity } from "./fake-sidecar.js";

function at(seconds: number): BootReading {
  return { earliest: seconds * 1_000, latest: seconds * 1_000 };
}

function after(told: Validity, sent: BootReading | undefined, now: BootReading): KnownValidity {
  const known = new KnownValidity();
  known.takeIn(told, sent, now, OURS);
  return known;
}

test("s21 an unknown boot id is not ours", () => {
  const known = new KnownValidity();
  known.takeIn(validity("", 158, 58), at(99), at(100), "");
  assert.notEqual(known.nextQuestion, undefined);
});

test("s21 a coarse clock is read to the safe side", () => {
  const sent = { earliest: 99_000, latest: 99_010 };
  assert.equal(after(validity(ELSEWHERE, 9_158, 58), sent, at(140)).until, 157_000);
  // Made between the two ends of a reading: no other clock's.
  const close = validity(OURS, 157.005, 58);
  assert.equal(after(close, sent, { earliest: 99_000, latest: 99_010 }).until, 157_005);
});

test("nonsense ends the validity", () => {
  const told = { validUntil: undefined, validFor: { seconds: -5, nanos: 0 } };
  assert.equal(after(told, at(100), at(101)).until, 100_000);
});

test("s3 the boot clock never goes back, and its readings are apart by its step", async () => {
  const clock = new BootClock();
  const first = clock.read();
  assert.ok(first.earliest > 0);
  assert.equal(first.latest - first.earliest, 10);
  assert.match(clock.bootId, /^[0-9a-f-]{36}$/);
  const deadline = performance.now() + 20_000;
  while (clock.read().earliest === first.earliest) {
    assert.ok(performance.now() < deadline, "the clock goes on");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert.ok(clock.read().earliest > first.earliest);
  assert.equal(machineClock(), machineClock());
});

test("spans survive the wire", () => {
  assert.equal(milliseconds(duration("span", 58_300)), 58_300);
  assert.deepEqual(duration("span", 1.5), { seconds: 0, nanos: 1_500_000 });
  assert.deepEqual(duration("span", 999.9999999), { seconds: 0, nanos: 999_999_999 });
  assert.equal(milliseconds(undefined), 0);
  assert.equal(duration("span", Infinity).seconds, 315_576_000_000);
  assert.throws(() => duration("waitMs", -1), /waitMs is -1/);
  assert.throws(() => duration("waitMs", NaN), RangeError);
});
