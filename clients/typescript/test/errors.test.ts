import assert from "node:assert/strict";
import { test } from "node:test";

import { Metadata, status } from "@grpc/grpc-js";

import {
  Client,
  Code,
  EndpointError,
  LostError,
  Reason,
  LossReason,
  RefusedError,
  UnreachableError,
} from "../src/index.js";
import type { ConnectOptions } from "../src/index.js";
import { ErrorReason as WireReason } from "../src/proto.js";
import { reasonNamed } from "../src/errors/reason.js";
import { refused, toldLost } from "../src/errors/refusal.js";
import type { Refused } from "./fake-sidecar.js";
import { refusal } from "./fake-sidecar.js";

function errorOf(told: Refused): RefusedError {
  return refused(Object.assign(new Error(told.details), told));
}

async function failure(options: ConnectOptions): Promise<Error> {
  const outcome: unknown = await Client.connect(options).catch((error: unknown) => error);
  assert.ok(outcome instanceof Error);
  return outcome;
}

test("s19 field violations are had as data", () => {
  const violations = [{ field: "spec.wait", description: "is 25 h; 0 to 24 h are allowed" }];
  const info = { reason: "INVALID_FIELD" };
  const error = errorOf(refusal(status.INVALID_ARGUMENT, "one field is wrong", info, { violations }));
  assert.equal(error.name, "RefusedError");
  assert.equal(error.code, Code.INVALID_ARGUMENT);
  assert.equal(error.reason, "INVALID_FIELD");
  assert.deepEqual(error.violations, violations);
  assert.equal(error.message, "one field is wrong; spec.wait: is 25 h; 0 to 24 h are allowed");
});

test("when to try again is had as data", () => {
  const info = { reason: "STORE_THROTTLED" };
  const error = errorOf(refusal(status.UNAVAILABLE, "busy", info, { retryAfterMs: 1_500 }));
  assert.equal(error.retryAfterMs, 1_500);
});

test("a reason of another domain is none, and an unknown one keeps its name", () => {
  const other = { reason: "HOLD_LOST", domain: "example.com" };
  assert.equal(errorOf(refusal(status.FAILED_PRECONDITION, "no", other)).reason, undefined);
  assert.equal(errorOf(refusal(status.FAILED_PRECONDITION, "no", { reason: "NEW_ONE" })).reason, "NEW_ONE");
});

test("details that nobody can read leave the code and the message", () => {
  const metadata = new Metadata();
  metadata.set("grpc-status-details-bin", Buffer.from([0xff, 0xff, 0xff]));
  const error = errorOf({ code: status.INTERNAL, details: "oh", metadata });
  assert.equal(error.reason, undefined);
  assert.equal(error.message, "oh");
});

test("every reason of the API has its constant, and no other has", () => {
  const names = Object.values(WireReason).filter((reason) => /^ERROR_REASON_(?!UNSPECIFIED)/.test(reason));
  assert.deepEqual(Object.values(Reason).toSorted(), names.map(reasonNamed).toSorted());
  for (const [name, value] of Object.entries(Reason)) assert.equal(name, value);
  assert.equal(reasonNamed(WireReason.UNRECOGNIZED), "UNRECOGNIZED");
});

test("a hold that was released elsewhere is lost here", () => {
  const released = errorOf(refusal(status.FAILED_PRECONDITION, "was released", { reason: "HOLD_RELEASED" }));
  assert.deepEqual(toldLost(released), { reason: LossReason.UNSPECIFIED, detail: "was released" });
});

test("nonsense endpoints are refused with what would be right", async () => {
  const nonsense = ["127.0.0.1:50951", "ftp://host", "unix://", "unix:///", "http://", "http://a b", "http://h/p"];
  for (const endpoint of nonsense) {
    const error = await failure({ endpoint });
    assert.ok(error instanceof EndpointError, `${endpoint}: ${error.message}`);
    assert.match(error.message, /http:\/\/host:port/);
  }
});

test("nobody there is said with what to do", async () => {
  for (const endpoint of ["http://127.0.0.1:1", "http://[::1]:1", "unix:///nowhere/leasehold.sock"]) {
    await using client = await Client.connect({ endpoint });
    const calls = [() => client.hold({ function: "f" }), () => client.acquire({ function: "f" })];
    for (const call of [...calls, () => client.getLock({ function: "f" })]) {
      const error: unknown = await call().catch((reason: unknown) => reason);
      assert.ok(error instanceof UnreachableError && error instanceof RefusedError);
      assert.ok(error.message.includes(endpoint) && error.message.includes("leasehold serve"), error.message);
      assert.equal(error.endpoint, endpoint);
    }
  }
});

test("tls options must fit the endpoint", async () => {
  assert.match((await failure({ endpoint: "http://127.0.0.1:1", ca: "pem" })).message, /only https/);
  assert.match((await failure({ endpoint: "https://127.0.0.1:1" })).message, /certificate authority/);
  const useless = { endpoint: "https://127.0.0.1:1", ca: "pem", clientCertificate: { certificate: "a", key: "b" } };
  assert.match((await failure(useless)).message, /certificates cannot be used/);
});

test("s20 tokens and passwords are never shown", async () => {
  const token = await failure({ endpoint: "http://127.0.0.1:1", bearerToken: "se\ncret" });
  assert.match(token.message, /bearer token/);
  assert.ok(!token.message.includes("cret") && token.cause === undefined);
  const password = await failure({ endpoint: "http://me:secret@127.0.0.1:1" });
  assert.ok(password instanceof EndpointError && !password.message.includes("secret"));
});

test("a loss is told with its reason and its detail", () => {
  const error = new LostError({ reason: LossReason.BROKEN, detail: "by an operator" });
  assert.equal(error.message, "the lock was lost: BROKEN: by an operator");
  assert.equal(error.name, "LostError");
  assert.equal(new LostError({ reason: LossReason.TAKEN, detail: "" }).message, "the lock was lost: TAKEN");
});
