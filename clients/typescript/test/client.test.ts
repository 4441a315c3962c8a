import assert from "node:assert/strict";
import { test } from "node:test";

import { status } from "@grpc/grpc-js";

import type { LeaseSpec } from "../src/index.js";
import {
  BusyError,
  LostError,
  LockMode,
  LossReason,
  ProtocolError,
  RefusedError,
  ReleaseOutcome,
} from "../src/index.js";
import { Busy, ReleaseResult } from "../src/proto.js";
import type { HoldCall } from "./fake-sidecar.js";
import { Bench, OURS, PATIENCE_MS, eventually, grant, refusal, validity } from "./fake-sidecar.js";

const GRANTED = grant(validity(OURS, 1_058, 58));

async function granted(bench: Bench): Promise<HoldCall> {
  const call = await bench.sidecar.hold();
  call.tell(GRANTED);
  return call;
}

test("every unary call reaches the sidecar", async () => {
  await using bench = await Bench.create();
  const { client } = bench;
  const lock = { lockPath: "locks/a" };
  assert.equal((await client.getLock(lock)).lockPath, "locks/a");
  assert.equal((await client.getLock({ function: "f", scope: "s" })).lockPath, "f/s");
  const token = await client.checkToken(lock, 7);
  assert.equal(token.newestFencingToken, 8);
  const broken = await client.breakLock(lock, "stuck", { now: true, brokenBy: "me" });
  assert.equal(broken.record?.lockPath, "locks/a");
  assert.equal(broken.freeInMs, 1_500);
  await client.breakLock(lock, "stuck");
  assert.equal((await client.resolvePath({ function: "f" })).lockPath, "f");
  assert.deepEqual((await client.extend("lease-1", 90_000)).validity, validity(OURS, 1_090, 90));
  bench.sidecar.script.report = validity(OURS, 1_060, 60);
  assert.deepEqual(await client.reportProgress("lease-1"), validity(OURS, 1_060, 60));
  assert.deepEqual((await client.getHold("lease-1")).validity, validity(OURS, 1_060, 60));
  await client.release("lease-1");
  assert.deepEqual(bench.sidecar.script.asked, [
    "break BREAK_MODE_NOW stuck me",
    "break BREAK_MODE_RUN_OUT stuck ",
    "extend lease-1 of generation 0",
    "report progress of generation 0",
    "get hold of generation 0",
    "release lease-1 of generation 0",
  ]);
});

test("a list goes on through all pages", async () => {
  await using bench = await Bench.create();
  const paths = [];
  for await (const { lockPath } of bench.client.listLocks({ hostId: "h" })) paths.push(lockPath);
  assert.deepEqual(paths, ["h/", "h/third"]);
});

test("a watch gives records until the stream ends, or it is no longer wanted", async () => {
  await using bench = await Bench.create();
  const paths = [];
  for await (const { lockPath } of bench.client.watchLock({ function: "f", scope: "s" })) paths.push(lockPath);
  assert.deepEqual(paths, ["f/s"]);

  const abort = new AbortController();
  const watch = async (): Promise<void> => {
    for await (const { lockPath } of bench.client.watchLock({ lockPath: "locks/a" }, { signal: abort.signal })) {
      paths.push(lockPath);
      abort.abort();
    }
  };
  await assert.rejects(watch(), { name: "AbortError" });
  assert.deepEqual(paths, ["f/s", "locks/a"]);
});

test("what is asked for reaches the sidecar", async () => {
  await using bench = await Bench.create();
  const request: LeaseSpec = {
    function: "f",
    scope: "s",
    mode: "listener",
    hostId: "h",
    hostType: "t",
    leaseDurationMs: 15_000,
    waitMs: 1_500,
    maxHoldMs: 60_000,
    minHoldMs: 1_000,
    progressTimeoutMs: 5_000,
    autoRenew: false,
    holder: "me",
    labels: { team: "a" },
  };
  const holding = bench.client.hold(request);
  const { start } = await granted(bench);
  assert.equal(start?.$case, "spec");
  const seconds = (count: number): object => ({ seconds: count, nanos: 0 });
  assert.deepEqual(start.value, {
    key: { function: "f", scope: "s", mode: LockMode.LISTENER, hostId: "h", hostType: "t" },
    leaseDuration: seconds(15),
    wait: { seconds: 1, nanos: 500_000_000 },
    maxHold: seconds(60),
    minHold: seconds(1),
    progressTimeout: seconds(5),
    autoRenew: false,
    requestId: "",
    holder: "me",
    labels: { team: "a" },
    waitWithoutEnd: false,
    permits: undefined,
    priority: 0,
    yields: false,
    share: "",
    rebalance: false,
    occurrenceAt: undefined,
    occurrenceMaxAttempts: 0,
  });
  await (await holding).release();
});

test("an acquire is granted or busy and nothing else", async () => {
  await using bench = await Bench.create();
  const acquire = bench.client.acquire.bind(bench.client, { function: "f", requestId: "r" });
  await assert.rejects(acquire(), ProtocolError);
  bench.sidecar.script.acquire = GRANTED;
  assert.equal((await acquire()).fencingToken, 65_536);
  bench.sidecar.script.acquire = { $case: "busy", value: Busy.create() };
  await assert.rejects(acquire(), BusyError);
});

test("s14 the bearer token and the kernel go with each call", async () => {
  await using bench = await Bench.create();
  await using client = await bench.another({ bearerToken: "secret\n" });
  await client.acquire({ function: "f" }).catch(() => undefined);
  assert.deepEqual(bench.sidecar.script.asked, [`acquire  Bearer secret ${OURS}`]);
});

test("an error of the sidecar has its code", async () => {
  await using bench = await Bench.create();
  const error: unknown = await bench.client.reportProgress("x").catch((reason: unknown) => reason);
  assert.ok(error instanceof RefusedError);
  assert.equal(error.code, status.UNAVAILABLE);
  assert.equal(error.reason, undefined);
  assert.equal(error.message, "not now");
});

test("s12 a wait that is cancelled leaves the queue", async () => {
  await using bench = await Bench.create();
  const abort = new AbortController();
  const holding = bench.client.hold({ function: "f", waitMs: Infinity }, { signal: abort.signal });
  const call = await bench.sidecar.hold();
  const enough = new Error("enough");
  abort.abort(enough);
  await assert.rejects(holding, enough);
  await call.ended();
  await assert.rejects(bench.client.hold({ function: "f" }, { signal: abort.signal }), enough);
  await assert.rejects(bench.client.acquire({ function: "f" }, { signal: abort.signal }), enough);
});

test("a client that is closed waits no more", async () => {
  await using bench = await Bench.create();
  const holding = bench.client.hold({ function: "f", waitMs: Infinity });
  const call = await bench.sidecar.hold();
  bench.client.close();
  await assert.rejects(holding, { name: "RefusedError", code: status.CANCELLED });
  await call.ended();
});

test("an acquire without end asks again, and waits as long as the sidecar allows", async () => {
  await using bench = await Bench.create();
  const { script } = bench.sidecar;
  const violations = [{ field: "spec.wait", description: "is too long" }];
  script.acquires.push(refusal(status.INVALID_ARGUMENT, "no", { reason: "INVALID_FIELD" }, { violations }));
  script.acquires.push({ $case: "busy", value: Busy.create() }, GRANTED);
  await bench.client.acquire({ function: "f", waitMs: Infinity });
  assert.deepEqual(script.waits, [86_400, 43_200, 43_200]);
  script.acquires.push(refusal(status.UNAVAILABLE, "going away", { reason: "SHUTTING_DOWN" }));
  await assert.rejects(bench.client.acquire({ function: "f", waitMs: Infinity }), RefusedError);
});

test("a wait for ever goes on over restarts of the sidecar, and ends with another error", async () => {
  await using bench = await Bench.create();
  const holding = bench.client.hold({ function: "f", waitMs: Infinity });
  const first = await bench.sidecar.hold();
  assert.equal(first.start?.$case, "spec");
  assert.equal(first.start.value.wait, undefined);
  assert.equal(first.start.value.waitWithoutEnd, true);
  first.fail(refusal(status.UNAVAILABLE, "going away", { reason: "SHUTTING_DOWN" }));
  // Nobody was heard before it went.
  await bench.sidecar.hold();
  bench.kill();
  await bench.restart();
  const again = await bench.sidecar.hold();
  assert.deepEqual(again.start, first.start);
  again.fail(refusal(status.PERMISSION_DENIED, "no", { reason: "ACCESS_DENIED" }));
  await assert.rejects(holding, { name: "RefusedError", reason: "ACCESS_DENIED" });
});

test("s13 a release does not stand behind holds", { timeout: PATIENCE_MS }, async () => {
  await using bench = await Bench.create(3, { streams: 2 });
  const [first, second] = [await bench.held(), await bench.held()];
  bench.sidecar.script.report = validity(OURS, 1_060, 60);
  await second.hold.reportProgress();
  await second.hold.extend(90_000);
  const third = bench.client.hold({ function: "f", waitMs: 30_000 });
  await eventually("the third hold gets another connection", () => bench.sidecar.holds.items.length === 1);
  assert.equal(bench.sidecar.connections, 2);

  await first.hold.release();
  assert.deepEqual(bench.sidecar.script.asked, [
    "report progress of generation 1",
    "extend lease-1 of generation 1",
    "release lease-1 of generation 1",
  ]);
  first.call.end();
  await granted(bench);
  await (await third).release();
  assert.ok(second.hold.isValid());
});

test("waiting acquires and a watch do not stand in the way of short calls", { timeout: PATIENCE_MS }, async () => {
  await using bench = await Bench.create(2, { streams: 1 });
  const { client } = bench;
  const { script } = bench.sidecar;
  script.acquire = GRANTED;
  let answer: () => void = () => undefined;
  script.acquiring = new Promise<void>((resolve) => (answer = resolve));
  const { hold } = await bench.held();
  const acquiring = [client.acquire({ function: "f" }), client.acquire({ function: "f" })];
  const watching = client.watchLock({ function: "f", scope: "s" }).next();
  assert.equal((await watching).done, false);
  await eventually("both wait", () => script.waits.length === 2);
  await client.getLock({ function: "f" });
  await client.release("lease-9");
  await hold.release();
  const releases = script.asked.filter((call) => call.startsWith("release"));
  assert.deepEqual(releases, ["release lease-9 of generation 0", "release lease-1 of generation 1"]);
  answer();
  await Promise.all(acquiring);
});

test("s13 work under a lock gives it back, whether it ends well or not", async () => {
  await using bench = await Bench.create();
  const { asked } = bench.sidecar.script;
  const holding = bench.client.withHold({ function: "f" }, (signal, hold) => {
    assert.ok(!signal.aborted && hold.isValid());
    return hold.fencingToken;
  });
  await granted(bench);
  assert.equal(await holding, 65_536);
  assert.deepEqual(asked, ["release lease-1 of generation 1"]);

  const boom = new Error("boom");
  const failing = bench.client.withHold({ function: "f" }, () => {
    throw boom;
  });
  await granted(bench);
  await assert.rejects(failing, boom);
  assert.deepEqual(asked, ["release lease-1 of generation 1", "release lease-1 of generation 1"]);
});

test("s13 a release that was not confirmed is handed on and is no loss", async () => {
  await using bench = await Bench.create();
  bench.sidecar.script.release = ReleaseResult.create({ outcome: ReleaseOutcome.NOT_CONFIRMED });
  const { hold } = await bench.held();
  const released = await hold.release();
  assert.equal(released.outcome, ReleaseOutcome.NOT_CONFIRMED);
  assert.equal(hold.loss, undefined);
});

test("s13 work whose lock only the release finds lost fails, and its own error goes before", async () => {
  await using bench = await Bench.create();
  bench.sidecar.script.release = ReleaseResult.create({
    outcome: ReleaseOutcome.ALREADY_LOST,
    lossReason: LossReason.TAKEN,
  });
  const holding = bench.client.withHold({ function: "f" }, () => "done");
  await granted(bench);
  await assert.rejects(holding, LostError);
  const boom = new Error("boom");
  const failing = bench.client.withHold({ function: "f" }, () => {
    throw boom;
  });
  await granted(bench);
  await assert.rejects(failing, boom);
});

test("s4 work under a lock that was lost fails, whatever it says itself", async () => {
  await using bench = await Bench.create();
  const lost = { $case: "lost", value: { reason: LossReason.BROKEN, detail: "", breakNote: undefined } } as const;
  const endings: ((signal: AbortSignal) => unknown)[] = [
    (): string => "done all the same",
    (signal: AbortSignal): void => {
      signal.throwIfAborted();
    },
    (): void => {
      throw new Error("broke off");
    },
  ];
  for (const end of endings) {
    const holding = bench.client.withHold({ function: "f" }, async (signal) => {
      await new Promise((resolve) => {
        signal.addEventListener("abort", resolve);
      });
      return end(signal);
    });
    (await granted(bench)).tell(lost);
    const error: unknown = await holding.catch((reason: unknown) => reason);
    assert.ok(error instanceof LostError);
    assert.equal(error.loss.reason, LossReason.BROKEN);
  }
  // S13: each says that it knows.
  assert.deepEqual(bench.sidecar.script.asked, Array(3).fill("release lease-1 of generation 1"));
});

test("s4 work that outlasts its validity unawares fails", async () => {
  await using bench = await Bench.create();
  const holding = bench.client.withHold({ function: "f" }, () => {
    bench.clock.advance(58);
  });
  await granted(bench);
  await assert.rejects(holding, LostError);
});

test("the caller's signal aborts the work, too", async () => {
  await using bench = await Bench.create();
  const abort = new AbortController();
  const enough = new Error("enough");
  const work = async (signal: AbortSignal): Promise<void> => {
    abort.abort(enough);
    await Promise.resolve();
    signal.throwIfAborted();
  };
  const holding = bench.client.withHold({ function: "f" }, work, { signal: abort.signal });
  await granted(bench);
  await assert.rejects(holding, enough);
  assert.deepEqual(bench.sidecar.script.asked, ["release lease-1 of generation 1"]);
});
