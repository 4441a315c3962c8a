// The trace that a caller is in, as W3C Trace Context, where OpenTelemetry's API is installed.

import { createRequire } from "node:module";

import type { Metadata } from "@grpc/grpc-js";

/** What is used of OpenTelemetry's API. */
export interface TraceApi {
  readonly trace: { getActiveSpan(): ActiveSpan | undefined };
  isSpanContextValid(context: SpanContext): boolean;
}

interface ActiveSpan {
  spanContext(): SpanContext;
}

interface SpanContext {
  readonly traceId: string;
  readonly spanId: string;
  readonly traceFlags: number;
  readonly traceState?: { serialize(): string } | undefined;
}

/** OpenTelemetry's API; null where `load` does not find it. */
export function traceApi(load: (name: string) => unknown = createRequire(import.meta.url)): TraceApi | null {
  try {
    return load("@opentelemetry/api") as TraceApi;
  } catch {
    return null;
  }
}

const API = traceApi();

/** The metadata with the trace of the current context; itself where there is none. */
export function inTrace(metadata: Metadata, api: TraceApi | null = API): Metadata {
  const context = api?.trace.getActiveSpan()?.spanContext();
  if (context === undefined || api?.isSpanContextValid(context) !== true) return metadata;
  const { traceId, spanId, traceFlags, traceState } = context;
  const traced = metadata.clone();
  traced.set("traceparent", `00-${traceId}-${spanId}-${(traceFlags & 1) === 1 ? "01" : "00"}`);
  const state = traceState?.serialize();
  if (state !== undefined && state !== "") traced.set("tracestate", state);
  return traced;
}
