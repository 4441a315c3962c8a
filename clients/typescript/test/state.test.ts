import assert from "node:assert/strict";
import { test } from "node:test";

import { HoldState } from "../src/hold/state.js";
import type { Loss } from "../src/index.js";
import { LossReason } from "../src/index.js";
import { ManualClock, OURS, validity } from "./fake-sidecar.js";

const BROKEN: Loss = { reason: LossReason.BROKEN, detail: "first" };
const TAKEN: Loss = { reason: LossReason.TAKEN, detail: "second" };

function granted(clock = new ManualClock()): HoldState {
  return new HoldState(clock, validity(OURS, 1_058, 58), clock.read());
}

test("s4 a hold is lost once, and keeps its first reason", () => {
  const told: Loss[] = [];
  const state = granted();
  state.onLost = (loss): void => void told.push(loss);
  state.lose(BROKEN);
  state.lose(TAKEN);
  assert.equal(state.loss, BROKEN);
  assert.deepEqual(told, [BROKEN]);
  assert.equal(state.end(), false);
});

test("s13 what its holder has ended is not lost any more", () => {
  const state = granted();
  assert.equal(state.end(), true);
  state.lose(BROKEN);
  assert.equal(state.loss, undefined);
  assert.ok(!state.signal.aborted && !state.isValid());
});

test("s4 the hold has ended here when the loss is told", () => {
  const state = granted();
  let wasValid: boolean | undefined;
  state.signal.addEventListener("abort", () => {
    wasValid = state.isValid();
  });
  state.lose(BROKEN);
  assert.equal(wasValid, false);
});

test("s21 a hold is over when a coarse clock says that it may be", () => {
  const late = { bootId: OURS, read: () => ({ earliest: 1_057_995, latest: 1_058_005 }) };
  const state = new HoldState(late, validity(OURS, 1_058, 58), { earliest: 999_990, latest: 1_000_000 });
  assert.equal(state.remainingMs(), 0);
  assert.equal(state.loss?.reason, LossReason.EXPIRED);
});
