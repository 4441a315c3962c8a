// A hold as a program in TypeScript has it: signals, blocks, callbacks, getters. What it does is in the vectors.

import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";

import { status } from "@grpc/grpc-js";

import type { HoldInfo, HoldOptions } from "../src/index.js";
import {
  HoldState,
  LostError,
  LossReason,
  Notice,
  ProtocolError,
  RefusedError,
  ReleaseOutcome,
  lossIn,
} from "../src/index.js";
import type { Deadline, Validity } from "../src/proto.js";
import { BreakNote, ErrorReason as WireReason } from "../src/proto.js";
import type { Event } from "./fake-sidecar.js";
import { Bench, GRANTED, LOST, OURS, PATIENCE_MS, eventually, grant, refusal, validity } from "./fake-sidecar.js";

const SHORT = { timeout: PATIENCE_MS };
const RELEASED = "releaseLease lease-1 1";
const BOOM = new Error("boom");
const TAKEN = { result: { outcome: ReleaseOutcome.ALREADY_LOST, lossReason: LossReason.TAKEN } };
const NOT_NOW = refusal(status.UNAVAILABLE, "not now");

function renewed(granted: Validity): Event {
  return { $case: "renewed", value: { validity: granted, resumeToken: "", maxHoldEnds: undefined } };
}

test("a hold tells its grant, and keeps its secrets (S20)", SHORT, async () => {
  await using bench = await Bench.create();
  const { hold } = await bench.held(
    grant(validity(OURS, 1_058, 58), { permit: 2, attempt: 3, acquiredAt: new Date(7) }),
  );
  const { fencingToken, leaseId, lockPath, hostId, permit, attempt, acquiredAt } = hold;
  assert.deepEqual([fencingToken, leaseId, lockPath, hostId], [65_536, "lease-1", "locks/p/h/f/s/FUNCTION", "h"]);
  assert.deepEqual([permit, attempt, acquiredAt, hold.checkpoint], [2, 3, new Date(7), undefined]);
  assert.equal(hold.remainingMs(), 58_000);
  assert.ok(!inspect(hold, { depth: 5, showHidden: true }).includes("lease-1"));
});

test("s9 events say how much time is left now", SHORT, async () => {
  await using bench = await Bench.create();
  const { hold, call, events } = await bench.held();
  bench.clock.advance(3);
  const [detail, cause] = ["no route", WireReason.STORE_UNAVAILABLE];
  call.tell(renewed(validity(OURS, 1_058, 57)));
  call.tell({ $case: "atRisk", value: { validity: validity(OURS, 1_059, 57), cause, detail } });
  call.tell({ $case: "recovered", value: { validity: validity(OURS, 1_060, 57) } });
  const wasValid = new Promise((resolve) => {
    hold.signal.addEventListener("abort", () => {
      resolve(hold.isValid());
    });
  });
  call.tell({ ...LOST, value: { ...LOST.value, detail: "by me" } });
  assert.equal(await wasValid, false, "S4: it has ended when that is told");
  const loss = { reason: LossReason.BROKEN, detail: "by me" };
  assert.deepEqual(events.items, [
    { type: "renewed", remainingMs: 55_000 },
    { type: "atRisk", remainingMs: 56_000, cause: "STORE_UNAVAILABLE", detail },
    { type: "recovered", remainingMs: 57_000 },
    { type: "lost", loss },
  ]);
  assert.ok(hold.signal.reason instanceof LostError && hold.signal.reason.loss === hold.loss);
  assert.throws(() => {
    hold.throwIfLost();
  }, /BROKEN: by me/);
});

test("a listener that throws does not harm the hold", SHORT, async (context) => {
  const uncaught: unknown[] = [];
  context.mock.method(globalThis, "queueMicrotask", (task: () => void) => {
    try {
      task();
    } catch (error) {
      uncaught.push(error);
    }
  });
  await using bench = await Bench.create();
  const onEvent = (): void => {
    throw BOOM;
  };
  const holding = bench.client.hold({ function: "f" }, { onEvent });
  const call = await bench.sidecar.hold();
  call.tell(GRANTED);
  const hold = await holding;
  bench.clock.advance(20);
  call.tell(renewed(validity(OURS, 1_078, 58)));
  await eventually("the renewal is taken in", () => hold.remainingMs() === 58_000);
  assert.deepEqual(uncaught, [BOOM, BOOM]);
});

test("s22 a notice is a signal of its own, and knows its deadline", SHORT, async () => {
  await using bench = await Bench.create();
  for (const forPriority of [7, undefined]) {
    const now = bench.clock.read().latest / 1_000;
    const { hold, call, events } = await bench.held(grant(validity(OURS, now + 58, 58)));
    assert.ok(!hold.revokedSignal.aborted);
    bench.clock.advance(10);
    const breakNote = BreakNote.create({ reason: "deploy", brokenBy: "ops", forPriority });
    call.tell({ $case: "revoked", value: { validity: validity(OURS, now + 58, 48), breakNote } });
    await eventually("the notice is told", () => hold.revokedSignal.aborted);
    const { notice } = hold;
    assert.ok(notice instanceof Notice && hold.revokedSignal.reason === notice);
    assert.deepEqual(events.items, [{ type: "revoked", remainingMs: 48_000, notice }]);
    const { reason, brokenBy } = notice;
    assert.deepEqual(
      [reason, brokenBy, notice.forPriority, notice.breakNote],
      ["deploy", "ops", forPriority, breakNote],
    );
    const whom = forPriority === undefined ? "" : " for a caller of priority 7";
    assert.ok(notice.message.startsWith(`the lock was broken by ops${whom}: deploy;`));
    assert.ok(hold.isValid() && !hold.signal.aborted && notice.remainingMs() === 48_000);
    bench.clock.advance(48);
    assert.deepEqual(hold.loss, { reason: LossReason.BROKEN, detail: "deploy", breakNote }, "the loss reads the clock");
    assert.equal(notice.remainingMs(), 0);
  }
});

test("a hold tells its state, and the answer counts", SHORT, async () => {
  await using bench = await Bench.create();
  const { hold } = await bench.held();
  const after = (until: number, validFor: number): Deadline => {
    const told = validity(OURS, until, validFor);
    return { at: told.validUntil, after: told.validFor };
  };
  const told = { state: HoldState.AT_RISK, lockPath: "locks/f", fencingToken: 65_536, generation: 1, permit: 2 };
  const answer = { ...told, validity: validity(OURS, 1_060, 60) };
  const limits = { progressDue: after(1_030, 30), maxHoldEnds: after(1_300, 300) };
  bench.sidecar.answers["getHold"] = [{ ...answer, ...limits }, answer];
  const info: HoldInfo = { ...told, remainingMs: 60_000, breakNote: undefined } as HoldInfo;
  assert.deepEqual(await hold.info(), { ...info, maxHoldRemainingMs: 300_000, progressRemainingMs: 30_000 });
  assert.deepEqual([hold.remainingMs(), hold.maxHoldRemainingMs()], [60_000, 300_000]);
  assert.deepEqual(await hold.info(), { ...info, maxHoldRemainingMs: undefined, progressRemainingMs: undefined });
});

test("what is no grant is none", SHORT, async () => {
  await using bench = await Bench.create();
  bench.sidecar.answers["getHold"] = [{ validity: validity(OURS, 0, 0) }];
  const without = { ...GRANTED, value: { ...GRANTED.value, validity: undefined } };
  for (const [said, error] of [
    [[without], LostError],
    [[], ProtocolError],
  ] as const) {
    const holding = bench.client.hold({ function: "f" });
    const call = await bench.sidecar.hold();
    call.tell(...said);
    call.end();
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
  test(`s4 s13 a block releases its lock and tells of a loss where ${how}`, SHORT, async () => {
    await using bench = await Bench.create();
    const { sidecar, clock, client } = bench;
    sidecar.answers["releaseLease"] = answer === undefined ? [] : [answer];
    const boom = new Error("boom");
    const work = (): string => {
      if (loses) clock.advance(58);
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
      const now = clock.read().latest / 1_000;
      (await sidecar.hold()).tell(grant(validity(OURS, now + 58, 58)));
      const outcome = await done;
      assert.ok(fits(outcome, boom), String(outcome));
      assert.equal(sidecar.asked.pop(), RELEASED);
    }
  });
}

test("s13 a release is one, whoever calls it how often, and no longer than asked", SHORT, async () => {
  await using bench = await Bench.create();
  const { hold } = await bench.held();
  const releasing = hold.release();
  assert.ok(!hold.isValid(), "from the first moment on");
  assert.equal(hold.release(), releasing);
  assert.equal((await releasing).outcome, ReleaseOutcome.RELEASED);
  assert.ok(!hold.signal.aborted && hold.loss === undefined);
  bench.sidecar.answers["releaseLease"] = [new Promise(() => undefined)];
  bench.client.close();
  bench.client = await bench.another({ releaseTimeoutMs: 100 });
  const { hold: own } = await bench.held();
  // The end of the block is silent: the block was told.
  await using told = own;
  const unconfirmed = { name: "ReleaseUnconfirmedError", message: /within 100 ms/ };
  await assert.rejects(told.release(), unconfirmed);
});

test("the caller's signal ends the wait, and aborts the work", SHORT, async () => {
  await using bench = await Bench.create();
  const { client, sidecar } = bench;
  const ending = (): [AbortController, HoldOptions] => {
    const abort = new AbortController();
    return [abort, { signal: abort.signal }];
  };
  const [waiting, options] = ending();
  const holding = client.hold({ function: "f", waitMs: Infinity }, options);
  const call = await sidecar.hold();
  waiting.abort(BOOM);
  await assert.rejects(holding, BOOM);
  await call.ended();
  await assert.rejects(client.hold({ function: "f" }, options), BOOM);
  await assert.rejects(client.acquire({ function: "f" }, options), BOOM);
  const [working, more] = ending();
  const work = async (signal: AbortSignal): Promise<void> => {
    working.abort(BOOM);
    await Promise.resolve();
    signal.throwIfAborted();
  };
  const done = client.withHold({ function: "f" }, work, more);
  (await sidecar.hold()).tell(GRANTED);
  await assert.rejects(done, BOOM);
  assert.deepEqual(sidecar.asked, [RELEASED]);
});

test("s13 a client that is closed ends its holds, and waits no more", SHORT, async () => {
  const closed = { name: "RefusedError", code: status.CANCELLED };
  await using bench = await Bench.create();
  const { hold, call } = await bench.held();
  const holding = [1, 2].map(() => bench.client.hold({ function: "f", waitMs: Infinity }));
  const [waiting, between] = [await bench.sidecar.hold(), await bench.sidecar.hold()];
  between.fail(NOT_NOW);
  bench.client.close();
  assert.ok(!hold.isValid() && hold.signal.aborted);
  assert.equal(hold.loss?.reason, LossReason.UNSPECIFIED);
  for (const asked of holding) await assert.rejects(asked, closed);
  for (const it of [call, waiting]) await it.ended();
});
