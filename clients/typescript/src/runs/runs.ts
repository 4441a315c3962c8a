// Takes part in a schedule: gives the runs that fall to this caller.

import { FIRST_PAUSE_MS, LONGEST_RUN_PAUSE_MS } from "../constants.js";
import type { Run as WireRun, Standby } from "../../gen/leasehold/v1/schedule_service.js";
import { milliseconds, sleep } from "../duration.js";
import { ProtocolError, RefusedError } from "../errors/errors.js";
import type { HoldListener } from "../hold/event.js";
import { tell } from "../hold/event.js";
import type { Holds } from "../hold/held.js";
import { endedWithoutWord } from "../hold/line.js";
import { believe } from "../hold/open.js";
import type { HoldState } from "../hold/state.js";
import type { CallOptions } from "../hold/spec.js";
import { mayPass } from "../errors/refusal.js";
import type { Rpc } from "../connect/rpc.js";
import { isBelowNeeds, knowing } from "../errors/unsupported.js";
import type { ScheduleListener } from "./event.js";
import type { RunThread, Subscribed, SubscriptionEvent } from "./line.js";
import { RunLine, grantOf, subscribe } from "./line.js";
import { Run, giveBack } from "./run.js";
import type { Subscription } from "./spec.js";
import { subscription } from "./spec.js";

/** How to take part in a schedule. */
export interface RunsOptions extends CallOptions {
  /** Gets what happens between runs. Called at once, so keep it short. */
  readonly onEvent?: ScheduleListener;
  /** Gets what happens to the holds of the runs. Called at once, so keep it short. */
  readonly onHoldEvent?: HoldListener;
}

/** A subscription to a schedule. */
export class Runs {
  readonly #rpc: Rpc;
  readonly #holds: Holds;
  readonly #request: ReturnType<typeof subscription>;
  readonly #options: RunsOptions;
  #here: Subscribed | undefined;
  /** Gives the stream back when the run is over that has it. */
  #running: Promise<Subscribed | undefined> | undefined;
  /** Whether a sidecar has taken the subscription. */
  #isHeard = false;
  #pause = FIRST_PAUSE_MS;

  constructor(rpc: Rpc, holds: Holds, request: Subscription, options: RunsOptions) {
    this.#rpc = rpc;
    this.#holds = holds;
    this.#request = subscription(request);
    this.#options = options;
  }

  /**
   * The next run, as long as that takes; waits for the end of the one before. Where the sidecar restarts or the connection
   * breaks, this subscribes again; one that cannot be reached is an error only before it was heard of.
   */
  async next(): Promise<Run> {
    for (;;) {
      this.#options.signal?.throwIfAborted();
      if (this.#running !== undefined) {
        this.#here = await this.#running;
        this.#running = undefined;
        continue;
      }
      try {
        this.#here ??= this.#subscribe();
        const run = await this.#hear(this.#here);
        if (run !== undefined) return run;
      } catch (error) {
        await this.#interrupted(error);
      }
    }
  }

  /** Takes part no more. A run that goes on may finish. */
  close(): void {
    this.#here?.stream.cancel();
    this.#here = undefined;
    void this.#running?.then((here) => here?.stream.cancel());
  }

  #subscribe(): Subscribed {
    // T16: who was understood before is no new subscriber.
    return subscribe(this.#rpc, { ...this.#request, reconnected: this.#isHeard });
  }

  /** Takes in the next event between runs; the run, if it is one. */
  async #hear(here: Subscribed): Promise<Run | undefined> {
    const event = await knowing("schedules", () => this.#event(here));
    switch (event?.$case) {
      case "standby":
        this.#standBy(event.value);
        return undefined;
      case "run":
        return await this.#takeUp(here, event.value);
      case "definitionInForce":
        this.#tell({ type: "definitionInForce", definition: event.value });
        return undefined;
      case "draining":
        this.#tell({ type: "draining", timeLeftMs: milliseconds(event.value.timeLeft) });
        return undefined;
      // Of a run that is over, or not known to this version.
      case "renewed":
      case "atRisk":
      case "recovered":
      case "revoked":
      case "lost":
      case "recorded":
      case undefined:
        return undefined;
    }
  }

  async #event({ stream }: Subscribed): Promise<SubscriptionEvent | undefined> {
    const { signal } = this.#options;
    const abort = (): void => {
      stream.cancel(signal?.reason as Error);
    };
    signal?.addEventListener("abort", abort);
    try {
      const message = await stream.next();
      if (message === undefined) throw endedWithoutWord();
      return message.event;
    } finally {
      signal?.removeEventListener("abort", abort);
    }
  }

  #standBy(standby: Standby): void {
    const { understood } = standby;
    if (understood !== undefined) {
      this.#isHeard = true;
      this.#tell({ type: "subscribed", understood });
    }
    this.#pause = FIRST_PAUSE_MS;
    this.#tell({ type: "standby", standby });
  }

  /** A run that has come, if it can still be run. Of one that cannot, another replica takes the place. */
  async #takeUp(here: Subscribed, wire: WireRun): Promise<Run | undefined> {
    const { scheduledAt } = wire;
    const grant = grantOf(wire);
    if (grant === undefined) throw new ProtocolError("a run came without its grant");
    if (scheduledAt === undefined) throw new ProtocolError("a run came without its occurrence");
    const place = here.stream.place.ofHold();
    let state: HoldState;
    try {
      state = await believe(this.#rpc, grant, here.sent, place);
    } catch (error) {
      if (!(error instanceof ProtocolError)) await giveBack(this.#rpc, wire, { ...grant, place });
      place.leave();
      if (error instanceof ProtocolError) throw error;
      return undefined;
    }
    const [thread, running] = this.#thread(wire);
    this.#here = undefined;
    this.#running = running;
    const line = new RunLine(thread, here);
    const kept = { rpc: this.#rpc, state, line, place, grant, listener: this.#options.onHoldEvent };
    return new Run(this.#holds, { wire, scheduledAt, thread, kept });
  }

  #thread({ runId }: WireRun): [RunThread, Promise<Subscribed | undefined>] {
    let giveBack: RunThread["giveBack"] = () => undefined;
    const running = new Promise<Subscribed | undefined>((resolve) => {
      giveBack = resolve;
    });
    const listener = this.#options.onEvent;
    return [{ rpc: this.#rpc, request: this.#request, runId, listener, giveBack, isCompleted: false }, running];
  }

  /** Waits a little before the next try; throws what does not pass. */
  async #interrupted(error: unknown): Promise<void> {
    this.#here?.stream.cancel();
    this.#here = undefined;
    const { signal } = this.#options;
    signal?.throwIfAborted();
    if (this.#rpc.isClosed || !(isBelowNeeds(error) || (this.#isHeard && mayPass(error)))) throw error;
    this.#tell({ type: "interrupted", detail: error.message });
    const pause = error.retryAfterMs ?? this.#pause;
    this.#pause = Math.min(this.#pause * 2, LONGEST_RUN_PAUSE_MS);
    await sleep(pause, signal);
  }

  #tell(event: Parameters<ScheduleListener>[0]): void {
    tell(this.#options.onEvent, event);
  }
}

/** Run after run; one that is not completed when the loop goes on, or is left, is returned. See `Client.runs`. */
export async function* eachRun(runs: Runs): AsyncGenerator<Run, void, undefined> {
  try {
    for (;;) {
      const run = await runs.next();
      let isLeft = true;
      try {
        yield run;
        isLeft = false;
      } finally {
        // Whoever leaves the loop need not hear that: it may be granted again when its lease is over.
        if (isLeft) await leave(run);
      }
      await leave(run);
    }
  } finally {
    runs.close();
  }
}

/** Returns the run if its body has not completed it; where that does not work, it is abandoned. */
export async function leave(run: Run): Promise<void> {
  await run.leave().catch((error: unknown) => {
    if (!(error instanceof RefusedError) && !(error instanceof DOMException)) throw error;
  });
}
