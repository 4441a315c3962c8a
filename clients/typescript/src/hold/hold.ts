// The hold as its holder has it.

import { status } from "@grpc/grpc-js";

import type { Grant, ReleaseResult, Validity } from "../../gen/leasehold/v1/hold.js";
import { LossReason } from "../../gen/leasehold/v1/hold.js";
import { LeaseServiceService } from "../../gen/leasehold/v1/lease_service.js";
import type { BootReading } from "../boot-clock.js";
import { duration } from "../duration.js";
import { HoldLostError, NotReleasedError, ProtocolError, RefusedError } from "../errors.js";
import type { Loss } from "../loss.js";
import { alreadyLost } from "../loss.js";
import { toldLost } from "../refusal.js";
import type { Rpc } from "../rpc.js";
import type { Kept } from "./keeper.js";
import { Keeper } from "./keeper.js";
import type { HoldState } from "./state.js";

/** How often a release looks whether a resume was answered. */
const ANSWER_POLL_MS = 20;

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
      const { validity, resumeToken } = await this.#rpc.unary(LeaseServiceService.extendLease, request);
      this.#keeper.replaceResumeToken(resumeToken);
      if (validity === undefined) throw new ProtocolError("an extension was answered without a validity");
      return validity;
    });
  }

  async #hear(call: () => Promise<Validity>): Promise<void> {
    const sent: BootReading = this.#state.now();
    try {
      this.#state.takeIn(await call(), sent);
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
   * @throws HoldLostError if the hold was lost before, so that somebody else may have had the lock.
   * @throws RefusedError if the sidecar refuses, or the connection breaks.
   * @throws NotReleasedError if no sidecar has confirmed it within `releaseTimeoutMs`: the lock is available when its
   *   lease runs out.
   */
  release(): Promise<ReleaseResult> {
    this.#releasing ??= this.#release();
    return this.#releasing;
  }

  async #release(): Promise<ReleaseResult> {
    if (!this.#state.end()) {
      throw new HoldLostError(this.loss ?? { reason: LossReason.UNSPECIFIED, detail: "" });
    }
    const timeoutMs = this.#rpc.limits.releaseMs;
    const deadline = this.#state.now().latest + timeoutMs;
    await this.#resumeAnswered(deadline);
    let result: ReleaseResult;
    try {
      result = await this.#rpc.release(this.#keeper.id, Math.max(deadline - this.#state.now().latest, 1));
    } catch (cause) {
      this.#keeper.close();
      if (!(cause instanceof RefusedError) || cause.code !== status.DEADLINE_EXCEEDED) throw cause;
      throw new NotReleasedError(this.lockPath, `the sidecar has not answered within ${String(timeoutMs)} ms`, {
        cause,
      });
    }
    this.#keeper.finish();
    const loss = alreadyLost(result);
    if (loss !== undefined) throw new HoldLostError(loss);
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
