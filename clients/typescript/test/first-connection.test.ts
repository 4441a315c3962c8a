import assert from "node:assert/strict";
import { test } from "node:test";

import type { Interceptor } from "@grpc/grpc-js";
import { InterceptingCall, ListenerBuilder, RequesterBuilder, status } from "@grpc/grpc-js";

import { UnreachableError } from "../src/index.js";
import { Bench, OURS, PATIENCE_MS, eventually, grant, validity } from "./fake-sidecar.js";

const GRANTED = grant(validity(OURS, 1_058, 58));

/** A bench whose sidecar is not there yet. */
async function withoutSidecar(): Promise<Bench> {
  const bench = await Bench.create();
  bench.kill();
  return bench;
}

test("a wait covers a sidecar that starts later", { timeout: PATIENCE_MS }, async () => {
  for (const waitMs of [3_600_000, Infinity]) {
    await using bench = await withoutSidecar();
    let tries = 0;
    const watching: Interceptor = (options, nextCall) => {
      const requester = new RequesterBuilder().withStart((metadata, _listener, next) => {
        const onStatus = new ListenerBuilder().withOnReceiveStatus((told, pass) => {
          if (told.code === status.UNAVAILABLE) tries += 1;
          pass(told);
        });
        next(metadata, onStatus.build());
      });
      return new InterceptingCall(nextCall(options), requester.build());
    };
    await using client = await bench.another({ interceptors: [watching] });
    const holding = client.hold({ function: "f", waitMs });
    await eventually("it has tried", () => tries > 0);
    await bench.restart();
    (await bench.sidecar.hold()).tell(GRANTED);
    await (await holding).release();
  }
});

test("the wait of a unary call covers a sidecar that starts later", { timeout: PATIENCE_MS }, async () => {
  await using bench = await withoutSidecar();
  await using client = await bench.another();
  const acquiring = client.acquire({ function: "f", waitMs: 3_600_000 });
  await assert.rejects(client.getLock({ function: "f" }), UnreachableError);
  await bench.restart();
  bench.sidecar.script.acquire = GRANTED;
  assert.equal((await acquiring).leaseId, "lease-1");
});

test("a wait for a sidecar ends with its signal", { timeout: PATIENCE_MS }, async () => {
  await using bench = await withoutSidecar();
  await using client = await bench.another();
  for (const wait of [3_600_000, Infinity]) {
    const signal = AbortSignal.timeout(50);
    await assert.rejects(client.hold({ function: "f", waitMs: wait }, { signal }), { name: "TimeoutError" });
    await assert.rejects(client.acquire({ function: "f", waitMs: wait }, { signal }), { name: "TimeoutError" });
  }
});
