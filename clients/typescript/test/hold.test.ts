import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";

import { status } from "@grpc/grpc-js";

import {
  BusyError,
  Reason,
  LostError,
  LossReason,
  ProtocolError,
  RefusedError,
  ReleaseOutcome,
  lossIn,
} from "../src/index.js";
import { Busy, LockRecord, ReleaseResult, Validity, ErrorReason as WireReason } from "../src/proto.js";
import type { Event, Held } from "./fake-sidecar.js";
import { Bench, ELSEWHERE, OURS, eventually, grant, refusal, validity } from "./fake-sidecar.js";

function renewed(until: number, validFor: number, bootId = OURS): Event {
  return {
    $case: "renewed",
    value: { validity: validity(bootId, until, validFor), resumeToken: "", maxHoldEnds: undefined },
  };
}

function lost(reason: LossReason, detail = ""): Event {
  return { $case: "lost", value: { reason, detail, breakNote: undefined } };
}

async function lossOf({ hold }: Held): Promise<LossReason | undefined> {
  await eventually("the loss is told", () => hold.signal.aborted);
  assert.ok(hold.signal.reason instanceof LostError);
  assert.equal(hold.signal.reason.loss, hold.loss);
  return hold.loss?.reason;
}

test("a hold tells its grant", async () => {
  await using bench = await Bench.create();
  const { hold, call } = await bench.held();
  assert.equal(call.start?.$case, "spec");
  assert.equal(call.start.value.key?.function, "f");
  assert.equal(hold.fencingToken, 65_536);
  assert.equal(hold.leaseId, "lease-1");
  assert.equal(hold.lockPath, "locks/p/h/f/s/FUNCTION");
  assert.equal(hold.hostId, "h");
  assert.equal(hold.remainingMs(), 58_000);
  assert.ok(hold.isValid());
  assert.ok(!inspect(hold, { depth: 5, showHidden: true }).includes("lease-1"), "S20");
});

test("a busy lock says who has it", async () => {
  await using bench = await Bench.create();
  const told: unknown[] = [];
  const holding = bench.client.hold({ function: "f" }, { onEvent: (event) => told.push(event) });
  const call = await bench.sidecar.hold();
  const record = LockRecord.create({ lockPath: "locks/f", holder: "worker-7" });
  call.tell({ $case: "waiting", value: { position: 2, record } });
  call.tell({ $case: "busy", value: Busy.create({ record, retryAfter: { seconds: 2, nanos: 0 } }) });
  const error: unknown = await holding.catch((reason: unknown) => reason);
  assert.ok(error instanceof BusyError);
  assert.equal(error.holder, "worker-7");
  assert.equal(error.retryAfterMs, 2_000);
  assert.match(error.message, /locks\/f is busy: held by "worker-7"/);
  assert.deepEqual(told, [{ type: "waiting", position: 2, record }]);
});

test("s9 what the sidecar says is told", async () => {
  await using bench = await Bench.create();
  const held = await bench.held();
  const { call, events } = held;
  call.tell(renewed(1_058, 57));
  bench.clock.advance(3);
  const detail = "no route";
  const cause = WireReason.STORE_UNAVAILABLE;
  call.tell({ $case: "atRisk", value: { validity: validity(OURS, 1_059, 57), cause, detail } });
  call.tell({ $case: "recovered", value: { validity: validity(OURS, 1_060, 57) } });
  call.tell({ $case: "draining", value: { timeLeft: { seconds: 20, nanos: 0 } } });
  call.tell(lost(LossReason.SHUTDOWN, "drained"));
  const told = [];
  do told.push(await events.next("what happens is told"));
  while (told.at(-1)?.type !== "lost");
  assert.deepEqual(told, [
    { type: "renewed", remainingMs: 55_000 },
    { type: "atRisk", remainingMs: 56_000, cause: Reason.STORE_UNAVAILABLE, detail },
    { type: "recovered", remainingMs: 57_000 },
    { type: "draining", timeLeftMs: 20_000 },
    { type: "lost", loss: { reason: LossReason.SHUTDOWN, detail: "drained" } },
  ]);
  assert.equal(await lossOf(held), LossReason.SHUTDOWN);
  assert.throws(() => {
    held.hold.throwIfLost();
  }, /SHUTDOWN: drained/);
  assert.ok(!held.hold.isValid());
});

test("a listener that throws does not harm the hold", async (context) => {
  const uncaught: unknown[] = [];
  context.mock.method(globalThis, "queueMicrotask", (task: () => void) => {
    try {
      task();
    } catch (error) {
      uncaught.push(error);
    }
  });
  await using bench = await Bench.create();
  const boom = new Error("boom");
  const holding = bench.client.hold(
    { function: "f" },
    {
      onEvent: () => {
        throw boom;
      },
    },
  );
  const call = await bench.sidecar.hold();
  call.tell(grant(validity(OURS, 1_058, 58)));
  const hold = await holding;
  bench.clock.advance(20);
  call.tell(renewed(1_078, 58));
  await eventually("the renewal is taken in", () => hold.remainingMs() === 58_000);
  assert.deepEqual(uncaught, [boom, boom]);
});

test("s13 the hold ends before the release is sent", async () => {
  await using bench = await Bench.create();
  const { hold } = await bench.held();
  const seen: boolean[] = [];
  bench.sidecar.script.onRelease = (): void => void seen.push(hold.isValid());
  const releasing = hold.release();
  assert.ok(!hold.isValid(), "from the first moment on");
  assert.equal((await releasing).outcome, ReleaseOutcome.RELEASED);
  assert.deepEqual(seen, [false]);
  assert.equal(hold.release(), releasing, "once only");
  assert.deepEqual(bench.sidecar.script.asked, ["release lease-1 of generation 1"]);
  assert.ok(!hold.signal.aborted, "a release is no loss");
});

test("s14 the stream ends after the release, also where the sidecar does not end it", async () => {
  await using bench = await Bench.create();
  const { hold, call } = await bench.held();
  await hold.release();
  await call.ended();
});

test("s14 a release that is not answered ends the stream at once", async () => {
  await using bench = await Bench.create();
  const { hold, call } = await bench.held();
  bench.sidecar.script.release = refusal(status.UNAVAILABLE, "not now");
  await assert.rejects(hold.release(), RefusedError);
  await call.ended();
});

test("s13 a block releases the lock on every way out", async () => {
  await using bench = await Bench.create();
  const boom = new Error("boom");
  const block = async (): Promise<void> => {
    const { hold } = await bench.held();
    await using own = hold;
    assert.ok(own.isValid());
    throw boom;
  };
  await assert.rejects(block(), boom);
  assert.deepEqual(bench.sidecar.script.asked, ["release lease-1 of generation 1"]);
});

test("s13 a client that is closed ends the hold, and then the stream", async () => {
  await using bench = await Bench.create();
  const held = await bench.held();
  bench.client.close();
  assert.ok(!held.hold.isValid());
  assert.equal(await lossOf(held), LossReason.UNSPECIFIED);
  await held.call.ended();
});

test("s13 releasing what is lost says so, and tells the sidecar that it is known", async () => {
  await using bench = await Bench.create();
  const { hold } = await bench.held();
  bench.clock.advance(58);
  await assert.rejects(hold.release(), isLoss(LossReason.EXPIRED));
  assert.deepEqual(bench.sidecar.script.asked, ["release lease-1 of generation 1"]);
});

function isLoss(reason: LossReason): (error: unknown) => boolean {
  return (error) => error instanceof LostError && error.loss.reason === reason;
}

const TAKEN = ReleaseResult.create({ outcome: ReleaseOutcome.ALREADY_LOST, lossReason: LossReason.TAKEN });

test("s13 a release that finds the lock lost says so", async () => {
  await using bench = await Bench.create();
  bench.sidecar.script.release = TAKEN;
  const { hold } = await bench.held();
  await assert.rejects(hold.release(), isLoss(LossReason.TAKEN));
});

test("s13 a block whose release finds the lock lost says so", async () => {
  await using bench = await Bench.create();
  bench.sidecar.script.release = TAKEN;
  const block = async (): Promise<void> => {
    const { hold } = await bench.held();
    await using own = hold;
    assert.ok(own.isValid());
  };
  await assert.rejects(block(), isLoss(LossReason.TAKEN));
});

test("s4 a block whose hold is lost says so, beside its own error, too", async () => {
  await using bench = await Bench.create();
  const boom = new Error("boom");
  const block = async (thrown?: Error): Promise<void> => {
    const now = bench.clock.read().latest / 1_000;
    const { hold } = await bench.held(validity(OURS, now + 58, 58));
    await using own = hold;
    bench.clock.advance(58);
    assert.equal(own.loss?.reason, LossReason.EXPIRED, "the loss reads the clock");
    if (thrown !== undefined) throw thrown;
  };
  await assert.rejects(block(), isLoss(LossReason.EXPIRED));
  const error: unknown = await block(boom).catch((reason: unknown) => reason);
  assert.equal(lossIn(error)?.reason, LossReason.EXPIRED);
  assert.equal((error as { suppressed?: unknown }).suppressed, boom);
  assert.equal(lossIn(boom), undefined);
});

test("s13 a block whose release fails says so, unless the block has released", async () => {
  await using bench = await Bench.create();
  bench.sidecar.script.release = refusal(status.UNAVAILABLE, "not now");
  const block = async (released: boolean): Promise<void> => {
    const { hold } = await bench.held();
    await using own = hold;
    if (released) await own.release().catch(() => undefined);
  };
  await assert.rejects(block(false), RefusedError);
  await block(true);
});

test("s21 elsewhere an unanswered question is asked again, and the last word is the clock's", async () => {
  await using bench = await Bench.create();
  const held = await bench.held(validity(ELSEWHERE, 70, 58));
  bench.clock.advance(57);
  const { asked } = bench.sidecar.script;
  await eventually("it is asked again", () => asked.length >= 2);
  assert.ok(held.hold.isValid());
  bench.clock.advance(1);
  assert.equal(await lossOf(held), LossReason.EXPIRED);
});

test("a grant without a validity is no grant", async () => {
  await using bench = await Bench.create();
  const holding = bench.client.hold({ function: "f" });
  const call = await bench.sidecar.hold();
  bench.sidecar.script.report = Validity.create();
  const event = grant(Validity.create());
  call.tell({ ...event, value: { ...event.value, validity: undefined } });
  await assert.rejects(holding, LostError);
  await call.ended();
});

test("a stream that ends before the grant is no grant", async () => {
  await using bench = await Bench.create();
  const holding = bench.client.hold({ function: "f" });
  (await bench.sidecar.hold()).end();
  await assert.rejects(holding, ProtocolError);
});
