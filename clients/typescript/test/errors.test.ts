// Errors and options: what the sidecar refuses, and what this client refuses by itself. Their words are in words.test.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Metadata, status } from "@grpc/grpc-js";

import { dialer } from "../src/connect/endpoint.js";
import type { RefusedError } from "../src/errors/errors.js";
import { refused } from "../src/errors/refusal.js";
import { finalRefusal } from "../src/hold/keeper.js";
import { occurrenceOver } from "../src/hold/occurrence.js";
import type { ConnectOptions } from "../src/index.js";
import {
  BusyError,
  Code,
  EndpointError,
  LossReason,
  OccurrenceOverError,
  PriorityStatus,
  ProtocolError,
  RunOutcome,
} from "../src/index.js";
import { AlreadyDone, Busy, EndedRun, LeaseSpec, LockRecord, Skipped } from "../src/proto.js";
import type { Refused } from "./messages.js";
import { refusal } from "./messages.js";

function errorOf(told: Refused): RefusedError {
  return refused(Object.assign(new Error(told.details), told));
}

function failure(options: ConnectOptions): EndpointError {
  try {
    dialer({ endpoint: "http://127.0.0.1:1", ...options })
      .dial()
      .close();
  } catch (error) {
    if (error instanceof EndpointError) return error;
  }
  throw new Error(`nothing is wrong with ${JSON.stringify(options)}`);
}

test("s19 what a refusal has is had as data", () => {
  const violations = [{ field: "spec.wait", description: "is 25 h; 0 to 24 h are allowed" }];
  const told = { violations, retryAfterMs: 1_500 };
  const error = errorOf(refusal(status.INVALID_ARGUMENT, "one field is wrong", { reason: "INVALID_FIELD" }, told));
  assert.deepEqual([error.name, error.code, error.reason], ["RefusedError", Code.INVALID_ARGUMENT, "INVALID_FIELD"]);
  assert.deepEqual([error.violations, error.retryAfterMs], [violations, 1_500]);
  assert.equal(error.message, "one field is wrong; spec.wait: is 25 h; 0 to 24 h are allowed");
  const other = { reason: "HOLD_LOST", domain: "example.com" };
  assert.equal(errorOf(refusal(status.FAILED_PRECONDITION, "no", other)).reason, undefined);
  assert.equal(errorOf(refusal(status.FAILED_PRECONDITION, "no", { reason: "NEW_ONE" })).reason, "NEW_ONE");
  const metadata = new Metadata();
  metadata.set("grpc-status-details-bin", Buffer.from([0xff, 0xff, 0xff]));
  const unreadable = errorOf({ code: status.INTERNAL, details: "oh", metadata });
  assert.deepEqual([unreadable.reason, unreadable.message], [undefined, "oh"]);
});

test("s29 s33 what a busy lock has is had as data", () => {
  const record = LockRecord.create({ sidecar: "pod-a/17", holder: "worker-7" });
  const busy = Busy.create({ record, retryAfter: { seconds: 2, nanos: 0 }, heldPermits: 3 });
  const { NOT_GREATER, UNSPECIFIED, UNRECOGNIZED } = PriorityStatus;
  const error = new BusyError({ ...busy, priorityStatus: NOT_GREATER });
  assert.deepEqual([error.priorityStatus, error.retryAfterMs, error.heldPermits], [NOT_GREATER, 2_000, 3]);
  assert.deepEqual([error.record, error.holder], [record, "worker-7"]);
  for (const priorityStatus of [UNSPECIFIED, UNRECOGNIZED]) {
    assert.equal(new BusyError({ ...busy, priorityStatus }).priorityStatus, undefined);
  }
});

test("t2 an occurrence that is over is an error of its own", () => {
  const [due, later] = [new Date("2026-11-22T02:30:00Z"), new Date("2026-11-22T03:30:00Z")];
  const run = EndedRun.create({ scheduledAt: due, outcome: RunOutcome.SUCCEEDED, attempt: 2 });
  const done = { $case: "alreadyDone", value: AlreadyDone.create({ run }) } as const;
  const skipped = { $case: "skipped", value: Skipped.create({ watermark: later }) } as const;
  const asked = LeaseSpec.create({ occurrenceAt: due });
  const over = [done, skipped].map((answer) => occurrenceOver(asked, answer));
  assert.deepEqual(over, [new OccurrenceOverError(run, undefined), new OccurrenceOverError(undefined, later)]);
  assert.ok(occurrenceOver(LeaseSpec.create(), skipped) instanceof ProtocolError, "none was asked for");
  assert.ok(occurrenceOver(asked, { ...done, value: AlreadyDone.create() }) instanceof ProtocolError, "how?");
});

test("s16 which errors are final", () => {
  const { ABORTED, INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION, DATA_LOSS, UNIMPLEMENTED } = status;
  const final = [INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION, DATA_LOSS, UNIMPLEMENTED, ABORTED];
  for (const code of final) assert.equal(finalRefusal(errorOf(refusal(code, "")))?.reason, LossReason.UNSPECIFIED);
  const passing = [status.UNAVAILABLE, status.INTERNAL, status.CANCELLED, status.UNAUTHENTICATED];
  for (const code of passing) assert.equal(finalRefusal(errorOf(refusal(code, ""))), undefined);
});

test("nonsense endpoints are refused with what would be right", () => {
  const nonsense = ["127.0.0.1:50951", "ftp://host", "unix://", "unix:///", "http://", "http://a b", "http://h/p"];
  for (const endpoint of nonsense) assert.match(failure({ endpoint }).message, /http:\/\/host:port/);
});

test("options that cannot be kept are refused, and secrets not shown (S20)", () => {
  const https = { endpoint: "https://127.0.0.1:1" };
  const useless = { ...https, ca: "pem", clientCertificate: { certificate: "a", key: "b" } };
  const wrong: [ConnectOptions, RegExp][] = [
    [{ ca: "pem" }, /only https/],
    [https, /certificate authority/],
    [useless, /certificates cannot be used/],
    [{ keepAliveMs: 9_999 }, /keepAliveMs/],
    [{ releaseTimeoutMs: 0 }, /releaseTimeoutMs/],
    [{ bearerToken: "" }, /bearer token/],
    [{ bearerToken: "se\ncret" }, /bearer token/],
    [{ endpoint: "http://me:secret@127.0.0.1:1" }, /cannot be used/],
  ];
  for (const [options, problem] of wrong) {
    const error = failure(options);
    assert.match(error.message, problem);
    assert.ok(!error.message.includes("cret"));
  }
  assert.equal(failure({ bearerToken: "se\ncret" }).cause, undefined);
});

test("s14 pings test connections to other machines only, unless asked for", () => {
  const keepAliveOf = (options: ConnectOptions): unknown => dialer(options).channelOptions["grpc.keepalive_time_ms"];
  for (const endpoint of ["unix:///run/a", "http://localhost:1", "http://127.8.9.10:1", "http://[::1]:1"]) {
    assert.equal(keepAliveOf({ endpoint }), undefined, endpoint);
  }
  for (const endpoint of ["http://leasehold:1", "http://10.0.0.7:1", "http://127.example.org:1"]) {
    assert.equal(keepAliveOf({ endpoint }), 30_000, endpoint);
    assert.equal(keepAliveOf({ endpoint, keepAliveMs: false }), undefined, endpoint);
  }
  assert.equal(keepAliveOf({ endpoint: "http://127.0.0.1:1", keepAliveMs: 10_000 }), 10_000);
});
