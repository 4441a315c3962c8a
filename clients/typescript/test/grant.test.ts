import assert from "node:assert/strict";
import { test } from "node:test";

import { status } from "@grpc/grpc-js";

import { BusyError, Reason, HoldState, LossReason } from "../src/index.js";
import type { Deadline } from "../src/proto.js";
import { Busy, GetServerInfoResponse } from "../src/proto.js";
import { Bench, ELSEWHERE, OURS, eventually, grant, refusal, validity } from "./fake-sidecar.js";

const GRANTED = validity(OURS, 1_058, 58);

function deadline(bootId: string, at: number, after: number): Deadline {
  const { validUntil, validFor } = validity(bootId, at, after);
  return { at: validUntil, after: validFor };
}

test("s11 a grant tells when its max hold ends, and an extension when it ends then", async () => {
  await using bench = await Bench.create();
  assert.equal((await bench.held()).hold.maxHoldRemainingMs(), undefined);
  const { hold, call, events } = await bench.held(GRANTED, { maxHoldEnds: deadline(OURS, 1_300, 300) });
  assert.equal(hold.maxHoldRemainingMs(), 300_000);
  bench.clock.advance(20);
  assert.equal(hold.maxHoldRemainingMs(), 280_000);
  await hold.extend(90_000);
  assert.equal(hold.maxHoldRemainingMs(), 90_000);
  const maxHoldEnds = deadline(OURS, 1_600, 580);
  call.tell({ $case: "renewed", value: { validity: validity(OURS, 1_078, 58), resumeToken: "", maxHoldEnds } });
  assert.equal((await events.next("the renewal is told")).type, "renewed");
  assert.equal(hold.maxHoldRemainingMs(), 580_000);
  call.tell({
    $case: "renewed",
    value: { validity: validity(OURS, 1_078, 58), resumeToken: "", maxHoldEnds: undefined },
  });
  assert.equal((await events.next("the renewal is told")).type, "renewed");
  assert.equal(hold.maxHoldRemainingMs(), 580_000, "a renewal that does not tell changes nothing");
  await hold.release();
  assert.equal(hold.maxHoldRemainingMs(), 0);
});

test("s21 elsewhere the end of max hold counts from before the request, and only answers count", async () => {
  await using bench = await Bench.create();
  const holding = bench.client.hold({ function: "f", waitMs: 30_000 });
  const call = await bench.sidecar.hold();
  bench.clock.advance(10);
  call.tell(grant(validity(ELSEWHERE, 70, 58), { maxHoldEnds: deadline(ELSEWHERE, 370, 300) }));
  const hold = await holding;
  assert.equal(hold.maxHoldRemainingMs(), 290_000);
  bench.sidecar.script.report = validity(ELSEWHERE, 90, 58);
  bench.sidecar.script.info = { maxHoldEnds: deadline(ELSEWHERE, 900, 600) };
  bench.clock.advance(20);
  const maxHoldEnds = deadline(ELSEWHERE, 900, 601);
  call.tell({ $case: "renewed", value: { validity: validity(ELSEWHERE, 90, 58), resumeToken: "", maxHoldEnds } });
  await eventually("the answer counts", () => hold.maxHoldRemainingMs() === 600_000);
});

test("s28 permits are asked for, and a grant tells which", async () => {
  await using bench = await Bench.create();
  const holding = bench.client.hold({ function: "f", permits: 3 });
  const call = await bench.sidecar.hold();
  assert.equal(call.start?.$case, "spec");
  assert.equal(call.start.value.permits, 3);
  call.tell(grant(GRANTED, { permit: 2 }));
  assert.equal((await holding).permit, 2);
  assert.equal((await bench.held()).hold.permit, 0);
  for (const permits of [1.5, -1, Number.NaN]) {
    await assert.rejects(bench.client.hold({ function: "f", permits }), /RangeError: permits is .* from 1 to 32/);
  }
});

test("s29 a busy lock tells how many permits are held", async () => {
  await using bench = await Bench.create();
  const holding = bench.client.hold({ function: "f", permits: 3 });
  const call = await bench.sidecar.hold();
  call.tell({ $case: "busy", value: Busy.create({ heldPermits: 3 }) });
  await assert.rejects(holding, (error) => error instanceof BusyError && error.heldPermits === 3);
});

test("a hold tells its state, and the answer counts", async () => {
  await using bench = await Bench.create();
  const { hold } = await bench.held();
  const { script } = bench.sidecar;
  script.report = validity(OURS, 1_060, 60);
  const progressDue = deadline(OURS, 1_030, 30);
  const told = { state: HoldState.AT_RISK, lockPath: "locks/f", fencingToken: 65_536, generation: 1, permit: 2 };
  script.info = { ...told, progressDue, maxHoldEnds: deadline(OURS, 1_300, 300) };
  const left = { remainingMs: 60_000, maxHoldRemainingMs: 300_000, progressRemainingMs: 30_000 };
  assert.deepEqual(await hold.info(), { ...told, ...left, breakNote: undefined });
  assert.equal(hold.remainingMs(), 60_000);
  script.info = told;
  const { maxHoldRemainingMs, progressRemainingMs } = await hold.info();
  assert.deepEqual([maxHoldRemainingMs, progressRemainingMs], [undefined, undefined]);
  assert.deepEqual(script.asked, ["get hold of generation 1", "get hold of generation 1"]);
});

test("a question about a hold that is over ends it here", async () => {
  await using bench = await Bench.create();
  const { hold } = await bench.held();
  const info = { reason: "HOLD_LOST", metadata: { loss_reason: "TAKEN" } };
  bench.sidecar.script.report = refusal(status.FAILED_PRECONDITION, "it is over", info);
  await assert.rejects(hold.info(), { reason: Reason.HOLD_LOST });
  assert.equal(hold.loss?.reason, LossReason.TAKEN);
});

test("a sidecar tells what it is", async () => {
  await using bench = await Bench.create();
  const limits = { wait: { seconds: 86_400, nanos: 0 }, permits: 32, checkpointBytes: 2_048 };
  bench.sidecar.script.server = GetServerInfoResponse.fromPartial({ version: "0.2.0", features: ["notice"], limits });
  const server = await bench.client.getServerInfo();
  assert.equal(server.version, "0.2.0");
  assert.ok(server.features.has("notice") && !server.features.has("permits"));
  const { waitMs, permits, checkpointBytes, maxHoldMs } = server.limits;
  assert.deepEqual([waitMs, permits, checkpointBytes, maxHoldMs], [86_400_000, 32, 2_048, 0]);
});
