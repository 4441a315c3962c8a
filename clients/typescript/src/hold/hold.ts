// The hold as its holder has it.

import { status } from "@grpc/grpc-js";

import { KNOWN_TIMEOUT_MS } from "../constants.js";
import type { ReleaseResult } from "../../gen/leasehold/v1/hold.js";
import { CheckpointOutcome, LossReason, ReleaseOutcome } from "../../gen/leasehold/v1/hold.js";
import { LeaseServiceService } from "../../gen/leasehold/v1/lease_service.js";
import { checkpointBytes } from "./checkpoint.js";
import { duration } from "../duration.js";
import { LostError, ReleaseUnconfirmedError, ProtocolError, RefusedError } from "../errors/errors.js";
import { alreadyLost } from "./loss.js";
import type { Outcome } from "./occurrence.js";
import { OUTCOMES, checkRecorded } from "./occurrence.js";
import type { Ending } from "../connect/rpc.js";
import { unknownCalls } from "../errors/unsupported.js";
import { Held } from "./held.js";

/** How a hold is released. */
export interface ReleaseOptions {
  /** Replaces the lock's checkpoint before the lock is released: at most 2,048 bytes; a text in UTF-8. */
  readonly checkpoint?: Uint8Array | string;
  /**
   * How the occurrence has ended that was asked for ({@link LeaseSpec.occurrence}). Without one, and after `"failed"` and
   * `"returned"`, the next caller with the occurrence is granted it.
   */
  readonly outcome?: Outcome;
}

/**
 * What a release carries, for the wire.
 *
 * @throws RefusedError with reason `INVALID_FIELD` if the checkpoint is too long.
 */
export function endingOf({ checkpoint, outcome }: ReleaseOptions): Ending {
  return {
    ...(checkpoint === undefined ? {} : { checkpoint: checkpointBytes("checkpoint", checkpoint) }),
    ...(outcome === undefined ? {} : { outcome: OUTCOMES[outcome] }),
  };
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
export class Hold extends Held implements AsyncDisposable {
  #releasing: Promise<ReleaseResult> | undefined;

  /** Which permit of the lock is held, from 0: the lock's own path (S28). */
  get permit(): number {
    return this.grant.permit;
  }

  /**
   * Which attempt at the occurrence this is that was asked for ({@link LeaseSpec.occurrence}), from 1; 0 if none was.
   * Greater than 1 says that an earlier holder failed, or died without an outcome: the work may have been done in part.
   */
  get attempt(): number {
    return this.grant.attempt;
  }

  /**
   * The time in milliseconds until `maxHoldMs` is over, when the hold is lost unless {@link Hold.extend} is called before;
   * `undefined` if there is no such limit. Reads the boot clock each time.
   */
  maxHoldRemainingMs(): number | undefined {
    return this.state.maxHoldRemainingMs();
  }

  /**
   * Sets a new `maxHoldMs`, counted from now.
   *
   * @throws RefusedError with reason `HOLD_LOST` if the hold is over; it is lost here, too, then.
   */
  async extend(maxHoldMs: number): Promise<void> {
    const maxHold = duration("maxHoldMs", maxHoldMs);
    const { answer, id, sent } = await this.keeper.callHere((id) =>
      this.rpc.unary(LeaseServiceService.extendLease, { ...id, maxHold }, { over: id.place }),
    );
    this.keeper.replaceResumeToken(answer.resumeToken, id.generation);
    this.state.takeInMaxHold(answer.maxHoldEnds, sent);
    if (answer.validity === undefined) throw new ProtocolError("an extension was answered without a validity");
    this.state.takeIn(answer.validity, sent);
  }

  /**
   * Releases the lock and waits until the store has it. The hold is not valid from the first moment of this call on
   * (S13), so stop acting before. May be called again: it gives the same answer.
   *
   * With a `checkpoint` that is saved first. If it cannot be saved, the lock is released all the same: see
   * `checkpointOutcome` of the result (S26). With an `outcome` that is recorded. The first call decides what is released
   * with.
   *
   * @throws LostError if the hold was lost before, so that somebody else may have had the lock.
   * @throws RefusedError if the sidecar refuses, or the connection breaks; with reason `INVALID_FIELD` for a checkpoint of
   *   more than 2,048 bytes, and the hold goes on.
   * @throws OutcomeNotRecordedError if the lock was released, and the `outcome` not recorded, or that is not known.
   * @throws ReleaseUnconfirmedError if no sidecar has confirmed it within `releaseTimeoutMs`: the lock is available when its
   *   lease runs out.
   */
  release(options: ReleaseOptions = {}): Promise<ReleaseResult> {
    if (this.#releasing !== undefined) return this.#releasing;
    let ending: Ending;
    try {
      ending = endingOf(options);
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      return Promise.reject(error);
    }
    this.#releasing = this.rpc.ending(this.#release(ending)).finally(() => {
      this.keeper.leave();
    });
    return this.#releasing;
  }

  async #release(ending: Ending): Promise<ReleaseResult> {
    if (!this.state.end()) {
      await this.#sayKnown();
      throw new LostError(this.loss ?? { reason: LossReason.UNSPECIFIED, detail: "" });
    }
    const timeoutMs = this.rpc.limits.releaseMs;
    const deadline = this.state.now().latest + timeoutMs;
    await this.#answered(deadline);
    let result: ReleaseResult;
    try {
      const left = Math.max(deadline - this.state.now().latest, 1);
      result = await this.rpc.release(this.keeper.id, ending, left);
    } catch (cause) {
      this.keeper.close();
      if (!(cause instanceof RefusedError) || cause.code !== status.DEADLINE_EXCEEDED) throw cause;
      throw new ReleaseUnconfirmedError(this.lockPath, `the sidecar has not answered within ${String(timeoutMs)} ms`, {
        cause,
      });
    }
    this.keeper.finish();
    const loss = alreadyLost(result);
    if (loss !== undefined) throw new LostError(loss, { released: result });
    if (ending.checkpoint !== undefined && isUnheard(result)) {
      throw unknownCalls("checkpoints");
    }
    if (ending.outcome !== undefined) checkRecorded(result);
    return result;
  }

  /**
   * Tells the sidecar that the holder knows of its loss and has let go, so that the lock need not be kept for it (S13). Not
   * where a resume may have made a newer generation (S16).
   */
  async #sayKnown(): Promise<void> {
    if (this.keeper.isResuming || this.keeper.refused !== undefined) return;
    // Whatever is answered, the hold is lost.
    await this.rpc.release(this.keeper.id, {}, KNOWN_TIMEOUT_MS).catch(() => undefined);
  }

  /** @internal */
  protected giveUp(): Promise<unknown> {
    return this.rpc.release(this.keeper.id);
  }

  /** Waits until it is known which generation to release. */
  async #answered(deadline: number): Promise<void> {
    if (!(await this.isAnswered(deadline))) {
      this.keeper.close();
      throw new ReleaseUnconfirmedError(this.lockPath, "the hold was being resumed, and no sidecar has answered yet");
    }
    if (this.keeper.refused !== undefined) {
      this.keeper.close();
      throw new LostError(this.keeper.refused);
    }
  }

  /**
   * Releases the lock at the end of an `await using` block, and throws what {@link Hold.release} throws: a
   * {@link LostError} however the loss was found, and an error where the release failed. Beside an error of the block
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
