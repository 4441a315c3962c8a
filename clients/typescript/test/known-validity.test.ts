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

test("s21 same kernel compares clocks however late the message is read", () => {
  const known = after(validity(OURS, 158, 58), at(99), at(140));
  assert.equal(known.until, 158_000);
  assert.equal(known.nextQuestion, undefined);
});

test("s21 elsewhere the span counts from before the request", () => {
  const known = after(validity(ELSEWHERE, 9_158, 58), at(99), at(140));
  assert.equal(known.until, (99 + 58) * 1_000);
  assert.equal(known.nextQuestion, 99_000 + 58_000 / 2);
});

test("s21 elsewhere a renewal is asked about at once, and once", () => {
  const known = after(validity(ELSEWHERE, 9_158, 58), at(99), at(100));
  // A question that crosses with the renewal may have been answered before it.
  known.takeIn(validity(ELSEWHERE, 9_178, 58), undefined, at(120), OURS);
  assert.equal(known.nextQuestion, 120_000);
  known.takeIn(validity(ELSEWHERE, 9_158, 38), at(119), at(121), OURS);
  assert.equal(known.nextQuestion, 120_000);
  known.takeIn(validity(ELSEWHERE, 9_178, 56), at(122), at(123), OURS);
  assert.equal(known.until, 178_000);
  assert.equal(known.nextQuestion, 122_000 + 56_000 / 2);
});

test("s21 elsewhere what promises hardly more is not asked about", () => {
  const known = after(validity(ELSEWHERE, 9_160, 60), at(100), at(100));
  known.takeIn(validity(ELSEWHERE, 9_166, 60), undefined, at(106), OURS);
  assert.equal(known.nextQuestion, 130_000);
  known.takeIn(validity(ELSEWHERE, 9_167, 60), undefined, at(107), OURS);
  assert.equal(known.nextQuestion, 107_000);
});

test("s21 elsewhere a message that answers nothing extends nothing", () => {
  const known = after(validity(ELSEWHERE, 9_158, 58), at(99), at(100));
  known.takeIn(validity(ELSEWHERE, 9_178, 58), undefined, at(120), OURS);
  assert.equal(known.until, 157_000);
  assert.equal(milliseconds(known.told?.sinceBoot), 9_178_000, "a resume says what was told");
});

test("s21 an unknown boot id is not ours", () => {
  const known = new KnownValidity();
  known.takeIn(validity("", 158, 58), at(99), at(100), "");
  assert.notEqual(known.nextQuestion, undefined);
});

test("s21 a shifted clock with our boot id is found out", () => {
  // Ours is behind the sidecar's: taken at its word, the hold would seem to last 1,000 s longer.
  assert.equal(after(validity(OURS, 1_158, 58), at(99), at(100)).until, 157_000);
  // Ours is ahead.
  assert.equal(after(validity(OURS, 158, 58), at(1_099), at(1_100)).until, 1_157_000);
});

test("s21 a coarse clock is read to the safe side", () => {
  const sent = { earliest: 99_000, latest: 99_010 };
  assert.equal(after(validity(ELSEWHERE, 9_158, 58), sent, at(140)).until, 157_000);
  // Made between the two ends of a reading: no other clock's.
  const close = validity(OURS, 157.005, 58);
  assert.equal(after(close, sent, { earliest: 99_000, latest: 99_010 }).until, 157_005);
});

test("an older answer that comes later changes nothing", () => {
  const known = after(validity(OURS, 178, 58), undefined, at(121));
  known.takeIn(validity(OURS, 158, 58), at(99), at(122), OURS);
  assert.equal(known.until, 178_000);
});

test("a newer message may shorten", () => {
  const known = after(validity(OURS, 178, 58), undefined, at(121));
  known.takeIn(validity(OURS, 140, 15), undefined, at(126), OURS);
  assert.equal(known.until, 140_000);
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
