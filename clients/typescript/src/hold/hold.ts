// The hold as its holder has it.

import { status } from "@grpc/grpc-js";

import type { Grant, ReleaseResult, Validity } from "../../gen/leasehold/v1/hold.js";
import { CheckpointOutcome, LossReason, ReleaseOutcome } from "../../gen/leasehold/v1/hold.js";
import { LeaseServiceService } from "../../gen/leasehold/v1/lease_service.js";
import type { BootReading } from "../boot-clock.js";
import type { Checkpoint } from "../checkpoint.js";
import { checkpointBytes } from "../checkpoint.js";
import { duration } from "../duration.js";
import { HoldLostError, NotReleasedError, ProtocolError, RefusedError } from "../errors.js";
import type { Loss } from "../loss.js";
import { alreadyLost } from "../loss.js";
import type { Notice } from "../notice.js";
import { toldLost } from "../refusal.js";
import type { Rpc } from "../rpc.js";
import { unsupported } from "../understood.js";
import type { HoldInfo } from "./info.js";
import { holdInfo } from "./info.js";
import type { Kept } from "./keeper.js";
import { Keeper } from "./keeper.js";
import { Saver } from "./saver.js";
import type { HoldState } from "./state.js";

/** How often a release looks whether a resume was answered. */
const ANSWER_POLL_MS = 20;

/** How a hold is released. */
export interface ReleaseOptions {
  /** Replaces the lock's checkpoint before the lock is released: at most 2,048 bytes; a text in UTF-8. */
  readonly checkpoint?: Uint8Array | string;
}

/** Whether a sidecar that does not know checkpoints has released the lock (S37). */
function isUnheard({ outcome, checkpointOutcome }: ReleaseResult): boolean {
  const isDone = outcome === ReleaseOutcome.RELEASED || outcome === ReleaseOutcome.RESTING;
  return isDone && checkpointOutcome === CheckpointOutcome.UNSPECIFIED;
}

/**
 * A lock that is held, until {@link Hold.release} or the end of an `await using` block.
 *
 * What it says is right also after the process, or the machine, was stopped and goes on: each question reads the boot
 * clock. Between the question and the deed the process may be stopped again, so let protected resources check
 * {@link Hold.fencingToken}. A program that never lets its event loop turn hears neither of renewals nor of losses.
 */
export class Hold implements AsyncDisposable {
  readonly #rpc: Rpc;
  readonly #grant: Grant;
  readonly #state: HoldState;
  readonly #keeper: Keeper;
  readonly #saver: Saver;
  #releasing: Promise<ReleaseResult> | undefined;

  /** @internal Holds come from a client. */
  constructor(holds: Set<Hold>, kept: Omit<Kept, "onClosed">) {
    this.#rpc = kept.rpc;
    this.#grant = kept.grant;
    this.#state = kept.state;
    holds.add(this);
    const onClosed = (): void => {
      holds.delete(this);
    };
    this.#keeper = new Keeper({ ...kept, onClosed });
    this.#saver = new Saver(kept, this.#keeper);
  }

  /**
   * Greater than every token granted for this lock before: send it with each write, and let the resource refuse smaller
   * ones than it has seen (S5).
   */
  get fencingToken(): number {
    return this.#grant.fencingToken;
  }

  /** The path of the lock. */
  get lockPath(): string {
    return this.#grant.lockPath;
  }

  /** The host id in that path. */
  get hostId(): string {
    return this.#grant.hostId;
  }

  /** Names this hold in calls of its own. Who knows it can end the hold, so do not log it. */
  get leaseId(): string {
    return this.#grant.leaseId;
  }

  /** Which permit of the lock is held, from 0: the lock's own path (S28). */
  get permit(): number {
    return this.#grant.permit;
  }

  /**
   * The lock's checkpoint: as the last holder left it, or as this hold has saved it last. `undefined` if there is none
   * (S25).
   */
  get checkpoint(): Checkpoint | undefined {
    return this.#saver.checkpoint;
  }

  /** When the grant was made, by the sidecar's wall clock; for people. */
  get acquiredAt(): Date | undefined {
    return this.#grant.acquiredAt;
  }

  /**
   * Aborts with a {@link HoldLostError} when the hold is lost: at the end of its validity at the latest, or a second
   * after that where the machine slept. Hand it to what runs under the lock. Never aborts if the holder ends it first.
   */
  get signal(): AbortSignal {
    return this.#state.signal;
  }

  /**
   * Aborts with a {@link Notice} when the lock was broken and its lease runs out (S22). The hold is still valid then: its
   * holder can finish, save its checkpoint and release. At the end of its validity it is lost, and
   * {@link Hold.signal} aborts.
   */
  get revokedSignal(): AbortSignal {
    return this.#state.revokedSignal;
  }

  /** The notice that the lock was broken; `undefined` if there was none. */
  get notice(): Notice | undefined {
    return this.#state.notice;
  }

  /** Why the hold was lost; `undefined` if it was not. Reads the clock, as {@link Hold.isValid} does. */
  get loss(): Loss | undefined {
    this.#state.isValid();
    return this.#state.loss;
  }

  /** Whether the holder may act now. Once false, it stays false. */
  isValid(): boolean {
    return this.#state.isValid();
  }

  /** The time left now in milliseconds, unless renewed; 0 when the hold is over. */
  remainingMs(): number {
    return this.#state.remainingMs();
  }

  /**
   * The time in milliseconds until `maxHoldMs` is over, when the hold is lost unless {@link Hold.extend} is called before;
   * `undefined` if there is no such limit. Reads the boot clock each time.
   */
  maxHoldRemainingMs(): number | undefined {
    return this.#state.maxHoldRemainingMs();
  }

  /** Throws a {@link HoldLostError} if the hold is lost. For between the steps of the work. */
  throwIfLost(): void {
    const { loss } = this;
    if (loss !== undefined) throw new HoldLostError(loss);
  }

  /**
   * Reports progress, which restarts `progressTimeoutMs`.
   *
   * @throws RefusedError with reason `HOLD_LOST` if the hold is over; it is lost here, too, then.
   */
  async reportProgress(): Promise<void> {
    await this.#hear(() => this.#rpc.reportProgress(this.#keeper.id));
  }

  /**
   * Sets a new `maxHoldMs`, counted from now.
   *
   * @throws RefusedError with reason `HOLD_LOST` if the hold is over; it is lost here, too, then.
   */
  async extend(maxHoldMs: number): Promise<void> {
    const request = { ...this.#keeper.id, maxHold: duration("maxHoldMs", maxHoldMs) };
    await this.#hear(async () => {
      const sent = this.#state.now();
      const { validity, resumeToken, maxHoldEnds } = await this.#rpc.unary(LeaseServiceService.extendLease, request);
      this.#keeper.replaceResumeToken(resumeToken);
      this.#state.takeInMaxHold(maxHoldEnds, sent);
      if (validity === undefined) throw new ProtocolError("an extension was answered without a validity");
      return validity;
    });
  }

  /**
   * Replaces the lock's checkpoint, and gives its version once the store has it (S24). A text is encoded in UTF-8. While the
   * hold is being resumed this waits, within the validity. Of saves that overlap, those that still wait are replaced by the
   * newest, and have its outcome; at most one a second reaches the store (S26).
   *
   * @throws HoldLostError if the hold is lost: nothing was saved.
   * @throws CheckpointUnknownError if the hold ended before it was known whether the store has the value (S27).
   * @throws RefusedError with reason `INVALID_FIELD` for more than 2,048 bytes, `HOLD_RELEASED` after the release, and
   *   what else the sidecar refuses.
   */
  async save(value: Uint8Array | string): Promise<number> {
    return await this.#saver.save(checkpointBytes("value", value));
  }

  /** {@link Hold.save} of a value as JSON, which {@link Checkpoint.json} reads. */
  async saveJson(value: unknown): Promise<number> {
    const text: unknown = JSON.stringify(value);
    if (typeof text !== "string") throw new TypeError("the checkpoint cannot be written as JSON");
    return await this.save(text);
  }

  /**
   * The hold as the sidecar knows it: its state, its limits, and its validity, which counts here, too. Changes nothing.
   *
   * @throws RefusedError with reason `HOLD_LOST` or `HOLD_RELEASED` if the hold is over; it is lost here, too, then.
   */
  async info(): Promise<HoldInfo> {
    const sent = this.#state.now();
    const told = await this.#orLost(() => this.#rpc.getHold(this.#keeper.id));
    this.#keeper.takeInHold(told, sent);
    return holdInfo(told, {
      remainingMs: this.remainingMs(),
      maxHoldRemainingMs: this.maxHoldRemainingMs(),
      progressRemainingMs: this.#state.timeUntil(told.progressDue, sent),
    });
  }

  async #hear(call: () => Promise<Validity>): Promise<void> {
    const sent: BootReading = this.#state.now();
    this.#state.takeIn(await this.#orLost(call), sent);
  }

  /** What `call` gives; the hold is lost if it says so. */
  async #orLost<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await call();
    } catch (error) {
      const loss = toldLost(error);
      if (loss !== undefined) this.#state.lose(loss);
      throw error;
    }
  }

  /**
   * Releases the lock and waits until the store has it. The hold is not valid from the first moment of this call on
   * (S13), so stop acting before. May be called again: it gives the same answer.
   *
   * With a `checkpoint` that is saved first. If it cannot be saved, the lock is released all the same: see
   * `checkpointOutcome` of the result (S26).
   *
   * @throws HoldLostError if the hold was lost before, so that somebody else may have had the lock.
   * @throws RefusedError if the sidecar refuses, or the connection breaks; with reason `INVALID_FIELD` for a checkpoint of
   *   more than 2,048 bytes, and the hold goes on.
   * @throws NotReleasedError if no sidecar has confirmed it within `releaseTimeoutMs`: the lock is available when its
   *   lease runs out.
   */
  release({ checkpoint }: ReleaseOptions = {}): Promise<ReleaseResult> {
    if (this.#releasing !== undefined) return this.#releasing;
    let bytes: Buffer | undefined;
    try {
      bytes = checkpoint === undefined ? undefined : checkpointBytes("checkpoint", checkpoint);
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      return Promise.reject(error);
    }
    this.#releasing = this.#release(bytes);
    return this.#releasing;
  }

  async #release(checkpoint: Buffer | undefined): Promise<ReleaseResult> {
    if (!this.#state.end()) {
      throw new HoldLostError(this.loss ?? { reason: LossReason.UNSPECIFIED, detail: "" });
    }
    const timeoutMs = this.#rpc.limits.releaseMs;
    const deadline = this.#state.now().latest + timeoutMs;
    await this.#resumeAnswered(deadline);
    let result: ReleaseResult;
    try {
      const left = Math.max(deadline - this.#state.now().latest, 1);
      result = await this.#rpc.release(this.#keeper.id, checkpoint, left);
    } catch (cause) {
      this.#keeper.close();
      if (!(cause instanceof RefusedError) || cause.code !== status.DEADLINE_EXCEEDED) throw cause;
      throw new NotReleasedError(this.lockPath, `the sidecar has not answered within ${String(timeoutMs)} ms`, {
        cause,
      });
    }
    this.#keeper.finish();
    const loss = alreadyLost(result);
    if (loss !== undefined) throw new HoldLostError(loss, { released: result });
    if (checkpoint !== undefined && isUnheard(result)) {
      throw unsupported("checkpoints", "the lock was released, and the checkpoint was not saved");
    }
    return result;
  }

  /**
   * Waits until it is known which generation to release, as long as the lease can still be this hold's: a sidecar that
   * has not noticed the break would hand the lock on while another takes the hold up (S16).
   */
  async #resumeAnswered(deadline: number): Promise<void> {
    const until = Math.min(this.#state.validUntil, deadline);
    while (this.#keeper.isResuming) {
      if (this.#state.now().latest >= until) {
        this.#keeper.close();
        throw new NotReleasedError(this.lockPath, "the hold was being resumed, and no sidecar has answered yet");
      }
      await new Promise((resolve) => setTimeout(resolve, ANSWER_POLL_MS));
    }
    if (this.#keeper.refused !== undefined) {
      this.#keeper.close();
      throw new HoldLostError(this.#keeper.refused);
    }
  }

  /** @internal Loses the hold, because its client goes away. */
  abandon(): void {
    this.#state.lose({ reason: LossReason.UNSPECIFIED, detail: "its client was closed" });
    this.#keeper.close();
  }

  /**
   * Releases the lock at the end of an `await using` block, and throws what {@link Hold.release} throws: a
   * {@link HoldLostError} however the loss was found, and an error where the release failed. Beside an error of the block
   * itself, JavaScript then throws a `SuppressedError` that has both: see {@link lossIn}. Silent where the block has
   * called {@link Hold.release}, which told the outcome.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    const isTold = this.#releasing !== undefined;
    try {
      await this.release();
    } catch (error) {
      if (!isTold) throw error;
    }
  }
}
