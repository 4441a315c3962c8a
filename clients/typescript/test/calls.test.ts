// Calls that are about no stream, watches, and what goes with each call.

import assert from "node:assert/strict";
import { test } from "node:test";

import { InterceptingCall, Metadata, status } from "@grpc/grpc-js";
import type { Interceptor } from "@grpc/grpc-js";
import { ROOT_CONTEXT, context, trace } from "@opentelemetry/api";
import type { ContextManager, TraceState } from "@opentelemetry/api";

import { inTrace, traceApi } from "../src/connect/trace-context.js";
import {
  BusyError,
  CompletionResult,
  LockState,
  OccurrenceOverError,
  ProtocolError,
  RefusedError,
} from "../src/index.js";
import type { Client, LockRecord } from "../src/index.js";
import type { AcquireLeaseRequest } from "../src/proto.js";
import { BreakMode, LockRecord as Recorded, RunOutcome, Schedule as Stored } from "../src/proto.js";
import { Bench, GONE, GRANTED, OURS, PATIENCE_MS, TOO_OLD, refusal, validity } from "./fake-sidecar.js";

const SHORT = { timeout: PATIENCE_MS };
const told = { validity: validity(OURS, 1_060, 60) };
const record = Recorded.create({ lockPath: "locks/a" });
const schedule = Stored.create({ lockPath: "locks/a", paused: true });
const lock = { lockPath: "locks/a" };
const at = { lock: { lock: { $case: "lockPath", value: "locks/a" }, permit: 0 } };
const lease = { leaseId: "l", generation: 0 };
const under = { $case: "prefix", value: "p" } as const;
const listed = { states: [LockState.HELD], labels: { a: "b" }, share: "s", pageSize: 7 };
const paged = { nextPageToken: "next" };
const after = new Date(1_000);
const by = { brokenBy: "me" };
const run = { runId: "r", outcome: RunOutcome.FAILED_FINAL, leaseId: "", detail: "" };

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const got: T[] = [];
  for await (const item of items) got.push(item);
  return got;
}

/** Each call: its name, what is called, what of that goes over the wire, and the answer, whose first field it gives. */
const CALLS: readonly [string, (it: Client) => Promise<unknown>, object, object][] = [
  ["getLock", (it) => it.getLock(lock, { withCheckpoint: true }), { ...at, withCheckpoint: true }, { record }],
  ["checkToken", (it) => it.checkToken(lock, 7), { ...at, fencingToken: 7 }, { newestFencingToken: 8 }],
  ["breakLock", (it) => it.breakLock(lock, "old"), { ...at, reason: "old", mode: BreakMode.RUN_OUT }, { record }],
  ["breakLock", (it) => it.breakLock(lock, "", { now: true, ...by }), { mode: BreakMode.NOW, ...by }, {}],
  ["resolvePath", (it) => it.resolvePath({ function: "f" }), {}, { lockPath: "f" }],
  ["extendLease", (it) => it.extend("l", 90_000), { ...lease, maxHold: { seconds: 90, nanos: 0 } }, told],
  ["reportProgress", (it) => it.reportProgress("l"), lease, told],
  ["getHold", (it) => it.getHold("l"), lease, told],
  ["saveCheckpoint", (it) => it.saveCheckpoint("l", "a"), { ...lease, value: Buffer.from("a") }, { version: 7 }],
  ["listLocks", (it) => all(it.listLocks({ prefix: "p", ...listed })), { under, ...listed }, { records: [record] }],
  ["getSchedule", (it) => it.getSchedule(lock), at, { schedule }],
  ["pauseSchedule", (it) => it.pauseSchedule(lock), at, { schedule }],
  ["resumeSchedule", (it) => it.resumeSchedule(lock), at, { schedule }],
  ["triggerSchedule", (it) => it.triggerSchedule(lock, "by-hand"), { ...at, requestId: "by-hand" }, { schedule }],
  ["removeSchedule", (it) => it.removeSchedule(lock, "", { force: true }), { ...at, force: true }, { schedule }],
  ["resetSchedule", (it) => it.resetSchedule(lock, "why", { revision: 3 }), { ...at, revision: 3 }, { schedule }],
  ["listSchedules", (it) => all(it.listSchedules({ prefix: "p" })), { under, pageSize: 0 }, { schedules: [schedule] }],
  ["completeRun", (it) => it.completeRun("r", { outcome: "failedFinal" }), run, { result: CompletionResult.RECORDED }],
];

test("every unary call reaches the sidecar", SHORT, async () => {
  await using bench = await Bench.create();
  for (const [name, call, sent, answer] of CALLS) {
    bench.sidecar.answers[name] = [answer];
    const result: unknown = await call(bench.client);
    const { name: asked, request } = bench.sidecar.calls.at(-1) ?? {};
    assert.equal(asked, name);
    assert.deepEqual({ ...(request as object), ...sent }, { ...(request as object) }, name);
    const [field, value] = Object.entries(answer)[0] ?? [""];
    if (field !== "") assert.deepEqual(field in Object(result) ? (result as never)[field] : result, value, name);
  }
});

test("answers are in this language's words", SHORT, async () => {
  await using bench = await Bench.create();
  const { client, sidecar } = bench;
  sidecar.answers["breakLock"] = [{ freeIn: { seconds: 1, nanos: 500_000_000 } }];
  assert.equal((await client.breakLock(lock, "stuck")).freeInMs, 1_500);
  const understood = { zoneData: "2026b" };
  sidecar.answers["previewSchedule"] = [{ understood, occurrences: [{ at: after }] }];
  const preview = await client.previewSchedule({ cron: "@daily" }, { after, count: 2, name: { function: "f" } });
  assert.deepEqual([preview.understood.zoneData, preview.occurrences.map(({ at: due }) => due)], ["2026b", [after]]);
  const { needs, count, ...asked } = sidecar.calls.at(-1)?.request as Record<string, unknown>;
  assert.deepEqual([needs, count, asked["after"]], [1, 2, after]);
  const limits = { wait: { seconds: 86_400, nanos: 0 }, permits: 32 };
  sidecar.answers["getServerInfo"] = [{ version: "0.2.0", features: ["notice"], limits }];
  const { features, limits: most } = await client.getServerInfo();
  assert.deepEqual([...features, most.waitMs, most.permits, most.maxHoldMs], ["notice", 86_400_000, 32, 0]);
});

test("a list goes on through all pages, also past an empty one", SHORT, async () => {
  await using bench = await Bench.create();
  const { client, sidecar } = bench;
  sidecar.answers["listLocks"] = [{ records: [record], ...paged }, paged, { records: [record] }];
  assert.deepEqual(await all(client.listLocks()), [record, record]);
  sidecar.answers["listSchedules"] = [{ schedules: [schedule], ...paged }, { schedules: [schedule] }];
  assert.deepEqual(await all(client.listSchedules()), [schedule, schedule]);
  const tokens = sidecar.calls.map(({ request }) => (request as { pageToken: string }).pageToken);
  assert.deepEqual(tokens, ["", "next", "next", "", "next"]);
});

test("an acquire is granted or busy, or over and nothing else", SHORT, async () => {
  await using bench = await Bench.create();
  const acquire = (): Promise<unknown> => bench.client.acquire({ function: "f", occurrence: after });
  const [busy, over] = [{ $case: "busy", value: {} } as const, { $case: "skipped", value: {} } as const];
  bench.sidecar.answers["acquireLease"] = [{}, { outcome: GRANTED }, { outcome: busy }, { outcome: over }];
  await assert.rejects(acquire(), ProtocolError);
  assert.deepEqual(await acquire(), GRANTED.value);
  await assert.rejects(acquire(), BusyError);
  await assert.rejects(acquire(), OccurrenceOverError);
});

test("an acquire without end asks again, and waits as long as the sidecar allows", SHORT, async () => {
  await using bench = await Bench.create();
  const { client, sidecar } = bench;
  const violations = [{ field: "spec.wait", description: "is too long" }];
  const tooLong = refusal(status.INVALID_ARGUMENT, "no", { reason: "INVALID_FIELD" }, { violations });
  const busy = { outcome: { $case: "busy", value: {} } };
  sidecar.answers["acquireLease"] = [tooLong, busy, { outcome: GRANTED }, refusal(status.UNAVAILABLE, "going away")];
  await client.acquire({ function: "f", waitMs: Infinity });
  const waits = sidecar.calls.map(({ request }) => (request as AcquireLeaseRequest).spec?.wait?.seconds);
  assert.deepEqual(waits, [86_400, 43_200, 43_200]);
  await assert.rejects(client.acquire({ function: "f", waitMs: Infinity }), RefusedError);
});

test("s37 an acquire tries on while its wait lasts, and its caller does", SHORT, async () => {
  await using bench = await Bench.create();
  const { client, sidecar } = bench;
  sidecar.answers["acquireLease"] = [TOO_OLD, TOO_OLD, TOO_OLD, { outcome: GRANTED }, TOO_OLD];
  await assert.rejects(client.acquire({ function: "f" }), { reason: "UNSUPPORTED", message: "2 and 1" });
  await client.acquire({ function: "f", waitMs: 60_000 });
  assert.equal(sidecar.asked.length, 4);
  const signal = AbortSignal.timeout(100);
  await assert.rejects(client.acquire({ function: "f", waitMs: 60_000 }, { signal }), { name: "TimeoutError" });
});

test("s14 each call has the kernel, a token asked for it, and goes through interceptors", SHORT, async () => {
  await using bench = await Bench.create();
  let asked = 0;
  const bearerToken = async (): Promise<string> => {
    asked += 1;
    if (asked > 2) throw new Error("the file is gone");
    return await Promise.resolve(`token-${String(asked)}\n`);
  };
  const methods: string[] = [];
  const noting: Interceptor = (options, nextCall) => {
    methods.push(options.method_definition.path.replace(/.*\//, ""));
    return new InterceptingCall(nextCall(options));
  };
  await using client = await bench.another({ bearerToken, interceptors: [noting] });
  await using fixed = await bench.another({ bearerToken: "secret\n" });
  for (const it of [client, client, fixed]) await it.reportProgress("l").catch(() => undefined);
  const sent = (name: string): unknown[] => bench.sidecar.calls.map(({ metadata }) => metadata.get(name)[0]);
  assert.deepEqual(sent("authorization"), ["Bearer token-1", "Bearer token-2", "Bearer secret"]);
  assert.deepEqual(sent("leasehold-boot-id"), [OURS, OURS, OURS]);
  const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  const before = timers();
  const failing = client.resolvePath({ function: "f" });
  await assert.rejects(failing, { name: "RefusedError", code: status.UNAUTHENTICATED, message: /the file is gone/ });
  assert.equal(timers(), before, "nothing keeps the process alive");
  assert.deepEqual(methods, ["ReportProgress", "ReportProgress", "ResolvePath"]);
});

async function nextHolder(watch: AsyncGenerator<LockRecord>): Promise<string | undefined> {
  const { value } = (await watch.next()) as { value: LockRecord | undefined };
  return value?.holder;
}

test("a watch is opened again when it breaks or goes silent, and tells nothing twice", SHORT, async () => {
  await using bench = await Bench.create(undefined, { silenceMs: 500 });
  const stop = new AbortController();
  const watch = bench.client.watchLock(lock, { signal: stop.signal });
  const of = (holder: string): LockRecord => Recorded.create({ holder });
  const [a, b, c] = [of("a"), of("b"), of("c")];
  for (const records of [[a], [a, b], [b, c]]) {
    const next = nextHolder(watch);
    const call = await bench.sidecar.watches.next("it is watched");
    call.tell(...records);
    assert.equal(await next, records.at(-1)?.holder);
    if (records.includes(c)) call.fail(refusal(status.UNAVAILABLE, "no store", { reason: "STORE_UNAVAILABLE" }));
    else if (records.includes(b)) call.fail(GONE);
  }
  await assert.rejects(watch.next(), { reason: "STORE_UNAVAILABLE" });
  const ended = bench.client.watchLock(lock, { signal: stop.signal }).next();
  const last = await bench.sidecar.watches.next("it is watched");
  stop.abort();
  await assert.rejects(ended, { name: "AbortError" });
  await last.ended();
});

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
