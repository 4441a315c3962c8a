// For tests: a sidecar that does what a test says, and a clock that stands still.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import type { Metadata, ServerOptions, ServerWritableStream, sendUnaryData } from "@grpc/grpc-js";
import { Server, ServerCredentials, status } from "@grpc/grpc-js";

import type { BootReading, Clock } from "../src/hold/boot-clock.js";
import { Client } from "../src/client.js";
import { duration } from "../src/duration.js";
import type { ConnectOptions } from "../src/connect/endpoint.js";
import type { Limits } from "../src/connect/rpc.js";
import type { Hold } from "../src/hold/hold.js";
import type { HoldEvent } from "../src/index.js";
import {
  AcquireLeaseResponse,
  BreakLockResponse,
  BreakOutcome,
  CheckTokenResponse,
  Grant,
  HoldLeaseResponse,
  GetHoldResponse,
  GetServerInfoResponse,
  LeaseServiceService,
  ListLocksResponse,
  LockRecord,
  ReleaseOutcome,
  ReleaseResult,
  ResolvePathResponse,
  RunOutcome,
  SaveCheckpointResponse,
  ScheduleServiceService,
  TokenStatus,
  Validity,
} from "../src/proto.js";
import type { WatchLocksResponse } from "../src/proto.js";
import type { HoldLeaseRequest, LeaseServiceServer, LockSelector, WatchLocksRequest } from "../src/proto.js";
import { FakeSchedules, scheduleService } from "./fake-schedules.js";
import type { Refused } from "./tools.js";
import { Inbox, eventually, refusal } from "./tools.js";

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
export function validity(bootId: string, until: number, validFor: number): Validity {
  return Validity.create({
    validUntil: { bootId, sinceBoot: duration("until", until * 1_000) },
    validFor: duration("validFor", validFor * 1_000),
  });
}

export type Event = NonNullable<HoldLeaseResponse["event"]>;

export function grant(granted: Validity, more: Partial<Grant> = {}): { $case: "granted"; value: Grant } {
  const value = Grant.create({
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

/** A HoldLease call that the test answers. */
export class HoldCall {
  readonly start: HoldLeaseRequest["start"];
  readonly metadata: Metadata;
  readonly #stream: ServerWritableStream<HoldLeaseRequest, HoldLeaseResponse>;
  isOpen = true;

  constructor(stream: ServerWritableStream<HoldLeaseRequest, HoldLeaseResponse>) {
    this.#stream = stream;
    this.start = stream.request.start;
    this.metadata = stream.metadata;
    stream.on("cancelled", () => {
      this.isOpen = false;
    });
  }

  tell(event: Event): void {
    this.#stream.write(HoldLeaseResponse.create({ event }));
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

/** A WatchLocks call that the test answers. */
export class LocksCall {
  readonly #stream: ServerWritableStream<WatchLocksRequest, WatchLocksResponse>;
  readonly request: WatchLocksRequest;

  constructor(stream: ServerWritableStream<WatchLocksRequest, WatchLocksResponse>) {
    this.#stream = stream;
    this.request = stream.request;
  }

  tell(...events: NonNullable<WatchLocksResponse["event"]>[]): void {
    for (const event of events) this.#stream.write({ event });
  }

  fail(refused: Refused): void {
    this.#stream.emit("error", refused);
  }
}

/** What the unary calls are answered with, and what was asked. */
export interface Script {
  report?: Validity | Refused;
  /** What else is told of a hold. */
  info?: Partial<GetHoldResponse>;
  /** What the next saves are answered with. Default: the next version. */
  readonly saves: (SaveCheckpointResponse | Refused)[];
  /** The version that was given last, and the validity that goes with it. */
  version: number;
  savedValidity?: Validity;
  server?: GetServerInfoResponse;
  acquire?: AcquireLeaseResponse["outcome"];
  /** What the next acquires are answered with, before `acquire`; and their waits in seconds. */
  readonly acquires: (NonNullable<AcquireLeaseResponse["outcome"]> | Refused)[];
  readonly waits: (number | undefined)[];
  /** Acquires are answered after this. */
  acquiring?: Promise<unknown>;
  release?: ReleaseResult | Refused;
  /** Answers no release. */
  mute?: boolean;
  /** The holders of the records that a watch is sent. */
  holders: string[];
  onRelease?: () => void;
  readonly asked: string[];
  /** What came with the last acquire. */
  metadata?: Metadata;
}

/** What a sidecar of revision 1 says to a request that needs revision 2. */
export const TOO_OLD = refusal(status.UNIMPLEMENTED, "2 and 1", {
  reason: "UNSUPPORTED",
  metadata: { needs: "2", revision: "1" },
});

const NOT_NOW = refusal(status.UNAVAILABLE, "not now");

/** A sidecar on a Unix socket of its own. */
export class FakeSidecar {
  readonly script: Script = { asked: [], holders: [""], saves: [], version: 0, acquires: [], waits: [] };
  readonly lockWatches = new Inbox<LocksCall>();
  readonly watches = new Inbox<{ emit(event: "error", error: Refused): boolean }>();
  readonly holds = new Inbox<HoldCall>();
  readonly schedules = new FakeSchedules();
  readonly #server: Server;

  private constructor(options: ServerOptions) {
    this.#server = new Server(options);
  }

  static async start(socket: string, options: ServerOptions = {}): Promise<FakeSidecar> {
    const sidecar = new FakeSidecar(options);
    sidecar.#server.addService(LeaseServiceService, sidecar.#service());
    sidecar.#server.addService(ScheduleServiceService, scheduleService(sidecar.schedules));
    await new Promise<void>((resolve, reject) => {
      sidecar.#server.bindAsync(`unix://${socket}`, ServerCredentials.createInsecure(), (error) => {
        if (error === null) resolve();
        else reject(error);
      });
    });
    return sidecar;
  }

  /** How many connections are open. */
  get connections(): number {
    return (this.#server as unknown as { readonly sessions: ReadonlyMap<unknown, unknown> }).sessions.size;
  }

  /** The next HoldLease call. */
  async hold(): Promise<HoldCall> {
    return await this.holds.next("HoldLease is called");
  }

  /** Goes away as if killed. */
  kill(): void {
    this.#server.forceShutdown();
  }

  #service(): LeaseServiceServer {
    const { script } = this;
    return {
      holdLease: (call) => {
        this.holds.items.push(new HoldCall(call));
      },
      acquireLease: ({ metadata, request }, answer) => {
        assert.equal(request.needs, 1);
        script.metadata = metadata;
        const [token, kernel] = ["authorization", "leasehold-boot-id"].map((name) => String(metadata.get(name)[0]));
        script.asked.push(`acquire ${request.spec?.requestId ?? ""} ${String(token)} ${String(kernel)}`);
        script.waits.push(request.spec?.wait?.seconds);
        const outcome = script.acquires.shift() ?? script.acquire;
        void Promise.resolve(script.acquiring).then(() => {
          if (outcome !== undefined && "details" in outcome) answer(outcome);
          else answer(null, AcquireLeaseResponse.create({ outcome }));
        });
      },
      releaseLease: ({ request }, answer) => {
        const saved = request.checkpoint === undefined ? "" : ` with ${request.checkpoint.toString()}`;
        const isTold = request.outcome !== RunOutcome.UNSPECIFIED;
        const outcome = isTold ? ` ${request.outcome.replace("RUN_OUTCOME_", "")}` : "";
        script.asked.push(`release ${request.leaseId} of generation ${String(request.generation)}${saved}${outcome}`);
        script.onRelease?.();
        if (script.mute === true) return;
        const result = script.release ?? ReleaseResult.create({ outcome: ReleaseOutcome.RELEASED });
        reply(answer, result, (released) => ({ result: released }));
      },
      extendLease: ({ request }, answer) => {
        const seconds = request.maxHold?.seconds ?? 0;
        script.asked.push(`extend ${request.leaseId} of generation ${String(request.generation)}`);
        const told = validity(OURS, 1_000 + seconds, seconds);
        const maxHoldEnds = { at: told.validUntil, after: told.validFor };
        answer(null, { validity: told, maxHoldEndsAt: undefined, resumeToken: "resume-extended", maxHoldEnds });
      },
      reportProgress: ({ request }, answer) => {
        script.asked.push(`report progress of generation ${String(request.generation)}`);
        reply(answer, script.report ?? NOT_NOW, (told) => ({ validity: told }));
      },
      getHold: ({ request }, answer) => {
        script.asked.push(`get hold of generation ${String(request.generation)}`);
        reply(answer, script.report ?? NOT_NOW, (told) => GetHoldResponse.create({ validity: told, ...script.info }));
      },
      getLock: ({ request }, answer) => {
        answer(null, { record: record(request.lock) });
      },
      listLocks: ({ request }, answer) => {
        const labels = Object.entries(request.labels).map((pair) => pair.join("="));
        const share = request.share === "" ? "" : ` of ${request.share}`;
        script.asked.push(`list ${request.states.join()} ${labels.join()}${share}`);
        const lockPath = `${request.under?.value ?? ""}/${request.pageToken}`;
        const nextPageToken = request.pageToken === "" ? "second" : request.pageToken === "second" ? "third" : "";
        // The second page has no records, and is not the last.
        const records = request.pageToken === "second" ? [] : [{ lockPath }];
        answer(null, ListLocksResponse.create({ records, nextPageToken }));
      },
      watchLock: (call) => {
        this.watches.items.push(call);
        for (const holder of script.holders) call.write({ record: { ...record(call.request.lock), holder } });
        if (call.request.lock?.lock?.$case === "key") call.end();
        call.on("cancelled", () => script.asked.push("watch cancelled"));
      },
      watchLocks: (call) => {
        this.lockWatches.items.push(new LocksCall(call));
      },
      saveCheckpoint: ({ request }, answer) => {
        script.asked.push(`save ${request.value.toString()} of generation ${String(request.generation)}`);
        script.version += 1;
        const saved = SaveCheckpointResponse.create({ version: script.version, validity: script.savedValidity });
        reply(answer, script.saves.shift() ?? saved, (told) => told);
      },
      getServerInfo: (_call, answer) => {
        answer(null, script.server ?? GetServerInfoResponse.create());
      },
      checkToken: ({ request }, answer) => {
        const newestFencingToken = request.fencingToken + 1;
        answer(null, CheckTokenResponse.create({ status: TokenStatus.STALE, newestFencingToken }));
      },
      breakLock: ({ request }, answer) => {
        script.asked.push(`break ${request.mode} ${request.reason} ${request.brokenBy}`);
        const freeIn = duration("freeIn", 1_500);
        answer(
          null,
          BreakLockResponse.create({ outcome: BreakOutcome.BREAKING, freeIn, record: record(request.lock) }),
        );
      },
      resolvePath: ({ request }, answer) => {
        answer(null, ResolvePathResponse.create({ lockPath: request.key?.function ?? "" }));
      },
    };
  }
}

function reply<V extends object, R>(answer: sendUnaryData<R>, value: V | Refused, wrap: (value: V) => R): void {
  if ("details" in value) answer(value);
  else answer(null, wrap(value));
}

function record(selector: LockSelector | undefined): LockRecord {
  const lock = selector?.lock;
  const lockPath = lock?.$case === "lockPath" ? lock.value : `${lock?.value.function ?? ""}/${lock?.value.scope ?? ""}`;
  return LockRecord.create({ lockPath });
}

/** A hold on a bench, its stream, and what was told of it. */
export interface Held {
  readonly hold: Hold;
  readonly call: HoldCall;
  readonly events: Inbox<HoldEvent>;
}

/** A fake sidecar, a clock, and a client between them. */
export class Bench implements AsyncDisposable {
  readonly clock = new ManualClock();
  readonly #before: FakeSidecar[] = [];

  private constructor(
    readonly folder: string,
    public sidecar: FakeSidecar,
    public client: Client,
  ) {}

  /** With `streams`, a connection carries only so many calls at once; with `limits`, the client has these. */
  static async create(streams?: number, limits: Partial<Limits> = {}): Promise<Bench> {
    const folder = await mkdtemp(path.join(tmpdir(), "leasehold-"));
    const options = streams === undefined ? {} : { "grpc.max_concurrent_streams": streams };
    const sidecar = await FakeSidecar.start(path.join(folder, "socket"), options);
    const bench = new Bench(folder, sidecar, undefined as unknown as Client);
    bench.client = await bench.another({}, limits);
    return bench;
  }

  get endpoint(): string {
    return `unix://${path.join(this.folder, "socket")}`;
  }

  async another(options: ConnectOptions = {}, limits: Partial<Limits> = {}): Promise<Client> {
    return await Client.connectBy(this.clock, { endpoint: this.endpoint, ...options }, limits);
  }

  kill(): void {
    this.sidecar.kill();
  }

  /** From now on another sidecar is there. What is connected to the one before, unless it was killed, stays so. */
  async restart(): Promise<void> {
    this.#before.push(this.sidecar);
    const socket = path.join(this.folder, "socket");
    await rm(socket, { force: true });
    this.sidecar = await FakeSidecar.start(socket);
  }

  /** A hold of `f/s` that is granted by this. */
  async held(granted: Validity = validity(OURS, 1_058, 58), more: Partial<Grant> = {}): Promise<Held> {
    const events = new Inbox<HoldEvent>();
    const onEvent = (event: HoldEvent): void => {
      events.items.push(event);
    };
    const holding = this.client.hold({ function: "f", scope: "s" }, { onEvent });
    const call = await this.sidecar.hold();
    call.tell(grant(granted, more));
    const hold = await holding;
    assert.equal((await events.next("the grant is told")).type, "granted");
    return { hold, call, events };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.client.close();
    for (const sidecar of [...this.#before, this.sidecar]) sidecar.kill();
    await rm(this.folder, { recursive: true, force: true });
  }
}
