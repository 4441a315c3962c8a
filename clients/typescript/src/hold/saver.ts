// Saves the checkpoint of a hold (S23 to S27).

import { status } from "@grpc/grpc-js";

import { FIRST_PAUSE_MS, LONGEST_PAUSE_MS, SAVE_GRACE_MS } from "../constants.js";
import { sleep } from "../duration.js";
import { Checkpoint, CheckpointUnknownError } from "./checkpoint.js";
import { LostError, RefusedError } from "../errors/errors.js";
import { Reason } from "../errors/reason.js";
import { isBreak, ownRefusal, toldLost } from "../errors/refusal.js";
import type { Kept, Keeper } from "./keeper.js";

/** A save that waits for the one before it. */
interface Next {
  value: Buffer;
  saved: Promise<number>;
}

/** Saves the checkpoint of a hold: one value at a time, and of those that wait only the newest (S26). */
export class Saver {
  readonly #kept: Pick<Kept, "rpc" | "state" | "grant">;
  readonly #keeper: Keeper;
  #checkpoint: Checkpoint | undefined;
  #running: Promise<number> | undefined;
  #next: Next | undefined;

  constructor(kept: Pick<Kept, "rpc" | "state" | "grant">, keeper: Keeper) {
    this.#kept = kept;
    this.#keeper = keeper;
    this.#checkpoint = Checkpoint.from(kept.grant.checkpoint);
  }

  /** The checkpoint as the last holder left it, or as this one has saved it last. */
  get checkpoint(): Checkpoint | undefined {
    return this.#checkpoint;
  }

  /** Saves `value`, and gives the version. One that waits is replaced by a newer one, and answered with its outcome. */
  save(value: Buffer): Promise<number> {
    if (this.#next !== undefined) {
      this.#next.value = value;
      return this.#next.saved;
    }
    const next: Next = { value, saved: Promise.resolve(0) };
    const run = (): Promise<number> => {
      this.#next = undefined;
      this.#running = this.#save(next.value).finally(() => {
        this.#running = undefined;
      });
      return this.#running;
    };
    if (this.#running === undefined) return run();
    next.saved = this.#running.then(run, run);
    this.#next = next;
    return next.saved;
  }

  /**
   * Sends the value, also repeatedly where the connection breaks or the hold is being resumed, within the validity that
   * the hold has now. The newest generation goes with each try (S16), and a repeated value changes nothing.
   */
  async #save(value: Buffer): Promise<number> {
    const { state } = this.#kept;
    const deadline = state.validUntil;
    let unknown: RefusedError | undefined;
    let last: RefusedError | undefined;
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      await this.#keeper.isAnswered(() => state.isValid());
      const isOver = !state.isValid();
      if (isOver || state.now().latest >= deadline) {
        if (unknown !== undefined) throw new CheckpointUnknownError(unknown.message, { cause: unknown });
        throw (isOver ? undefined : last) ?? this.#overError();
      }
      const outcome = await this.#trySave(value, deadline);
      if (typeof outcome === "number") return outcome;
      last = outcome;
      // A refusal says that nothing was stored; a broken connection does not.
      if (outcome.reason === undefined) unknown = outcome;
      await sleep(pause);
    }
  }

  /** The version; or what to try again after. */
  async #trySave(value: Buffer, deadline: number): Promise<number | RefusedError> {
    const { rpc, state, grant } = this.#kept;
    try {
      return await this.#keeper.call(async (id, sent) => {
        const answer = await rpc.saveCheckpoint(id, value, deadline - sent.latest + SAVE_GRACE_MS);
        if (answer.validity !== undefined) state.takeIn(answer.validity, sent);
        this.#checkpoint = new Checkpoint(value, answer.version, grant.fencingToken, undefined);
        return answer.version;
      });
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      if (error.reason === Reason.CHECKPOINT_UNKNOWN) {
        throw new CheckpointUnknownError(error.message, { cause: error });
      }
      const isLate = error.reason === undefined && error.code === status.DEADLINE_EXCEEDED;
      if (isBreak(error) || isLate) return error;
      const loss = toldLost(error);
      throw loss === undefined ? error : new LostError(loss, { cause: error });
    }
  }

  #overError(): Error {
    const { loss } = this.#kept.state;
    if (loss !== undefined) return new LostError(loss);
    const reason = Reason.HOLD_RELEASED;
    return ownRefusal(status.FAILED_PRECONDITION, "the hold was released, so nothing was saved", { reason });
  }
}
