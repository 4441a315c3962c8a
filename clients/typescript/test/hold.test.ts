// A hold as a program in TypeScript has it: signals, blocks, callbacks, getters. What it does is in the vectors.

import assert from "node:assert/strict";
import { inspect } from "node:util";

import { status } from "@grpc/grpc-js";

import { duration } from "../src/duration.js";
import { HoldState, LostError, LossReason, Notice, RefusedError, lossIn } from "../src/index.js";
import { BreakNote, ReleaseOutcome } from "../src/proto.js";
import { refusal } from "./messages.js";
import { settled, staged } from "./stage.js";

const RELEASED = "release 1 by 1";
const BOOM = new Error("boom");
const TAKEN = { result: { outcome: ReleaseOutcome.ALREADY_LOST, lossReason: LossReason.TAKEN } };
const NOT_NOW = refusal(status.UNAVAILABLE, "not now");
const GRANTED = { until: 58_000, for: 58_000 };

staged("a hold tells its grant, and keeps its secrets (S20)", async (it) => {
  const hold = await it.held({ permit: 2, attempt: 3, acquiredAt: new Date(7), hostId: "h" });
  const { fencingToken, leaseId, lockPath, hostId, permit, attempt, acquiredAt } = hold;
  assert.deepEqual([fencingToken, leaseId, lockPath, hostId], [65_536, "lease-1", "locks/p/h/f/s/FUNCTION", "h"]);
  assert.deepEqual([permit, attempt, acquiredAt, hold.checkpoint], [2, 3, new Date(7), undefined]);
  assert.equal(hold.remainingMs(), 58_000);
  assert.ok(!inspect(hold, { depth: 5, showHidden: true }).includes("lease-1"));
});

staged("s9 events say how much time is left now", async (it) => {
  const hold = await it.held();
  await it.reach(3_000);
  const wasValid = new Promise((resolve) => {
    hold.signal.addEventListener("abort", () => {
      resolve(hold.isValid());
    });
  });
  const [detail, cause] = ["no route", "STORE_UNAVAILABLE"];
  it.sidecar.tell(undefined, {
    renewed: { until: 58_000, for: 57_000 },
    at_risk: { until: 59_000, for: 57_000, cause, detail },
    recovered: { until: 60_000, for: 57_000 },
    lost: { reason: "BROKEN", detail: "by me" },
  });
  assert.equal(await wasValid, false, "S4: it has ended when that is told");
  const loss = { reason: LossReason.BROKEN, detail: "by me" };
  assert.deepEqual(it.events, [
    { type: "renewed", remainingMs: 55_000 },
    { type: "atRisk", remainingMs: 56_000, cause, detail },
    { type: "recovered", remainingMs: 57_000 },
    { type: "lost", loss },
  ]);
  assert.ok(hold.signal.reason instanceof LostError && hold.signal.reason.loss === hold.loss);
  assert.throws(() => {
    hold.throwIfLost();
  }, /BROKEN: by me/);
});

staged("a listener that throws does not harm the hold", async (it) => {
  const uncaught: unknown[] = [];
  it.replace(globalThis, "queueMicrotask", (task: () => void) => {
    try {
      task();
    } catch (error) {
      uncaught.push(error);
    }
  });
  const onEvent = (): void => {
    throw BOOM;
  };
  const hold = await it.held({}, it.client.hold({ function: "f" }, { onEvent }));
  await it.reach(20_000);
  it.sidecar.tell(undefined, { renewed: { until: 78_000, for: 58_000 } });
  await settled();
  assert.equal(hold.remainingMs(), 58_000);
  assert.deepEqual(uncaught, [BOOM, BOOM]);
});

staged("s22 a notice is a signal of its own, and knows its deadline", async (it) => {
  for (const [forPriority, whom] of [
    [7, " for a caller of priority 7"],
    [undefined, ""],
  ] as const) {
    const hold = await it.held();
    assert.ok(!hold.revokedSignal.aborted);
    const breakNote = BreakNote.create({ reason: "deploy", brokenBy: "ops", forPriority });
    it.sidecar.tell(undefined, { revoked: { until: it.now + 58_000, for: 58_000, breakNote } });
    await settled();
    const { notice } = hold;
    assert.ok(notice instanceof Notice && hold.revokedSignal.reason === notice);
    assert.deepEqual(it.events.at(-1), { type: "revoked", remainingMs: 58_000, notice });
    assert.deepEqual([notice.reason, notice.brokenBy, notice.forPriority], ["deploy", "ops", forPriority]);
    assert.ok(notice.message.startsWith(`the lock was broken by ops${whom}: deploy;`));
    assert.ok(hold.isValid() && !hold.signal.aborted && notice.remainingMs() === 58_000);
    it.sleep(58_000);
    assert.deepEqual(hold.loss, { reason: LossReason.BROKEN, detail: "deploy", breakNote }, "the loss reads the clock");
    assert.equal(notice.remainingMs(), 0);
  }
});

staged("a hold tells its state, and the answer counts", async (it) => {
  const hold = await it.held();
  const told = { state: HoldState.AT_RISK, lockPath: "locks/f", fencingToken: 65_536, generation: 1, permit: 2 };
  const answer = { until: 60_000, for: 60_000, lockPath: "locks/f", permit: 2, state: "AT_RISK" };
  const progressDue = { after: duration("after", 30_000) };
  it.sidecar.answer("get_hold", { ...answer, progressDue, max_hold: { at: 300_000, after: 300_000 } });
  const info = { ...told, remainingMs: 60_000, breakNote: undefined };
  assert.deepEqual(await hold.info(), { ...info, maxHoldRemainingMs: 300_000, progressRemainingMs: 30_000 });
  assert.deepEqual([hold.remainingMs(), hold.maxHoldRemainingMs()], [60_000, 300_000]);
  it.sidecar.answer("get_hold", answer);
  const unchanged = { maxHoldRemainingMs: 300_000, progressRemainingMs: undefined };
  assert.deepEqual(await hold.info(), { ...info, ...unchanged });
});

staged("what is no grant is none", async (it) => {
  it.sidecar.answer("get_hold", { for: 0 });
  for (const [said, error] of [
    [{ granted: {} }, LostError],
    [{}, RefusedError],
  ] as const) {
    const holding = it.client.hold({ function: "f" });
    it.sidecar.tell(undefined, said);
    it.sidecar.break(undefined, {});
    await assert.rejects(holding, error);
  }
});

type Fits = (outcome: unknown, boom: Error) => boolean;
const isLost: Fits = (it) => it instanceof LostError;
const isNotNow: Fits = (it) => it instanceof RefusedError && it.message === "not now";
/** Beside the error of the block itself, as a function or the language has it. */
const beside =
  (fits: Fits): Fits =>
  (it, boom) => {
    const { error, suppressed } = it as { error?: unknown; suppressed?: unknown };
    return it === boom ? fits(suppressed, boom) : fits(error, boom) && suppressed === boom;
  };

/** How a block ends, and its release; and what it then gives or fails with. */
const ENDS: readonly [string, { throws?: true; loses?: true; answer?: object }, Fits][] = [
  ["it ends well", {}, (it) => it === "done"],
  ["it throws", { throws: true }, (it, boom) => it === boom && lossIn(it) === undefined],
  ["it was lost", { loses: true }, isLost],
  ["it was lost, and throws", { loses: true, throws: true }, (it) => lossIn(it)?.reason === LossReason.EXPIRED],
  ["the release finds it lost", { answer: TAKEN }, isLost],
  ["the release fails", { answer: NOT_NOW }, isNotNow],
  ["it throws, and the release finds it lost", { throws: true, answer: TAKEN }, beside(isLost)],
  ["it throws, and the release fails", { throws: true, answer: NOT_NOW }, beside(isNotNow)],
];

for (const [how, { throws, loses, answer }, fits] of ENDS) {
  staged(`s4 s13 a block releases its lock and tells of a loss where ${how}`, async (it) => {
    const { client, sidecar } = it;
    if (answer !== undefined) sidecar.answers["release"] = [answer];
    const boom = new Error("boom");
    const work = (): string => {
      if (loses) it.sleep(58_000);
      if (throws) throw boom;
      return "done";
    };
    const block = async (): Promise<string> => {
      await using hold = await client.hold({ function: "f" });
      assert.ok(hold.isValid());
      return work();
    };
    for (const start of [() => client.withHold({ function: "f" }, work), block]) {
      const done = start().catch((error: unknown) => error);
      sidecar.tell(undefined, { granted: { ...GRANTED, until: it.now + 58_000 } });
      const outcome = await done;
      assert.ok(fits(outcome, boom), String(outcome));
      assert.equal(sidecar.asked.pop(), RELEASED);
    }
  });
}

staged("s13 a release is one, whoever calls it how often, and a block that was told is silent", async (it) => {
  const hold = await it.held();
  const releasing = hold.release();
  assert.ok(!hold.isValid(), "from the first moment on");
  assert.equal(hold.release(), releasing);
  assert.equal((await releasing).outcome, ReleaseOutcome.RELEASED);
  assert.ok(!hold.signal.aborted && hold.loss === undefined);
  it.sidecar.answers["release"] = [NOT_NOW];
  await using told = await it.held();
  await assert.rejects(told.release(), { message: "not now" });
});

staged("the caller's signal ends the wait, and aborts the work", async (it) => {
  const { client, sidecar } = it;
  const waiting = new AbortController();
  const holding = client.hold({ function: "f", waitMs: Infinity }, { signal: waiting.signal });
  waiting.abort(BOOM);
  await assert.rejects(holding, BOOM);
  assert.deepEqual(sidecar.open, []);
  await assert.rejects(client.hold({ function: "f" }, { signal: waiting.signal }), BOOM);
  await assert.rejects(client.acquire({ function: "f" }, { signal: waiting.signal }), BOOM);
  const working = new AbortController();
  const work = async (signal: AbortSignal): Promise<void> => {
    working.abort(BOOM);
    await Promise.resolve();
    signal.throwIfAborted();
  };
  const done = client.withHold({ function: "f" }, work, { signal: working.signal });
  sidecar.tell(undefined, { granted: GRANTED });
  await assert.rejects(done, BOOM);
  assert.deepEqual(sidecar.asked, [RELEASED]);
});

staged("s13 a client that is closed ends its holds, and waits no more", async (it) => {
  const hold = await it.held();
  const holding = [1, 2].map(() => it.client.hold({ function: "f", waitMs: Infinity }));
  it.sidecar.break(undefined, { code: "UNAVAILABLE" });
  await settled();
  const closed = holding.map((asked) => assert.rejects(asked, { name: "RefusedError", code: status.CANCELLED }));
  const closing = it.client.close();
  assert.ok(!hold.isValid() && hold.signal.aborted);
  assert.equal(hold.loss?.reason, LossReason.UNSPECIFIED);
  await it.reach(50);
  await Promise.all([...closed, closing]);
  assert.deepEqual(it.sidecar.open, []);
});
