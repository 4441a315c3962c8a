// For tests: a client in a time of its own, before a sidecar that does what is said.

import assert from "node:assert/strict";
import { syncBuiltinESMExports } from "node:module";
import { test } from "node:test";
import promises from "node:timers/promises";

import { Client } from "../src/client.js";
import { Connections } from "../src/connect/connections.js";
import type { Limits } from "../src/connect/rpc.js";
import { LIMITS, Rpc } from "../src/connect/rpc.js";
import type { BootReading, Clock } from "../src/hold/boot-clock.js";
import type { Hold, HoldEvent, Run, ScheduleEvent } from "../src/index.js";
import { CompletionResult, ReleaseOutcome } from "../src/proto.js";
import type { Refusing, Said } from "./messages.js";
import { BASES, OURS } from "./messages.js";
import { Sidecar } from "./sidecar.js";

/** What a sidecar of revision 1 says to a request that needs revision 2. */
export const TOO_OLD: Refusing = { code: "UNIMPLEMENTED", reason: "UNSUPPORTED", needs: 2, revision: 1 };

interface Timer {
  at: number;
  readonly run: () => void;
}

/** Takes the place of all timers of this process, and goes on only when it is told to, until it is disposed of. */
class VirtualTime implements Disposable {
  /** Milliseconds since it began. */
  now = 0;
  readonly #timers = new Map<unknown, Timer>();
  readonly #replaced: [object, string, PropertyDescriptor | undefined][] = [];

  constructor() {
    const began = Date.now();
    const sleep = async (ms: number, _: unknown, { signal }: { signal?: AbortSignal } = {}): Promise<void> => {
      signal?.throwIfAborted();
      await new Promise((resolve, reject) => {
        const handle = this.#set(resolve, ms);
        signal?.addEventListener("abort", () => {
          this.#timers.delete(handle);
          reject(signal.reason as Error);
        });
      });
    };
    this.replace(globalThis, "setTimeout", this.#set);
    this.replace(globalThis, "clearTimeout", (handle: unknown) => this.#timers.delete(handle));
    this.replace(Date, "now", () => began + this.now);
    this.replace(performance, "now", () => this.now);
    this.replace(promises, "setTimeout", sleep);
    syncBuiltinESMExports();
  }

  /** Puts a function into the place of another, and notes no calls: what they were given may be garbage. */
  replace(of: object, name: string, value: unknown): void {
    this.#replaced.push([of, name, Object.getOwnPropertyDescriptor(of, name)]);
    Object.defineProperty(of, name, { configurable: true, writable: true, value });
  }

  readonly #set = (run: (...more: unknown[]) => void, after = 0, ...more: unknown[]): unknown => {
    const timer = { at: this.now + after, run: run.bind(undefined, ...more) };
    const handle = {
      ref: () => handle,
      unref: () => handle,
      refresh: () => {
        timer.at = this.now + after;
        this.#timers.set(handle, timer);
        return handle;
      },
    };
    this.#timers.set(handle, timer);
    return handle;
  };

  /** Lets the time go to a moment. */
  async pass(to: number): Promise<void> {
    await settled();
    for (;;) {
      const [next] = [...this.#timers].filter(([, { at }]) => at <= to).sort(([, a], [, b]) => a.at - b.at);
      if (next === undefined) break;
      const [handle, timer] = next;
      this.#timers.delete(handle);
      this.now = Math.max(this.now, timer.at);
      timer.run();
      await settled();
    }
    this.now = to;
  }

  [Symbol.dispose](): void {
    for (const [of, name, before] of this.#replaced) {
      if (before === undefined) Reflect.deleteProperty(of, name);
      else Object.defineProperty(of, name, before);
    }
    syncBuiltinESMExports();
  }
}

/** Waits until nothing but timers goes on. */
export async function settled(): Promise<void> {
  for (let round = 0; round < 3; round += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** A loop over the runs of a schedule. */
export type Runs = AsyncGenerator<Run, void, undefined>;

/** The next run. */
export async function next(runs: Runs): Promise<Run> {
  const { value } = await runs.next();
  assert.ok(value !== undefined);
  return value;
}

/** The clock of its client is exact, of the kernel {@link OURS}, and begins at its base. */
export class Stage implements Clock, Disposable {
  readonly bootId = OURS;
  readonly client: Client;
  readonly sidecar: Sidecar;
  /** What the holder was told. The grant is left out: it is the hold. */
  events: (HoldEvent | ScheduleEvent)[] = [];
  /** What the sidecar's kit looks at: it must not be valid when it is released. */
  hold: Hold | Run | undefined;
  readonly #time = new VirtualTime();
  #slept = 0;

  constructor(kernel = "ours", limits: Partial<Limits> = {}) {
    this.sidecar = new Sidecar(kernel, () => this.hold?.isValid() === true);
    const all = { ...LIMITS, ...limits };
    const rpc = new Rpc(new Connections(this.sidecar.dialer, all.streams), this, all);
    this.client = Reflect.construct(Client, [rpc]) as Client;
  }

  readonly onEvent = (event: HoldEvent | ScheduleEvent): void => {
    if (event.type !== "granted") this.events.push(event);
  };

  /** Milliseconds since it began. */
  get now(): number {
    return this.#time.now + this.#slept;
  }

  read(): BootReading {
    const now = BASES.ours + this.now;
    return { earliest: now, latest: now };
  }

  /** Lets the time go on to a moment, and all timers fire that are due by then. */
  async reach(moment: number): Promise<void> {
    await this.#time.pass(moment - this.#slept);
  }

  /** The boot clock goes on, and no timer does. */
  sleep(ms: number): void {
    this.#slept += ms;
  }

  /** Puts a function into the place of another for this test. */
  replace(of: object, name: string, value: unknown): void {
    this.#time.replace(of, name, value);
  }

  /** Another hold is refused where the first one is, and granted and released over a connection of its own (S37). */
  async leave(): Promise<void> {
    const holding = this.client.hold({ function: "g", waitMs: 30_000 });
    this.sidecar.break(undefined, TOO_OLD);
    await this.reach(this.now + 50);
    await (await this.held({ leaseId: "lease-2" }, holding)).release();
    this.sidecar.on().end();
    assert.equal(this.sidecar.asked.pop(), "release 1 by 3");
  }

  /** A hold that is valid for 58 s, unless it is said otherwise, and is `asked` for. */
  async held(said: Said = {}, asked?: Promise<Hold>): Promise<Hold> {
    const holding = asked ?? this.client.hold({ function: "f" }, { onEvent: this.onEvent });
    await settled();
    this.sidecar.tell(undefined, { granted: { until: this.now + 58_000, for: 58_000, ...said } });
    return await holding;
  }

  [Symbol.dispose](): void {
    void this.client.close();
    this.#time[Symbol.dispose]();
  }
}

/** A test whose sidecar releases, saves and records, unless the test says how it answers. */
export function staged(name: string, body: (it: Stage) => Promise<void>, limits: Partial<Limits> = {}): void {
  test(name, async () => {
    using it = new Stage("ours", limits);
    const { answers } = it.sidecar;
    answers["release"] = [{ result: { outcome: ReleaseOutcome.RELEASED } }];
    answers["complete_run"] = [{ result: CompletionResult.RECORDED }];
    answers["save_checkpoint"] = [1, 2, 3].map((version) => ({ version }));
    await body(it);
    await settled();
  });
}
