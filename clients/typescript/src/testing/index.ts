/**
 * Test support: a sidecar of its own for a test, with its locks in memory, which can be made to lose, break and delay holds.
 *
 * For any test runner: it needs none.
 */

import { setTimeout as delay } from "node:timers/promises";

import type { LockRecord } from "../../gen/leasehold/v1/lock.js";
import { LockState } from "../../gen/leasehold/v1/lock.js";
import { BreakOutcome } from "../../gen/leasehold/v1/lease_service.js";
import { Client } from "../client.js";
import type { ConnectOptions } from "../connect/endpoint.js";
import type { LockSelector } from "../hold/spec.js";
import { LOOK_MS, SidecarProcess } from "./process.js";
import { findProgram } from "./program.js";

export { PROGRAM_VARIABLE, findProgram } from "./program.js";

/** How long things are waited for unless a call says otherwise, in milliseconds. */
const TIMEOUT_MS = 30_000;

/** How a sidecar is started. */
export interface SidecarOptions {
  /**
   * Settings, as for `leasehold serve --set`. They replace what it would have: its store is the memory, its leases last for
   * 15 s where a caller names no duration, and locks may be broken.
   */
  readonly settings?: Readonly<Record<string, string>>;
  /** The path of `leasehold`. Default: that of {@link findProgram}. */
  readonly program?: string;
}

/** How long something is waited for. */
export interface WaitOptions {
  /** After so many milliseconds it throws. Default: 30,000. */
  readonly timeoutMs?: number;
}

/**
 * A sidecar of one test, on a Unix socket in a temporary folder, until the end of an `await using` block. It ends with the
 * test process, however that ends.
 */
export class Sidecar implements AsyncDisposable {
  private readonly clients = new Set<Client>();
  private own: Client | undefined;

  private constructor(private readonly process: SidecarProcess) {}

  /** Starts one, and waits until it answers. */
  static async start(options: SidecarOptions = {}): Promise<Sidecar> {
    const { settings = {}, program = await findProgram() } = options;
    const sidecar = new Sidecar(new SidecarProcess(program, settings));
    try {
      await sidecar.start();
      sidecar.own = await sidecar.client();
      await sidecar.own.getServerInfo();
    } catch (error) {
      await sidecar.close();
      throw error;
    }
    return sidecar;
  }

  /** Where it is, for a client or for `LEASEHOLD_ENDPOINT`. */
  get endpoint(): string {
    return `unix://${this.process.socket}`;
  }

  /** Connects a client, which is closed with the sidecar. */
  async client(options: ConnectOptions = {}): Promise<Client> {
    const client = await Client.connect({ endpoint: this.endpoint, ...options });
    this.clients.add(client);
    return client;
  }

  /** What it has logged so far. */
  log(): string {
    return this.process.log();
  }

  /**
   * Has the holder lose the lock at once, with the reason `BROKEN`; the lock is available then.
   *
   * @throws Error if nobody holds it.
   */
  async lose(lock: LockSelector): Promise<void> {
    await this.#break(lock, "lost by a test", true);
  }

  /**
   * Breaks the lock as an operator does: its holder is told, and loses it when its lease has run out.
   *
   * @throws Error if nobody holds it.
   */
  async breakLock(lock: LockSelector, reason = "broken by a test"): Promise<void> {
    await this.#break(lock, reason, false);
  }

  async #break(lock: LockSelector, reason: string, now: boolean): Promise<void> {
    // One that was never acquired does not exist, and cannot be asked to be broken.
    const { state } = await this.#record(lock);
    const isHeld = state !== LockState.AVAILABLE;
    const outcome = isHeld ? (await this.#asking().breakLock(lock, reason, { now })).outcome : BreakOutcome.NOT_HELD;
    if (outcome === BreakOutcome.NOT_HELD) {
      const problem = "cannot be lost or broken: nobody holds it. waitUntilHeld() waits for a holder";
      throw new Error(`${nameOf(lock)} ${problem}`);
    }
  }

  /**
   * Stops the sidecar's process while the function runs, so that grants, renewals and answers are late. A hold is not told
   * of it: its client finds by its own clock that its validity is over.
   */
  async paused<T>(during: () => T | Promise<T>): Promise<T> {
    await this.pause();
    try {
      return await during();
    } finally {
      await this.resume();
    }
  }

  /** Stops the sidecar's process until {@link resume}. */
  async pause(): Promise<void> {
    await this.process.pause();
  }

  /** Lets the sidecar's process go on, if it is paused. */
  async resume(): Promise<void> {
    await this.process.resume();
  }

  /** Ends the sidecar as a crash does. What is in memory is forgotten: all its locks. */
  async kill(): Promise<void> {
    await this.process.kill();
  }

  /** Has the sidecar shut down, as an update does: holders are told, and have `drain.period` to release. */
  async stop({ timeoutMs = TIMEOUT_MS }: WaitOptions = {}): Promise<void> {
    await this.process.stop(timeoutMs);
  }

  /** Starts the sidecar again at the same endpoint, after {@link kill} or {@link stop}. */
  async start({ timeoutMs = TIMEOUT_MS }: WaitOptions = {}): Promise<void> {
    await this.process.start(timeoutMs);
  }

  /** Waits until somebody holds the lock. */
  async waitUntilHeld(lock: LockSelector, options: WaitOptions = {}): Promise<LockRecord> {
    return await this.waitUntil(lock, "is held", ({ state }) => state === LockState.HELD, options);
  }

  /** Waits until nobody holds the lock. */
  async waitUntilAvailable(lock: LockSelector, options: WaitOptions = {}): Promise<LockRecord> {
    return await this.waitUntil(lock, "is available", ({ state }) => state === LockState.AVAILABLE, options);
  }

  /** Waits until so many callers, or more, wait for the lock. */
  async waitUntilWaiting(lock: LockSelector, callers = 1, options: WaitOptions = {}): Promise<LockRecord> {
    const what = `has ${String(callers)} waiting`;
    return await this.waitUntil(lock, what, ({ waitersHere }) => waitersHere >= callers, options);
  }

  /**
   * Waits until the lock's record meets the condition; `what` is for the error.
   *
   * @throws Error if that takes longer than `timeoutMs`.
   */
  async waitUntil(
    lock: LockSelector,
    what: string,
    condition: (record: LockRecord) => boolean,
    { timeoutMs = TIMEOUT_MS }: WaitOptions = {},
  ): Promise<LockRecord> {
    const late = AbortSignal.timeout(timeoutMs);
    for (;;) {
      const record = await this.#record(lock);
      if (condition(record)) return record;
      if (late.aborted) {
        const is = JSON.stringify(record);
        throw new Error(`not after ${String(timeoutMs)} ms: ${nameOf(lock)} ${what}. It is ${is}`);
      }
      await delay(LOOK_MS);
    }
  }

  async #record(lock: LockSelector): Promise<LockRecord> {
    this.process.running();
    if (this.process.isPaused) {
      throw new Error(`the sidecar is paused, and cannot be asked about ${nameOf(lock)}: resume() it first`);
    }
    return await this.#asking().getLock(lock);
  }

  #asking(): Client {
    if (this.own === undefined) throw new Error("the sidecar was not started");
    return this.own;
  }

  /** Ends the sidecar, with its clients, and removes its folder. */
  async close(): Promise<void> {
    await this.process.close();
    await Promise.all([...this.clients].map((client) => client.close()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/**
 * A test's function that has a sidecar of its own: `test("…", withSidecar(async (sidecar) => { … }))`, with node:test, Vitest
 * or another runner, whose own arguments follow. What the function throws has the sidecar's log in its message.
 */
export function withSidecar<A extends unknown[]>(
  body: (sidecar: Sidecar, ...rest: A) => Promise<void> | void,
  options: SidecarOptions = {},
): (...rest: A) => Promise<void> {
  return async (...rest) => {
    await using sidecar = await Sidecar.start(options);
    try {
      await body(sidecar, ...rest);
    } catch (error) {
      if (error instanceof Error) {
        const log = `\nthe sidecar's log:\n${sidecar.log()}`;
        error.message += log;
        // Most runners show the stack, which was made with the message as it was.
        if (error.stack !== undefined) error.stack += log;
      }
      throw error;
    }
  };
}

function nameOf(lock: LockSelector): string {
  return `the lock ${JSON.stringify(lock)}`;
}
