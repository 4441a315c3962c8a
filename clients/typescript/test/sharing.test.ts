import assert from "node:assert/strict";
import { test } from "node:test";

import { BusyError, BusyReason, Notice, PriorityStatus } from "../src/index.js";
import type { HoldCall } from "./fake-sidecar.js";
import { BreakNote, Busy, LockRecord, LeaseSpec as WireSpec } from "../src/proto.js";
import { Bench, OURS, eventually, grant, validity } from "./fake-sidecar.js";

const GRANTED = validity(OURS, 1_058, 58);
const ASKED = { priority: 7, yields: true, share: "listeners", rebalance: true };

function asked({ start }: HoldCall): typeof ASKED {
  const spec = start?.$case === "spec" ? start.value : WireSpec.create();
  const { priority, yields, share, rebalance } = spec;
  return { priority, yields, share, rebalance };
}

test("s33 to s35 what is asked for goes over the wire", async () => {
  await using bench = await Bench.create();
  const holding = bench.client.hold({ function: "f", ...ASKED });
  const call = await bench.sidecar.hold();
  assert.deepEqual(asked(call), ASKED);
  call.tell({ $case: "waiting", value: { position: 1, record: undefined } });
  call.tell(grant(GRANTED));
  await (await holding).release();
  bench.sidecar.script.acquire = grant(GRANTED);
  await bench.client.acquire({ function: "f", ...ASKED });
});

test("s33 to s35 terms are asked for with them", async () => {
  await using bench = await Bench.create();
  const terms = bench.client.lead({ function: "f", ...ASKED });
  const first = terms.next();
  const call = await bench.sidecar.hold();
  assert.deepEqual(asked(call), ASKED);
  call.tell(grant(GRANTED));
  assert.equal((await first).value?.fencingToken, 65_536);
  await terms.return();
});

test("s33 a priority that cannot be sent is refused", async () => {
  await using bench = await Bench.create();
  for (const priority of [1.5, -1, Number.NaN, 2 ** 32]) {
    const refused = /RangeError: priority is .* from 0 to 2147483647/;
    await assert.rejects(bench.client.hold({ function: "f", priority }), refused);
  }
});

test("s33 a busy lock says why a priority waits", async () => {
  await using bench = await Bench.create();
  const { client, sidecar } = bench;
  const record = LockRecord.create({ sidecar: "pod-a/17", share: "listeners", priority: 9 });
  const told: [PriorityStatus, PriorityStatus | undefined, RegExp][] = [
    [
      PriorityStatus.NOT_GREATER,
      PriorityStatus.NOT_GREATER,
      /is busy: held by somebody else \(priority: not greater\)$/,
    ],
    [PriorityStatus.UNSPECIFIED, undefined, /is busy: held by somebody else$/],
    [PriorityStatus.UNRECOGNIZED, undefined, /is busy: held by somebody else$/],
  ];
  for (const [priorityStatus, status, message] of told) {
    const holding = client.hold({ function: "f", priority: 7 });
    const call = await sidecar.hold();
    call.tell({ $case: "busy", value: Busy.create({ priorityStatus, record, reason: BusyReason.HELD }) });
    const error: unknown = await holding.catch((caught: unknown) => caught);
    assert.ok(error instanceof BusyError);
    assert.equal(error.priorityStatus, status);
    assert.match(error.message, message);
    assert.equal(error.record?.sidecar, "pod-a/17");
  }
});

test("s33 a notice tells a greater priority from an operator", async () => {
  await using bench = await Bench.create();
  for (const forPriority of [7, 0, undefined]) {
    const { hold, call } = await bench.held();
    const breakNote = BreakNote.create({ reason: "taken over", brokenBy: "pod-b", forPriority });
    call.tell({ $case: "revoked", value: { validity: GRANTED, breakNote } });
    await eventually("the notice is told", () => hold.revokedSignal.aborted);
    assert.ok(hold.notice instanceof Notice);
    assert.equal(hold.notice.forPriority, forPriority);
    const whom = forPriority === undefined ? "" : ` for a caller of priority ${String(forPriority)}`;
    assert.ok(hold.notice.message.startsWith(`the lock was broken by pod-b${whom}: taken over;`));
    await hold.release();
  }
});
