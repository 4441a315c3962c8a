import assert from "node:assert/strict";
import { test } from "node:test";

import { Metadata } from "@grpc/grpc-js";
import { ROOT_CONTEXT, context, trace } from "@opentelemetry/api";
import type { ContextManager, TraceState } from "@opentelemetry/api";

import { inTrace, traceApi } from "../src/connect/trace-context.js";
import { Bench } from "./fake-sidecar.js";

/** The context that whatever is called is in. */
let active = ROOT_CONTEXT;
context.setGlobalContextManager({ active: () => active } as Partial<ContextManager> as ContextManager);

const traceState = { serialize: () => "vendor=1" } as Partial<TraceState> as TraceState;
const ids = { traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: "00f067aa0ba902b7" };
const INSIDE = trace.setSpan(ROOT_CONTEXT, trace.wrapSpanContext({ ...ids, traceFlags: 1, traceState }));
const PARENT = `00-${ids.traceId}-${ids.spanId}-01`;

test("calls and holds carry the trace that their caller is in", async () => {
  await using bench = await Bench.create();
  const acquire = async (): Promise<unknown[]> => {
    await bench.client.acquire({ function: "f" }).catch(() => undefined);
    const sent = bench.sidecar.calls.at(-1)?.metadata;
    return ["traceparent", "tracestate"].flatMap((name) => sent?.get(name) ?? []);
  };
  active = INSIDE;
  assert.deepEqual(await acquire(), [PARENT, "vendor=1"]);
  const { call } = await bench.held();
  assert.deepEqual(call.metadata.get("traceparent"), [PARENT]);
  active = ROOT_CONTEXT;
  assert.deepEqual(await acquire(), [], "outside of the trace");
});

test("without the library, or in no trace, the metadata stays as it is", () => {
  const missing = traceApi(() => {
    throw new Error("Cannot find module");
  });
  assert.equal(missing, null);
  const metadata = new Metadata();
  active = INSIDE;
  assert.equal(inTrace(metadata, missing), metadata);
  active = ROOT_CONTEXT;
  assert.equal(inTrace(metadata), metadata);
});
