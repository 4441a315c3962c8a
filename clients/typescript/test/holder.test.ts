import assert from "node:assert/strict";
import { hostname } from "node:os";
import { test } from "node:test";

import { named } from "../src/hold/holder.js";
import { LeaseSpec } from "../src/proto.js";
import { leaseSpec } from "../src/hold/spec.js";
import { subscription } from "../src/runs/spec.js";
import { Bench, OURS, grant, validity } from "./fake-sidecar.js";

const THIS = `${hostname()}/${String(process.pid)}`;

test("a caller without a name is its pod or host and process", () => {
  assert.equal(named("importer-7f9c", 17), "importer-7f9c/17");
  assert.equal(named("", 17), "17");
  assert.equal(named("björn", 17), "17");
  assert.equal(named("a\nb", 17), "17");
  assert.equal(named("h".repeat(300), 17), `${"h".repeat(253)}/17`);
});

test("each request that names no holder names this process", async () => {
  await using bench = await Bench.create();
  const holding = bench.client.hold({ function: "f" });
  const call = await bench.sidecar.hold();
  const spec = call.start?.$case === "spec" ? call.start.value : LeaseSpec.create();
  assert.equal(spec.holder, THIS);
  call.tell(grant(validity(OURS, 1_058, 58)));
  await (await holding).release();
  assert.equal(leaseSpec({ function: "f", permits: 2 }, 0).holder, THIS);
  assert.equal(leaseSpec({ function: "f", holder: "me" }, 0).holder, "me");
  assert.equal(subscription({ function: "f", cron: "@daily" }).holder, THIS);
  assert.equal(subscription({ function: "f", cron: "@daily", holder: "me" }).holder, "me");
});
