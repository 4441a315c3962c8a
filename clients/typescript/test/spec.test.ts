// What is asked for, as it goes over the wire.

import assert from "node:assert/strict";
import { hostname } from "node:os";
import { test } from "node:test";

import { duration, milliseconds } from "../src/duration.js";
import type { Newer } from "../src/errors/unsupported.js";
import { needs } from "../src/errors/unsupported.js";
import { named } from "../src/hold/holder.js";
import { leaseSpec } from "../src/hold/spec.js";
import {
  CatchUp,
  FirstRun,
  HoldLeaseRequest,
  LeaseSpec,
  ListLocksRequest,
  LockKey,
  LockMode,
  Overlap,
  ReleaseLeaseRequest,
  SaveCheckpointRequest,
} from "../src/proto.js";
import { scheduleSpec, subscription } from "../src/runs/spec.js";

const seconds = (count: number): object => ({ seconds: count, nanos: 0 });

test("a lease's spec says all that was asked for, and nothing else", () => {
  const occurrence = new Date("2026-11-22T02:30:00Z");
  const same = { permits: 3, priority: 7, yields: true, share: "listeners", rebalance: true, autoRenew: false };
  const more = { ...same, requestId: "r", holder: "me", labels: { team: "a" }, occurrenceMaxAttempts: 3 };
  const key = { function: "f", scope: "s", hostId: "h", hostType: "t" };
  const spans = { leaseDurationMs: 15_000, maxHoldMs: 60_000, minHoldMs: 1_000, progressTimeoutMs: 5_000 };
  assert.deepEqual(leaseSpec({ ...key, ...more, ...spans, mode: "listener", occurrence }, 1_500), {
    ...more,
    key: { ...key, mode: LockMode.LISTENER },
    leaseDuration: seconds(15),
    maxHold: seconds(60),
    minHold: seconds(1),
    progressTimeout: seconds(5),
    wait: { seconds: 1, nanos: 500_000_000 },
    waitWithoutEnd: false,
    occurrenceAt: occurrence,
  });
  const { wait, waitWithoutEnd, permits, autoRenew, key: least } = leaseSpec({ function: "f" }, Infinity);
  assert.deepEqual([wait, waitWithoutEnd, permits, autoRenew], [undefined, true, undefined, undefined]);
  assert.equal(least?.mode, LockMode.FUNCTION);
});

test("what cannot be sent is refused", () => {
  for (const priority of [1.5, -1, NaN, 2 ** 32]) {
    assert.throws(() => leaseSpec({ function: "f", priority }, 0), /RangeError: priority is .* from 0 to 2147483647/);
  }
  assert.throws(() => leaseSpec({ function: "f", permits: 1.5 }, 0), /RangeError: permits is .* from 1 to 32/);
  const occurrence = new Date(NaN);
  assert.throws(() => leaseSpec({ function: "f", occurrence }, 0), /RangeError: occurrence is an invalid/);
  assert.throws(() => scheduleSpec({ cron: "@daily", maxAttempts: 1.5 }), RangeError);
  assert.throws(() => duration("waitMs", -1), /waitMs is -1/);
  assert.throws(() => duration("waitMs", NaN), RangeError);
});

test("a schedule's spec says all that was asked for, and nothing else", () => {
  const more = { overlap: "skip", runTimeoutMs: Infinity, revision: 7 } as const;
  const spec = scheduleSpec({ everyMs: 90_000, catchUp: "all", catchUpMax: 5, ...more });
  assert.deepEqual(spec.timetable, { $case: "every", value: seconds(90) });
  assert.deepEqual([spec.catchUp, spec.catchUpMax, spec.overlap], [CatchUp.ALL, 5, Overlap.SKIP]);
  assert.deepEqual([spec.timeout, spec.revision], [{ $case: "noRunTimeout", value: true }, 7]);
  assert.deepEqual([spec.grace, spec.maxAttempts, spec.timeZone], [undefined, 0, ""]);
  assert.equal(subscription({ function: "f", cron: "@daily", firstNow: true }).first, FirstRun.NOW);
});

test("a caller without a name is its pod or host and process", () => {
  assert.equal(named("importer-7f9c", 17), "importer-7f9c/17");
  for (const host of ["", "björn", "a\nb"]) assert.equal(named(host, 17), "17");
  assert.equal(named("h".repeat(300), 17), `${"h".repeat(253)}/17`);
  const own = `${hostname()}/${String(process.pid)}`;
  for (const given of [{}, { holder: "me" }]) {
    assert.equal(leaseSpec({ function: "f", ...given }, 0).holder, given.holder ?? own);
    assert.equal(subscription({ function: "f", cron: "@daily", ...given }).holder, given.holder ?? own);
  }
});

test("spans survive the wire", () => {
  assert.equal(milliseconds(duration("span", 58_300)), 58_300);
  assert.deepEqual(duration("span", 1.5), { seconds: 0, nanos: 1_500_000 });
  assert.deepEqual(duration("span", 999.9999999), { seconds: 0, nanos: 999_999_999 });
  assert.deepEqual([milliseconds(undefined), milliseconds({ seconds: -5, nanos: 0 })], [0, 0]);
  assert.equal(duration("span", Infinity).seconds, 315_576_000_000);
});

const hold = (spec: Partial<LeaseSpec>): Partial<HoldLeaseRequest> => ({
  start: { $case: "spec", value: LeaseSpec.create(spec) },
});
const resume: HoldLeaseRequest["start"] = {
  $case: "resume",
  value: { resumeToken: "r", toldValidUntil: undefined, attemptId: "" },
};

test("s37 a request needs the revision of its newest field that goes over the wire", () => {
  const newer = [["start.spec.permits", 2] as const, ["start.spec.key.scope", 3] as const];
  const key = (more: Partial<LockKey>): LockKey => LockKey.create(more);
  const ofHold: [Partial<HoldLeaseRequest>, readonly Newer[], number][] = [
    [hold({ priority: 7, key: key({ function: "f" }) }), newer, 1],
    [hold({ permits: 2, key: key({ function: "f" }) }), newer, 2],
    [hold({ permits: 2, key: key({ scope: "s" }) }), newer, 3],
    [{ start: resume }, newer, 1],
    [{ start: resume }, [["start.resume", 2]], 2],
    [hold({ permits: 0 }), newer, 2],
    [hold({ autoRenew: false }), [["start.spec.autoRenew", 2]], 2],
    [hold({}), [["start.spec.autoRenew", 2]], 1],
    [hold({ key: key({ hostId: "" }) }), [["start.spec.key.hostId", 2]], 2],
    [hold({ key: key({}) }), [["start.spec.key.hostId", 2]], 1],
    [hold({ priority: 0 }), [["start.spec.priority", 2]], 1],
    [hold({ labels: {} }), [["start.spec.labels", 2]], 1],
    [hold({ labels: { a: "" } }), [["start.spec.labels", 2]], 2],
    [hold({ key: key({}) }), [["start.spec.key", 2]], 2],
    [hold({}), [["start.spec.key", 2]], 1],
  ];
  for (const [request, fields, needed] of ofHold) {
    assert.equal(needs(HoldLeaseRequest, request, fields), needed, JSON.stringify([request, fields]));
  }
  const save = (text: string): number =>
    needs(SaveCheckpointRequest, { leaseId: "l", value: Buffer.from(text) }, [["value", 2]]);
  const release = (checkpoint?: Buffer): number =>
    needs(ReleaseLeaseRequest, { leaseId: "l", checkpoint }, [["checkpoint", 2]]);
  assert.deepEqual([save(""), save("x"), release(Buffer.alloc(0)), release()], [1, 2, 2, 1], "bytes");
  assert.equal(needs(ListLocksRequest, { states: [] }, [["states", 2]]), 1, "a list");
});
