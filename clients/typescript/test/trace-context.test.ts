import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { test } from "node:test";

import { Metadata } from "@grpc/grpc-js";
import { ROOT_CONTEXT, context, trace } from "@opentelemetry/api";
import type { Context, ContextManager, TraceState } from "@opentelemetry/api";

import { inTrace, traceApi } from "../src/connect/trace-context.js";
import { Bench } from "./fake-sidecar.js";

/** As OpenTelemetry's own for Node.js, which is in another package. */
class Contexts implements ContextManager {
  readonly #storage = new AsyncLocalStorage<Context>();

  active(): Context {
    return this.#storage.getStore() ?? ROOT_CONTEXT;
  }

  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(
    active: Context,
    body: F,
    self?: ThisParameterType<F>,
    ...args: A
  ): ReturnType<F> {
    return this.#storage.run(active, () => body.apply(self, args));
  }

  bind<T>(_active: Context, target: T): T {
    return target;
  }

  enable(): this {
    return this;
  }

  disable(): this {
    return this;
  }
}

context.setGlobalContextManager(new Contexts());

const STATE: TraceState = {
  get: () => "1",
  set: () => STATE,
  unset: () => STATE,
  serialize: () => "vendor=1",
};

const SPAN = trace.wrapSpanContext({
  traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
  spanId: "00f067aa0ba902b7",
  traceFlags: 1,
  traceState: STATE,
});
const PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

function within<T>(body: () => T): T {
  return context.with(trace.setSpan(context.active(), SPAN), body);
}

test("calls and holds carry the trace that their caller is in", async () => {
  await using bench = await Bench.create();
  const sent = (name: string): unknown => bench.sidecar.script.metadata?.get(name);
  await within(async () => await bench.client.acquire({ function: "f" }).catch(() => undefined));
  assert.deepEqual(sent("traceparent"), [PARENT]);
  assert.deepEqual(sent("tracestate"), ["vendor=1"]);
  const { call } = await within(async () => await bench.held());
  assert.deepEqual(call.metadata.get("traceparent"), [PARENT]);
  await bench.client.acquire({ function: "f" }).catch(() => undefined);
  assert.deepEqual(sent("traceparent"), [], "outside of the trace");
});

test("without the library, or in no trace, the metadata stays as it is", () => {
  const missing = traceApi(() => {
    throw new Error("Cannot find module");
  });
  assert.equal(missing, null);
  const metadata = new Metadata();
  const inside = within(() => inTrace(metadata, missing));
  assert.equal(inside, metadata);
  assert.equal(inTrace(metadata), metadata);
});
