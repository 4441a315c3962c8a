// The hold as its holder has it.

import type { Grant, ReleaseResult, Validity } from "../../gen/leasehold/v1/hold.js";
import { LossReason, ReleaseOutcome } from "../../gen/leasehold/v1/hold.js";
import { LeaseServiceService } from "../../gen/leasehold/v1/lease_service.js";
import type { BootReading } from "../boot-clock.js";
import { duration } from "../duration.js";
import { HoldLostError, ProtocolError } from "../errors.js";
import type { Loss } from "../loss.js";
import { toldLost } from "../refusal.js";
import type { Rpc } from "../rpc.js";
import type { Kept } from "./keeper.js";
import { Keeper } from "./keeper.js";
import type { HoldState } from "./state.js";

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

  /** Why the hold was lost; `undefined` if it was not. */
  get loss(): Loss | undefined {
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
    this.#state.isValid();
    if (this.loss !== undefined) throw new HoldLostError(this.loss);
  }

  /**
   * Says that the work is getting on, which restarts `progressTimeoutMs`.
   *
   * @throws RefusedError with reason `HOLD_LOST` if the hold is over; it is lost here, too, then.
   */
  async reportProgress(): Promise<void> {
    await this.#hear(() => this.#rpc.reportProgress(this.leaseId, false));
  }

  /**
   * Sets a new `maxHoldMs`, counted from now.
   *
   * @throws RefusedError with reason `HOLD_LOST` if the hold is over; it is lost here, too, then.
   */
  async extend(maxHoldMs: number): Promise<void> {
    const request = { leaseId: this.leaseId, maxHold: duration("maxHoldMs", maxHoldMs) };
    await this.#hear(async () => {
      const { validity } = await this.#rpc.unary(LeaseServiceService.extendLease, request);
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
   * Gives the lock back and waits until the store has it. The hold is not valid from the first moment of this call on
   * (S13), so stop acting before. May be called again: it gives the same answer.
   *
   * @throws RefusedError whether the lock was given back is not known, and it will be free when its lease runs out.
   */
  release(): Promise<ReleaseResult> {
    this.#releasing ??= this.#release();
    return this.#releasing;
  }

  async #release(): Promise<ReleaseResult> {
    if (!this.#state.end()) {
      const lossReason = this.loss?.reason ?? LossReason.UNSPECIFIED;
      return { outcome: ReleaseOutcome.ALREADY_LOST, lossReason, restingUntil: undefined };
    }
    try {
      const result = await this.#rpc.release(this.leaseId);
      this.#keeper.finish();
      return result;
    } catch (error) {
      this.#keeper.close();
      throw error;
    }
  }

  /** @internal Loses the hold, because its client goes away. */
  abandon(): void {
    this.#state.lose({ reason: LossReason.UNSPECIFIED, detail: "its client was closed" });
    this.#keeper.close();
  }

  /**
   * Gives the lock back at the end of an `await using` block. Tells neither of a loss, which {@link Hold.signal} and
   * {@link Hold.throwIfLost} tell, nor of a release that was not answered: the stream's end gives the lock back then.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => undefined);
  }
}
