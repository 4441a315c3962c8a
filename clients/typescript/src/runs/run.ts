// One run of an occurrence.

import { status } from "@grpc/grpc-js";

import { FIRST_PAUSE_MS, LONGEST_RUN_PAUSE_MS } from "../constants.js";
import type { EndedRun, RunKind } from "../../gen/leasehold/v1/schedule.js";
import type { Run as WireRun } from "../../gen/leasehold/v1/schedule_service.js";
import { milliseconds, sleep } from "../duration.js";
import type { Holds } from "../hold/held.js";
import { Held } from "../hold/held.js";
import type { HoldEvent } from "../hold/event.js";
import { tell } from "../hold/event.js";
import type { Kept } from "../hold/keeper.js";
import { Reason } from "../errors/reason.js";
import { mayPass, ownRefusal } from "../errors/refusal.js";
import type { HoldId, Rpc } from "../connect/rpc.js";
import type { CompletedRun, Completion } from "./completion.js";
import { completeRun, completionRequest } from "./completion.js";
import type { RunThread } from "./line.js";

/** What a run is made of. */
interface Begun {
  readonly wire: WireRun;
  readonly scheduledAt: Date;
  readonly thread: RunThread;
  readonly kept: Omit<Kept, "onClosed">;
}

/**
 * An occurrence to be run now, and the hold of the schedule's lock while it is. Say how it ended: until that was recorded
 * it may be granted again (T2). To have an effect once, key it on {@link Run.scheduledAt}, or let the resource check
 * {@link Held.fencingToken}.
 */
export class Run extends Held implements AsyncDisposable {
  /**
   * The occurrence: the nominal instant, whatever the lateness and the spread (T1). Of a run by hand when it was started,
   * by the store's clock.
   */
  readonly scheduledAt: Date;
  readonly #wire: WireRun;
  readonly #thread: RunThread;
  readonly #ending: AbortController;
  #completing: Promise<CompletedRun> | undefined;

  /** @internal Runs come from a client. */
  constructor(holds: Holds, { wire, scheduledAt, thread, kept }: Begun) {
    const ending = new AbortController();
    const listener = (event: HoldEvent): void => {
      if (event.type === "revoked") ending.abort(event.notice);
      else if (event.type === "draining") ending.abort(shuttingDown());
      tell(kept.listener, event);
    };
    super(holds, { ...kept, listener });
    this.#wire = wire;
    this.#thread = thread;
    this.#ending = ending;
    this.scheduledAt = scheduledAt;
  }

  /** The same as the clocks of the schedule's zone show it, in RFC 3339 with offset and zone. */
  get localTime(): string {
    return this.#wire.localTime;
  }

  /** Why there is a run. */
  get kind(): RunKind {
    return this.#wire.kind;
  }

  /** The id of the request, of a run by hand; else `undefined`. */
  get requestId(): string | undefined {
    return this.#wire.requestId === "" ? undefined : this.#wire.requestId;
  }

  /** Names this run in `client.completeRun`, also after a restart of this process. Who knows it can end the run. */
  get runId(): string {
    return this.#wire.runId;
  }

  /** Which attempt this is, from 1. Greater than 1 means that the work may have been done in part. */
  get attempt(): number {
    return this.#wire.attempt;
  }

  /** How many attempts there are. */
  get maxAttempts(): number {
    return this.#wire.maxAttempts;
  }

  /** How long after it was due the run was started, by the store's clock, in milliseconds of whole seconds. */
  get latenessMs(): number {
    return milliseconds(this.#wire.lateness);
  }

  /** How many occurrences were missed since the last one that was run. At most 10,000 are counted at once. */
  get missedCount(): number {
    return this.#wire.missedCount;
  }

  /** When the run is to be over, by the store's clock, for people; `undefined` if it has no deadline (T12). */
  get deadlineAt(): Date | undefined {
    return this.#wire.deadlineAt;
  }

  /** The time in milliseconds until then; `undefined` if it has no deadline. Reads the boot clock each time. */
  deadlineRemainingMs(): number | undefined {
    return this.state.maxHoldRemainingMs();
  }

  /** The next occurrence; `undefined` if there is none. */
  get nextAt(): Date | undefined {
    return this.#wire.nextAt;
  }

  /** What ended before; `undefined` if nothing has. */
  get previous(): EndedRun | undefined {
    return this.#wire.previous;
  }

  /**
   * Aborts when the run should soon be over, and is not lost yet: the lock was broken ({@link Held.revokedSignal}), or the
   * sidecar is shutting down. Finish, or return it.
   */
  get endingSignal(): AbortSignal {
    return this.#ending.signal;
  }

  /**
   * Says how the run ended, and waits until the store has it. The run is not valid from the first moment of this call on
   * (S13), so stop acting before. Asks again, without end, while the sidecar or its store is away, and `signal` does not
   * abort. Also the outcome of a run that was lost may still count: see {@link CompletedRun.result} (T8). May be called
   * again: it gives the same answer.
   *
   * @throws RefusedError when asking again does not help; with reason `INVALID_FIELD` for a checkpoint of more than 2,048
   *   bytes, and the run goes on.
   */
  async complete(completion: Completion, options: { readonly signal?: AbortSignal } = {}): Promise<CompletedRun> {
    if (this.#completing === undefined) {
      // Before anything ends: a checkpoint may be too long.
      completionRequest(this.runId, this.keeper.id, completion);
      this.#completing = this.rpc.ending(this.#complete(completion, options.signal));
    }
    return await this.#completing;
  }

  /** {@link Run.complete}: it did its work. */
  async succeeded(): Promise<CompletedRun> {
    return await this.complete({ outcome: "succeeded" });
  }

  /** {@link Run.complete}: it failed, and is tried again if attempts are left. `detail` is for the sidecar's log. */
  async failed(detail = ""): Promise<CompletedRun> {
    return await this.complete({ outcome: "failed", detail });
  }

  /** {@link Run.complete}: another replica is to run it. */
  async returned(): Promise<CompletedRun> {
    return await this.complete({ outcome: "returned" });
  }

  async #complete(completion: Completion, signal: AbortSignal | undefined): Promise<CompletedRun> {
    this.state.end();
    try {
      await this.isAnswered();
      const request = completionRequest(this.runId, this.keeper.id, completion);
      const once = (): Promise<CompletedRun> => completeRun(this.rpc, request, { signal, over: this.keeper.id.place });
      const completed = await repeatedly(once, this.rpc, signal);
      this.#thread.isCompleted = true;
      this.#thread.onCompleted?.();
      return completed;
    } finally {
      this.keeper.close();
      this.keeper.leave();
    }
  }

  /** @internal Returns a run that was not completed; says so once. */
  async leave(): Promise<void> {
    if (this.#completing !== undefined) return;
    const signal = AbortSignal.timeout(this.rpc.limits.releaseMs);
    await this.complete({ outcome: "returned" }, { signal });
  }

  /** @internal */
  protected giveUp(): Promise<unknown> {
    return giveBack(this.rpc, this.#wire, this.keeper.id);
  }

  /** Returns the run, for another replica to run, if it was not completed. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.leave();
  }
}

/** Another replica is to run what cannot be run here; said once, and else its lease expires. */
export async function giveBack(rpc: Rpc, { runId }: WireRun, hold: HoldId): Promise<void> {
  const request = completionRequest(runId, hold, { outcome: "returned" });
  await completeRun(rpc, request, { timeoutMs: rpc.limits.releaseMs, over: hold.place }).catch(() => undefined);
}

/** What `call` gives, once it is answered. */
async function repeatedly<T>(call: () => Promise<T>, rpc: Rpc, signal: AbortSignal | undefined): Promise<T> {
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_RUN_PAUSE_MS)) {
    try {
      return await call();
    } catch (error) {
      if (rpc.isClosed || signal?.aborted === true || !mayPass(error)) throw error;
      await sleep(error.retryAfterMs ?? pause, signal);
    }
  }
}

function shuttingDown(): Error {
  const details = "the sidecar is shutting down: finish the run, or return it";
  return ownRefusal(status.UNAVAILABLE, details, { reason: Reason.SHUTTING_DOWN });
}
