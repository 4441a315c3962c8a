// For tests: a sidecar that does what a test says, and a clock that stands still.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

import type { Metadata, ServerOptions, ServerUnaryCall, ServerWritableStream, sendUnaryData } from "@grpc/grpc-js";
import type { UntypedServiceImplementation } from "@grpc/grpc-js";
import { Server, ServerCredentials, status } from "@grpc/grpc-js";

import { Client } from "../src/client.js";
import type { ConnectOptions } from "../src/connect/endpoint.js";
import type { Limits } from "../src/connect/rpc.js";
import { duration } from "../src/duration.js";
import type { BootReading, Clock } from "../src/hold/boot-clock.js";
import type { Hold } from "../src/hold/hold.js";
import type { HoldEvent, Run } from "../src/index.js";
import * as wire from "../src/proto.js";
import type { Refused } from "./tools.js";
import { Inbox, eventually, message, refusal } from "./tools.js";

export * from "./tools.js";

export const OURS = "kernel-a";
export const ELSEWHERE = "kernel-b";

/** Stands still until it is moved. Its kernel is {@link OURS}, and it starts at 1,000 s. */
export class ManualClock implements Clock {
  readonly bootId = OURS;
  #now = 1_000_000;

  read(): BootReading {
    return { earliest: this.#now, latest: this.#now };
  }

  advance(seconds: number): void {
    this.#now += seconds * 1_000;
  }
}

/** A validity in seconds since boot. */
export function validity(bootId: string, until: number, validFor: number): wire.Validity {
  return wire.Validity.create({
    validUntil: { bootId, sinceBoot: duration("until", until * 1_000) },
    validFor: duration("validFor", validFor * 1_000),
  });
}

export type Event = NonNullable<wire.HoldLeaseResponse["event"]>;
export type ScheduleEvent = NonNullable<wire.SubscribeScheduleResponse["event"]>;

export function grant(granted: wire.Validity, more: Partial<wire.Grant> = {}): { $case: "granted"; value: wire.Grant } {
  const value = wire.Grant.create({
    leaseId: "lease-1",
    resumeToken: "resume-1",
    lockPath: "locks/p/h/f/s/FUNCTION",
    hostId: "h",
    fencingToken: 65_536,
    generation: 1,
    validity: granted,
    ...more,
  });
  return { $case: "granted", value };
}

/** The grant of {@link Bench.held}. */
export const GRANTED = grant(validity(OURS, 1_058, 58));
export const LOST = {
  $case: "lost",
  value: { reason: wire.LossReason.BROKEN, detail: "", breakNote: undefined },
} as const;
export const GONE = refusal(status.UNAVAILABLE, "gone");
/** What a sidecar of revision 1 says to a request that needs revision 2. */
export const TOO_OLD = refusal(status.UNIMPLEMENTED, "2 and 1", {
  reason: "UNSUPPORTED",
  metadata: { needs: "2", revision: "1" },
});

/** A call that the test answers by a stream. */
export class StreamCall<Q, E> {
  readonly request: Q;
  readonly metadata: Metadata;
  readonly #stream: ServerWritableStream<Q, unknown>;
  isOpen = true;

  constructor(stream: ServerWritableStream<Q, unknown>) {
    this.#stream = stream;
    this.request = stream.request;
    this.metadata = stream.metadata;
    stream.on("cancelled", () => {
      this.isOpen = false;
    });
  }

  tell(...told: E[]): void {
    // The message takes what it knows.
    for (const one of told) this.#stream.write({ event: one, record: one });
  }

  fail(refused: Refused): void {
    this.#stream.emit("error", refused);
  }

  end(): void {
    this.#stream.end();
  }

  /** Waits until the client has ended the stream. */
  async ended(): Promise<void> {
    await eventually("the client ends the stream", () => !this.isOpen);
  }
}

export type HoldCall = StreamCall<wire.HoldLeaseRequest, Event>;
export type SubscribeCall = StreamCall<wire.SubscribeScheduleRequest, ScheduleEvent>;

/** What is shown of a request in {@link FakeSidecar.asked}. */
const SHOWN = ["leaseId", "generation", "runId", "value", "checkpoint", "outcome", "detail"];

/** A call that is answered by one message: its name, and what it is about. */
function said(name: string, request: Readonly<Record<string, unknown>>): string {
  const words = SHOWN.map((field) => String(request[field]).replace(/^(undefined$|RUN_OUTCOME_(UNSPECIFIED)?)/, ""));
  return [name, ...words.filter((word) => word !== "")].join(" ");
}

/** What a call is answered with that the test says nothing of, the `count`th of its name. */
function byDefault(name: string, count: number): object {
  if (name === "releaseLease") return { result: { outcome: wire.ReleaseOutcome.RELEASED } };
  if (name === "saveCheckpoint") return { version: count };
  if (name === "completeRun") return { result: wire.CompletionResult.RECORDED };
  return refusal(status.UNAVAILABLE, "not now");
}

/** A sidecar at an address of its own. */
export class FakeSidecar implements Disposable {
  readonly holds = new Inbox<HoldCall>();
  readonly subscriptions = new Inbox<SubscribeCall>();
  readonly watches = new Inbox<StreamCall<wire.WatchLockRequest, wire.LockRecord>>();
  /** What calls are answered with, by their names: one after the other, and the last one again and again. */
  readonly answers: Record<string, (object | Promise<object>)[]> = {};
  /** The calls that were answered by one message. */
  readonly asked: string[] = [];
  /** The same, with all that was asked. */
  readonly calls: { readonly name: string; readonly request: unknown; readonly metadata: Metadata }[] = [];
  /** Where it is, if that is no socket of a file. */
  port = 0;
  readonly #server: Server;

  private constructor(options: ServerOptions) {
    this.#server = new Server(options);
    const streams: UntypedServiceImplementation = {
      holdLease: (stream: ServerWritableStream<wire.HoldLeaseRequest, unknown>) =>
        this.holds.items.push(new StreamCall(stream)),
      subscribeSchedule: (stream: ServerWritableStream<wire.SubscribeScheduleRequest, unknown>) =>
        this.subscriptions.items.push(new StreamCall(stream)),
      watchLock: (stream: ServerWritableStream<wire.WatchLockRequest, unknown>) =>
        this.watches.items.push(new StreamCall(stream)),
    };
    for (const service of [wire.LeaseServiceService, wire.ScheduleServiceService]) {
      const unary = Object.keys(service).map((name) => [name, this.#answering(name)] as const);
      this.#server.addService(service, { ...Object.fromEntries(unary), ...streams });
    }
  }

  static async start(
    address: string,
    options: ServerOptions = {},
    credentials = ServerCredentials.createInsecure(),
  ): Promise<FakeSidecar> {
    const sidecar = new FakeSidecar(options);
    sidecar.port = await promisify(sidecar.#server.bindAsync.bind(sidecar.#server))(address, credentials);
    return sidecar;
  }

  #answering(name: string): (call: ServerUnaryCall<object, unknown>, answer: sendUnaryData<unknown>) => void {
    return ({ request, metadata }, answer) => {
      this.asked.push(said(name, { ...request }));
      this.calls.push({ name, request, metadata });
      const answers = this.answers[name] ?? [];
      const count = this.calls.filter((call) => call.name === name).length;
      const told = (answers.length > 1 ? answers.shift() : answers[0]) ?? byDefault(name, count);
      const type = `${name.charAt(0).toUpperCase()}${name.slice(1)}Response`;
      void Promise.resolve(told).then((it) => {
        if ("details" in it) answer(it as Refused);
        else answer(null, message(type, it));
      });
    };
  }

  /** How many connections are open. */
  get connections(): number {
    return (this.#server as unknown as { readonly sessions: ReadonlyMap<unknown, unknown> }).sessions.size;
  }

  /** The next HoldLease call. */
  readonly hold = (): Promise<HoldCall> => this.holds.next("HoldLease is called");

  /** The next SubscribeSchedule call. */
  readonly subscription = (): Promise<SubscribeCall> => this.subscriptions.next("SubscribeSchedule is called");

  /** Goes away as if killed. */
  kill(): void {
    this.#server.forceShutdown();
  }

  [Symbol.dispose](): void {
    this.kill();
  }
}

/** A hold on a bench, its stream, and what was told of it. */
export interface Held {
  readonly hold: Hold;
  readonly call: HoldCall;
  readonly events: Inbox<HoldEvent>;
}

/** A loop over the runs of a schedule. */
export type Runs = AsyncGenerator<Run, void, undefined>;

/** The next run. */
export async function next(runs: Runs): Promise<Run> {
  const { value } = await runs.next();
  assert.ok(value !== undefined);
  return value;
}

/** A fake sidecar, a clock, and a client between them. */
export class Bench implements AsyncDisposable {
  readonly clock = new ManualClock();
  sidecar!: FakeSidecar;
  client!: Client;
  readonly #sidecars: FakeSidecar[] = [];

  private constructor(readonly folder: string) {}

  /** With `streams`, a connection carries only so many calls at once; with `limits`, the client has these. */
  static async create(streams?: number, limits: Partial<Limits> = {}): Promise<Bench> {
    const bench = new Bench(await mkdtemp(path.join(tmpdir(), "leasehold-")));
    await bench.restart(streams === undefined ? {} : { "grpc.max_concurrent_streams": streams });
    bench.client = await bench.another({}, limits);
    return bench;
  }

  get endpoint(): string {
    return `unix://${this.folder}/socket`;
  }

  async another(options: ConnectOptions = {}, limits: Partial<Limits> = {}): Promise<Client> {
    return await Client.connectBy(this.clock, { endpoint: this.endpoint, ...options }, limits);
  }

  /** From now on another sidecar is there. What is connected to the one before, unless it was killed, stays so. */
  async restart(options: ServerOptions = {}): Promise<FakeSidecar> {
    await rm(path.join(this.folder, "socket"), { force: true });
    this.sidecar = await FakeSidecar.start(this.endpoint, options);
    this.#sidecars.push(this.sidecar);
    return this.sidecar;
  }

  /** Has another hold refused by the sidecar that is there, and granted and released by a new one in its place (S37). */
  async refuseHold(): Promise<void> {
    const holding = this.client.hold({ function: "g", waitMs: 30_000 });
    const refused = await this.sidecar.hold();
    const there = await this.restart();
    refused.fail(TOO_OLD);
    (await there.hold()).tell(grant(validity(OURS, 1_058, 58), { leaseId: "lease-2" }));
    await (await holding).release();
    assert.deepEqual(there.asked.splice(0), ["releaseLease lease-2 1"]);
  }

  /** A hold that is granted so. */
  async held(granted = GRANTED): Promise<Held> {
    const events = new Inbox<HoldEvent>();
    const onEvent = (event: HoldEvent): void => {
      if (event.type !== "granted") events.items.push(event);
    };
    const holding = this.client.hold({ function: "f", scope: "s" }, { onEvent });
    const call = await this.sidecar.hold();
    call.tell(granted);
    return { hold: await holding, call, events };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.client.close();
    for (const sidecar of this.#sidecars) sidecar.kill();
    await rm(this.folder, { recursive: true, force: true });
  }
}
