// Calls that are about no stream, watches, and what goes with each call.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Metadata, status } from "@grpc/grpc-js";
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
import { BreakMode, Grant, LockRecord as Recorded, RunOutcome, Schedule as Stored } from "../src/proto.js";
import { OURS, errorOf, refusal } from "./messages.js";
import { TOO_OLD, settled, staged } from "./stage.js";

const told = { validity: { validUntil: undefined, validFor: { seconds: 60, nanos: 0 } } };
const granted = { outcome: { $case: "granted", value: Grant.create({ leaseId: "lease-1" }) } };
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
  ["get_lock", (it) => it.getLock(lock, { withCheckpoint: true }), { ...at, withCheckpoint: true }, { record }],
  ["check_token", (it) => it.checkToken(lock, 7), { ...at, fencingToken: 7 }, { newestFencingToken: 8 }],
  ["break_lock", (it) => it.breakLock(lock, "old"), { ...at, reason: "old", mode: BreakMode.RUN_OUT }, { record }],
  ["break_lock", (it) => it.breakLock(lock, "", { now: true, ...by }), { mode: BreakMode.NOW, ...by }, {}],
  ["resolve_path", (it) => it.resolvePath({ function: "f" }), {}, { lockPath: "f" }],
  ["extend_lease", (it) => it.extend("l", 90_000), { ...lease, maxHold: { seconds: 90, nanos: 0 } }, told],
  ["report_progress", (it) => it.reportProgress("l"), lease, told],
  ["get_hold", (it) => it.getHold("l"), lease, told],
  ["save_checkpoint", (it) => it.saveCheckpoint("l", "a"), { ...lease, value: Buffer.from("a") }, { version: 7 }],
  ["list_locks", (it) => all(it.listLocks({ prefix: "p", ...listed })), { under, ...listed }, { records: [record] }],
  ["get_schedule", (it) => it.getSchedule(lock), at, { schedule }],
  ["pause_schedule", (it) => it.pauseSchedule(lock), at, { schedule }],
  ["resume_schedule", (it) => it.resumeSchedule(lock), at, { schedule }],
  ["trigger_schedule", (it) => it.triggerSchedule(lock, "by-hand"), { ...at, requestId: "by-hand" }, { schedule }],
  ["remove_schedule", (it) => it.removeSchedule(lock, "", { force: true }), { ...at, force: true }, { schedule }],
  ["reset_schedule", (it) => it.resetSchedule(lock, "why", { revision: 3 }), { ...at, revision: 3 }, { schedule }],
  ["list_schedules", (it) => all(it.listSchedules({ prefix: "p" })), { under, pageSize: 0 }, { schedules: [schedule] }],
  ["complete_run", (it) => it.completeRun("r", { outcome: "failedFinal" }), run, { result: CompletionResult.RECORDED }],
];

staged("every unary call reaches the sidecar", async (it) => {
  for (const [name, call, sent, answer] of CALLS) {
    it.sidecar.answers[name] = [answer];
    const result: unknown = await call(it.client);
    const { request } = it.sidecar.calls.at(-1) ?? {};
    assert.equal(it.sidecar.asked.at(-1)?.split(" ")[0], name);
    assert.deepEqual({ ...request, ...sent }, { ...request }, name);
    const [field, value] = Object.entries(answer)[0] ?? [""];
    if (field !== "") assert.deepEqual(field in Object(result) ? (result as never)[field] : result, value, name);
  }
});

staged("answers are in this language's words", async ({ client, sidecar }) => {
  sidecar.answers["break_lock"] = [{ freeIn: { seconds: 1, nanos: 500_000_000 } }];
  assert.equal((await client.breakLock(lock, "stuck")).freeInMs, 1_500);
  const understood = { zoneData: "2026b" };
  sidecar.answers["preview_schedule"] = [{ understood, occurrences: [{ at: after }] }];
  const preview = await client.previewSchedule({ cron: "@daily" }, { after, count: 2, name: { function: "f" } });
  assert.deepEqual([preview.understood.zoneData, preview.occurrences.map(({ at: due }) => due)], ["2026b", [after]]);
  const { needs, count, ...asked } = sidecar.calls.at(-1)?.request as Record<string, unknown>;
  assert.deepEqual([needs, count, asked["after"]], [1, 2, after]);
  const limits = { wait: { seconds: 86_400, nanos: 0 }, permits: 32 };
  sidecar.answers["get_server_info"] = [{ version: "0.2.0", features: ["notice"], limits }];
  const { features, limits: most } = await client.getServerInfo();
  assert.deepEqual([...features, most.waitMs, most.permits, most.maxHoldMs], ["notice", 86_400_000, 32, 0]);
});

staged("a list goes on through all pages, also past an empty one", async ({ client, sidecar }) => {
  sidecar.answers["list_locks"] = [{ records: [record], ...paged }, paged, { records: [record] }];
  assert.deepEqual(await all(client.listLocks()), [record, record]);
  sidecar.answers["list_schedules"] = [{ schedules: [schedule], ...paged }, { schedules: [schedule] }];
  assert.deepEqual(await all(client.listSchedules()), [schedule, schedule]);
  const tokens = sidecar.calls.map(({ request }) => (request as { pageToken: string }).pageToken);
  assert.deepEqual(tokens, ["", "next", "next", "", "next"]);
});

staged("an acquire is granted or busy, or over and nothing else", async ({ client, sidecar }) => {
  const acquire = (): Promise<unknown> => client.acquire({ function: "f", occurrence: after });
  const [busy, over] = ["busy", "skipped"].map(($case) => ({ outcome: { $case, value: {} } }));
  sidecar.answers["acquire_lease"] = [{}, granted, { ...busy }, { ...over }];
  await assert.rejects(acquire(), ProtocolError);
  assert.deepEqual(await acquire(), granted.outcome.value);
  await assert.rejects(acquire(), BusyError);
  await assert.rejects(acquire(), OccurrenceOverError);
});

staged("an acquire without end asks again, and waits as long as the sidecar allows", async ({ client, sidecar }) => {
  const violations = [{ field: "spec.wait", description: "is too long" }];
  const tooLong = refusal(status.INVALID_ARGUMENT, "no", { reason: "INVALID_FIELD" }, { violations });
  const busy = { outcome: { $case: "busy", value: {} } };
  sidecar.answers["acquire_lease"] = [tooLong, busy, granted, errorOf({ code: "UNAVAILABLE" })];
  await client.acquire({ function: "f", waitMs: Infinity });
  const waits = sidecar.calls.map(({ request }) => (request as AcquireLeaseRequest).spec?.wait?.seconds);
  assert.deepEqual(waits, [86_400, 43_200, 43_200]);
  await assert.rejects(client.acquire({ function: "f", waitMs: Infinity }), RefusedError);
});

staged("s37 an acquire tries on while its wait lasts, and its caller does", async (it) => {
  const { client, sidecar } = it;
  const tooOld = errorOf(TOO_OLD);
  sidecar.answers["acquire_lease"] = [tooOld, tooOld, tooOld, granted, tooOld];
  await assert.rejects(client.acquire({ function: "f" }), { reason: "UNSUPPORTED" });
  await Promise.all([client.acquire({ function: "f", waitMs: 1_000 }), it.reach(150)]);
  assert.equal(sidecar.asked.length, 4);
  const tried = assert.rejects(client.acquire({ function: "f", waitMs: 1_000 }), { reason: "UNSUPPORTED" });
  await it.reach(1_150);
  await tried;
  const [stop, stopped] = [new AbortController(), new Error("stop")];
  const acquiring = client.acquire({ function: "f", waitMs: 60_000 }, { signal: stop.signal });
  await settled();
  stop.abort(stopped);
  await assert.rejects(acquiring, stopped);
});

async function nextHolder(watch: AsyncGenerator<LockRecord>): Promise<string | undefined> {
  const { value } = (await watch.next()) as { value: LockRecord | undefined };
  return value?.holder;
}

staged("a watch is opened again when it breaks or goes silent, and tells nothing twice", async (it) => {
  const { client, sidecar } = it;
  const stop = new AbortController();
  const watch = client.watchLock(lock, { signal: stop.signal });
  for (const [holders, refusing] of [
    ["a", undefined],
    ["ab", { code: "UNAVAILABLE" }],
    ["bc", { code: "UNAVAILABLE", reason: "STORE_UNAVAILABLE" }],
  ] as const) {
    const next = nextHolder(watch);
    await it.reach(it.now + (holders === "ab" ? 90_050 : 50));
    for (const holder of holders) sidecar.on().say({ record: { holder } });
    assert.equal(await next, holders.at(-1));
    if (refusing !== undefined) sidecar.break(undefined, refusing);
  }
  await assert.rejects(watch.next(), { reason: "STORE_UNAVAILABLE" });
  assert.equal(sidecar.streams.length, 3);
  const ended = client.watchLock(lock, { signal: stop.signal }).next();
  stop.abort();
  await assert.rejects(ended, { name: "AbortError" });
  assert.deepEqual(sidecar.open, []);
});

/** The context that whatever is called is in. */
let active = ROOT_CONTEXT;
context.setGlobalContextManager({ active: () => active } as Partial<ContextManager> as ContextManager);

const traceState = { serialize: () => "vendor=1" } as Partial<TraceState> as TraceState;
const ids = { traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: "00f067aa0ba902b7" };
const INSIDE = trace.setSpan(ROOT_CONTEXT, trace.wrapSpanContext({ ...ids, traceFlags: 1, traceState }));
const PARENT = `00-${ids.traceId}-${ids.spanId}-01`;

staged("calls and holds carry the kernel, and the trace that their caller is in", async (it) => {
  const carried = async (): Promise<unknown[]> => {
    await it.client.release("l");
    const { metadata } = it.sidecar.calls.at(-1) ?? {};
    return ["leasehold-boot-id", "traceparent", "tracestate"].flatMap((name) => metadata?.get(name) ?? []);
  };
  active = INSIDE;
  assert.deepEqual(await carried(), [OURS, PARENT, "vendor=1"]);
  await it.held();
  assert.deepEqual(it.sidecar.on().heard.metadata.get("traceparent"), [PARENT]);
  active = ROOT_CONTEXT;
  assert.deepEqual(await carried(), [OURS], "outside of the trace");
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
