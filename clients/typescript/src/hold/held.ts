// What is held, as its holder has it: a hold of its own, or that of a run.

import type { Grant } from "../../gen/leasehold/v1/hold.js";
import { LossReason } from "../../gen/leasehold/v1/hold.js";
import type { Checkpoint } from "./checkpoint.js";
import { checkpointBytes } from "./checkpoint.js";
import { LostError } from "../errors/errors.js";
import type { Loss } from "./loss.js";
import type { Notice } from "./notice.js";
import type { Rpc } from "../connect/rpc.js";
import type { HoldInfo } from "./info.js";
import { holdInfo } from "./info.js";
import type { Kept } from "./keeper.js";
import { Keeper } from "./keeper.js";
import { Saver } from "./saver.js";
import type { HoldState } from "./state.js";

/** Where what is held is noted while it lives, so that the client can end it. */
export type Holds = Set<Held>;

/**
 * A lock that is held. What it says is right also after the process, or the machine, was stopped and goes on: each
 * question reads the boot clock.
 */
export abstract class Held {
  // Private, so that nothing shows the lease id and the resume token (S20).
  readonly #rpc: Rpc;
  readonly #grant: Grant;
  readonly #state: HoldState;
  readonly #keeper: Keeper;
  readonly #saver: Saver;

  /** @internal What is held comes from a client. */
  constructor(holds: Holds, kept: Omit<Kept, "onClosed">) {
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

  /** @internal */
  protected get rpc(): Rpc {
    return this.#rpc;
  }

  /** @internal */
  protected get grant(): Grant {
    return this.#grant;
  }

  /** @internal */
  protected get state(): HoldState {
    return this.#state;
  }

  /** @internal */
  protected get keeper(): Keeper {
    return this.#keeper;
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
   * Aborts with a {@link LostError} when the hold is lost: at the end of its validity at the latest, or a second
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

  /** Throws a {@link LostError} if the hold is lost. For between the steps of the work. */
  throwIfLost(): void {
    const { loss } = this;
    if (loss !== undefined) throw new LostError(loss);
  }

  /**
   * Reports progress, which restarts `progressTimeoutMs`.
   *
   * @throws RefusedError with reason `HOLD_LOST` if the hold is over; it is lost here, too, then.
   */
  async reportProgress(): Promise<void> {
    await this.#keeper.call(async (id, sent) => {
      this.#state.takeIn(await this.#rpc.reportProgress(id), sent);
    });
  }

  /**
   * Replaces the lock's checkpoint, and gives its version once the store has it (S24). A text is encoded in UTF-8. While the
   * hold is being resumed this waits, within the validity. At most one save a second reaches the store: one that waits is
   * replaced by a newer one, and has its outcome (S26). Saves at the same time have no order.
   *
   * @throws LostError if the hold is lost: nothing was saved.
   * @throws CheckpointUnknownError if nobody answered, because the hold ended before the store did (S27) or because the
   *   connection broke: the old value stands or the new one, and the save can be repeated while the hold is valid.
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
    return await this.#keeper.call(async (id, sent) => {
      const told = await this.#rpc.getHold(id);
      this.#keeper.takeInHold(told, sent);
      return holdInfo(told, {
        remainingMs: this.remainingMs(),
        maxHoldRemainingMs: this.#state.maxHoldRemainingMs(),
        progressRemainingMs: this.#state.timeUntil(told.progressDue, sent),
      });
    });
  }

  /**
   * @internal Waits until it is known which generation this hold has, as long as the lease can still be this hold's: a
   * sidecar that has not noticed the break would hand the lock on while another takes the hold up (S16). False if that is
   * not known by `deadline`.
   */
  protected async isAnswered(deadline = Infinity): Promise<boolean> {
    const until = Math.min(this.#state.validUntil, deadline);
    return await this.#keeper.isAnswered(() => this.#state.now().latest < until);
  }

  /**
   * @internal Loses the hold, because its client goes away, and releases the lock, which is said by a call: over a network
   * the end of the stream says nothing (S14). Not where a resume may have made a newer generation (S16).
   */
  abandon(): void {
    if (!this.#state.isValid()) return;
    this.#state.lose({ reason: LossReason.UNSPECIFIED, detail: "its client was closed" });
    if (this.#keeper.isResuming) return;
    const leave = (): void => {
      this.#keeper.leave();
    };
    void this.#rpc.ending(this.giveUp()).then(leave, leave);
  }

  /** @internal Tells the sidecar that the hold, which has ended here, is given up. */
  protected abstract giveUp(): Promise<unknown>;
}
