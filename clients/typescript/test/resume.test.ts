import assert from "node:assert/strict";
import { test } from "node:test";

import { status } from "@grpc/grpc-js";

import type { RefusedError } from "../src/errors/errors.js";
import { finalRefusal } from "../src/hold/keeper.js";
import { LossReason } from "../src/index.js";
import { refused } from "../src/errors/refusal.js";
import type { Refused } from "./fake-sidecar.js";
import { Bench, OURS, grant, refusal, validity } from "./fake-sidecar.js";

function errorOf(told: Refused): RefusedError {
  return refused(Object.assign(new Error(told.details), told));
}

test("s16 a hold survives a restart of the sidecar", async () => {
  await using bench = await Bench.create();
  const { hold, events } = await bench.held();
  bench.kill();
  assert.equal((await events.next("the interruption is told")).type, "interrupted");
  assert.ok(hold.isValid(), "the validity runs on");
  await bench.restart();
  const call = await bench.sidecar.hold();
  assert.equal(call.start?.$case, "resume");
  assert.equal(call.start.value.resumeToken, "resume-1");
  assert.deepEqual(call.start.value.toldValidUntil, validity(OURS, 1_058, 58).validUntil);
  bench.clock.advance(10);
  call.tell(grant(validity(OURS, 1_068, 58)));
  assert.deepEqual(await events.next("the resumption is told"), { type: "resumed", remainingMs: 58_000 });
  bench.clock.advance(10);
  call.tell({
    $case: "renewed",
    value: { validity: validity(OURS, 1_078, 58), resumeToken: "", maxHoldEnds: undefined },
  });
  assert.equal((await events.next("the new stream is read")).type, "renewed");
  await hold.release();
  await call.ended();
});

test("s16 which errors are final", () => {
  const info = (reason: string): { reason: string } => ({ reason });
  const final = [
    refusal(status.ABORTED, "", info("SUPERSEDED")),
    refusal(status.INVALID_ARGUMENT, ""),
    refusal(status.NOT_FOUND, ""),
    refusal(status.FAILED_PRECONDITION, ""),
    refusal(status.DATA_LOSS, ""),
    refusal(status.UNIMPLEMENTED, ""),
  ];
  for (const told of final) assert.equal(finalRefusal(errorOf(told))?.reason, LossReason.UNSPECIFIED, told.details);
  const passing = [
    refusal(status.ABORTED, "", info("STREAM_BEHIND")),
    refusal(status.UNAVAILABLE, "", info("SHUTTING_DOWN")),
    refusal(status.INTERNAL, ""),
    refusal(status.CANCELLED, ""),
    refusal(status.UNAUTHENTICATED, ""),
  ];
  for (const told of passing) assert.equal(finalRefusal(errorOf(told)), undefined);
  const lost = { reason: "HOLD_LOST", metadata: { loss_reason: "BROKEN" } };
  assert.equal(finalRefusal(errorOf(refusal(status.FAILED_PRECONDITION, "", lost)))?.reason, LossReason.BROKEN);
});
