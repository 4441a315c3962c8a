import assert from "node:assert/strict";
import { test } from "node:test";

import { InterceptingCall, status } from "@grpc/grpc-js";
import type { Interceptor } from "@grpc/grpc-js";

import { MacClock, clockOf } from "../src/hold/boot-clock.js";
import { dialer } from "../src/connect/endpoint.js";
import { EndpointError, PlatformError } from "../src/index.js";
import type { ConnectOptions } from "../src/index.js";
import { Bench, eventually } from "./fake-sidecar.js";

function keepAliveOf(options: ConnectOptions): unknown {
  return dialer(options).channelOptions["grpc.keepalive_time_ms"];
}

test("s14 pings test connections to other machines only, unless asked for", () => {
  for (const endpoint of ["unix:///run/a", "http://localhost:1", "http://127.8.9.10:1", "http://[::1]:1"]) {
    assert.equal(keepAliveOf({ endpoint }), undefined, endpoint);
  }
  for (const endpoint of ["http://leasehold:1", "http://10.0.0.7:1", "http://127.example.org:1"]) {
    assert.equal(keepAliveOf({ endpoint }), 30_000, endpoint);
    assert.equal(keepAliveOf({ endpoint, keepAliveMs: false }), undefined, endpoint);
  }
  assert.equal(keepAliveOf({ endpoint: "http://127.0.0.1:1", keepAliveMs: 10_000 }), 10_000);
});

test("options that cannot be kept are refused", () => {
  for (const wrong of [{ keepAliveMs: 9_999 }, { releaseTimeoutMs: 0 }, { bearerToken: "" }, { bearerToken: "a b" }]) {
    assert.throws(() => dialer({ endpoint: "http://127.0.0.1:1", ...wrong }), EndpointError, JSON.stringify(wrong));
  }
});

test("more holds than a connection carries get another", async () => {
  await using bench = await Bench.create(undefined, { streams: 2 });
  const held = [];
  for (let made = 0; made < 5; made += 1) held.push(await bench.held());
  assert.equal(bench.sidecar.connections, 3);
  for (const { hold, call } of held) {
    await hold.release();
    call.end();
  }
  await eventually("those that are not needed are closed", () => bench.sidecar.connections === 1);
  assert.ok((await bench.held()).hold.isValid());
});

test("a token is asked for each call, and one that cannot be got fails the call", async () => {
  await using bench = await Bench.create();
  let asked = 0;
  const bearerToken = async (): Promise<string> => {
    asked += 1;
    if (asked > 2) throw new Error("the file is gone");
    return await Promise.resolve(`token-${String(asked)}\n`);
  };
  await using client = await bench.another({ bearerToken });
  bench.sidecar.script.acquire = undefined;
  await client.acquire({ function: "f" }).catch(() => undefined);
  await client.acquire({ function: "f" }).catch(() => undefined);
  const tokens = bench.sidecar.script.asked.map((call) => call.split(" ").slice(2, 4).join(" "));
  assert.deepEqual(tokens, ["Bearer token-1", "Bearer token-2"]);
  const failing = client.resolvePath({ function: "f" });
  await assert.rejects(failing, { name: "RefusedError", code: status.UNAUTHENTICATED, message: /the file is gone/ });
});

test("interceptors see each call", async () => {
  await using bench = await Bench.create();
  const methods: string[] = [];
  const record: Interceptor = (options, nextCall) => {
    methods.push(options.method_definition.path.replace(/.*\//, ""));
    return new InterceptingCall(nextCall(options));
  };
  bench.client.close();
  bench.client = await bench.another({ interceptors: [record] });
  await (await bench.held()).hold.release();
  assert.deepEqual(methods, ["HoldLease", "ReleaseLease"]);
});

test("each platform has its clock, or says why not", () => {
  const mac = clockOf("darwin");
  assert.ok(mac instanceof MacClock);
  assert.equal(mac.bootId, "", "S21: no sidecar is compared with it");
  const first = mac.read();
  assert.ok(mac.read().latest >= first.earliest);
  assert.notEqual(clockOf("linux").bootId, "");
  assert.throws(() => clockOf("win32"), PlatformError);
  assert.throws(() => clockOf("win32"), /^PlatformError: Leasehold's client needs Linux or macOS/);
});
