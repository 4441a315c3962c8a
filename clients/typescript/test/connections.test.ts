// Over which connection a call goes, and which one is left. The first one is for streams, and the second for all other calls.

import assert from "node:assert/strict";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { LostError, Reason, RefusedError } from "../src/index.js";
import type { Hold } from "../src/index.js";
import { Grant } from "../src/proto.js";
import type { Stage } from "./stage.js";
import { TOO_OLD, settled, staged } from "./stage.js";
import { errorOf } from "./messages.js";

const GRANTED = { outcome: { $case: "granted", value: Grant.create({ leaseId: "lease-9" }) } };

staged(
  "s13 more holds than a connection carries get another, and a release stands behind none",
  async (it) => {
    const { sidecar } = it;
    sidecar.room = 3;
    const held: Hold[] = [];
    for (let made = 0; made < 5; made += 1) held.push(await it.held());
    assert.deepEqual([...sidecar.connections], [1, 3, 4]);
    for (const hold of held) await hold.release();
    assert.deepEqual(
      sidecar.asked,
      [1, 1, 3, 3, 4].map((by) => `release 1 by ${String(by)}`),
    );
    for (const stream of sidecar.streams) stream.end();
    await settled();
    assert.equal(sidecar.connections.size, 1, "those that are not needed are closed");
    assert.ok((await it.held()).isValid());
  },
  { streams: 2 },
);

staged(
  "waiting acquires and a watch do not stand in the way of short calls",
  async (it) => {
    const { client, sidecar } = it;
    sidecar.room = 2;
    const hold = await it.held();
    const acquiring = [client.acquire({ function: "f" }), client.acquire({ function: "f" })];
    const watching = client.watchLock({ function: "f", scope: "s" }).next();
    sidecar.on().say({ record: {} });
    assert.equal((await watching).done, false);
    sidecar.answers["get_lock"] = [{ record: {} }];
    await client.getLock({ function: "f" });
    await client.release("lease-9");
    await hold.release();
    const short = ["get_lock by 2", "release 0 by 2", "release 1 by 1"];
    assert.deepEqual(sidecar.asked, ["acquire_lease by 2", "acquire_lease by 3", ...short]);
    sidecar.give("acquire_lease", GRANTED);
    sidecar.give("acquire_lease", GRANTED);
    await Promise.all(acquiring);
  },
  { streams: 1 },
);

staged("s37 new streams alone leave a sidecar that is too old, and calls about a hold when it does", async (it) => {
  const { asked, connections } = it.sidecar;
  const hold = await it.held();
  await it.leave();
  const told = { until: it.now + 58_000, for: 58_000 };
  for (const name of ["get_hold", "extend_lease"]) it.sidecar.answer(name, told);
  await hold.info();
  await hold.extend(90_000);
  await hold.save("x");
  it.sidecar.break(1, { code: "UNAVAILABLE" });
  await settled();
  const reporting = hold.reportProgress();
  it.sidecar.tell(undefined, { granted: { ...told, generation: 2 } });
  await settled();
  assert.deepEqual(
    it.events.map(({ type }) => type),
    ["interrupted", "resumed"],
  );
  assert.ok(connections.has(1), "a call is under way there");
  it.sidecar.answer("report_progress", told);
  await reporting;
  assert.ok(!connections.has(1), "nothing keeps the connection that was left");
  await hold.release();
  const there = ["get_hold 1", "extend_lease 1 90000", "save_checkpoint 1 x", "report_progress 1"];
  assert.deepEqual(asked, [...there.map((call) => `${call} by 1`), "release 2 by 3"]);
  await assert.rejects(hold.reportProgress(), { reason: Reason.HOLD_RELEASED });
});

/** How a hold may end whose stream is the first; gives how many releases its sidecar is to hear of. */
const ENDS: Readonly<Record<string, (hold: Hold, it: Stage) => Promise<number>>> = {
  "it is released": async (hold, { sidecar }) => {
    await hold.release();
    sidecar.on(1).end();
    return 1;
  },
  "it is released in vain": async (hold, { sidecar }) => {
    sidecar.answers["release"] = [errorOf({ code: "INTERNAL" })];
    await assert.rejects(hold.release(), RefusedError);
    return 1;
  },
  "it is lost, and then released": async (hold, { sidecar }) => {
    sidecar.tell(1, { lost: {} });
    await settled();
    await assert.rejects(hold.release(), LostError);
    return 1;
  },
  "it is lost and dropped": async (_, { sidecar }) => {
    sidecar.tell(1, { lost: {} });
    await settled();
    return 0;
  },
  "its validity ends while it is being resumed": async (hold, it) => {
    it.sidecar.break(1, { code: "UNAVAILABLE" });
    await settled();
    it.sleep(58_000);
    await assert.rejects(hold.release(), LostError);
    return 0;
  },
  "its validity ends while it is being resumed, and it is dropped": async (_, it) => {
    it.sidecar.break(1, { code: "UNAVAILABLE" });
    await it.reach(it.now + 58_000);
    return 0;
  },
};

for (const [how, end] of Object.entries(ENDS)) {
  staged(`s13 s37 a hold keeps its connection until its end is known or given up: ${how}`, async (it) => {
    setFlagsFromString("--expose-gc");
    const collectGarbage = runInNewContext("gc") as () => void;
    const kept: Hold[] = [];
    const releases = await (async (): Promise<number> => {
      const hold = await it.held();
      if (!how.includes("dropped")) kept.push(hold);
      await it.leave();
      return await end(hold, it);
    })();
    for (let round = 0; round < 100 && it.sidecar.connections.has(1); round += 1) {
      collectGarbage();
      await settled();
    }
    assert.ok(!it.sidecar.connections.has(1), "nothing keeps the connection");
    assert.ok(kept.every((hold) => !hold.isValid()));
    assert.deepEqual(it.sidecar.asked, Array(releases).fill("release 1 by 1"));
  });
}

staged("s37 what a unary call was granted is known where it was granted", async (it) => {
  const { client, sidecar } = it;
  await it.held();
  sidecar.answers["acquire_lease"] = [GRANTED, errorOf(TOO_OLD), GRANTED];
  const { leaseId } = await client.acquire({ function: "f" });
  await it.leave();
  await Promise.all([client.acquire({ function: "f", waitMs: 60_000 }), it.reach(it.now + 1_000)]);
  await client.release(leaseId);
  assert.deepEqual(sidecar.asked, [...Array<string>(3).fill("acquire_lease by 2"), "release 0 by 2"]);
});
