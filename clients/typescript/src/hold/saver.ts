// Saves the checkpoint of a hold (S23 to S27).

import { status } from "@grpc/grpc-js";

import { SAVE_GRACE_MS } from "../constants.js";
import { Checkpoint } from "./checkpoint.js";
import { LostError } from "../errors/errors.js";
import { Reason } from "../errors/reason.js";
import { ownRefusal, toldLost } from "../errors/refusal.js";
import type { Kept, Keeper } from "./keeper.js";

/** Saves the checkpoint of a hold, and knows the newest. Saves at the same time have no order (S26). */
export class Saver {
  readonly #kept: Pick<Kept, "rpc" | "state" | "grant">;
  readonly #keeper: Keeper;
  #checkpoint: Checkpoint | undefined;
  #begun = 0;
  /** Which save {@link Saver.checkpoint} is of. */
  #saved = 0;

  constructor(kept: Pick<Kept, "rpc" | "state" | "grant">, keeper: Keeper) {
    this.#kept = kept;
    this.#keeper = keeper;
    this.#checkpoint = Checkpoint.from(kept.grant.checkpoint);
  }

  /** The checkpoint as the last holder left it, or as this one has saved it last. */
  get checkpoint(): Checkpoint | undefined {
    return this.#checkpoint;
  }

  /** Saves `value`, and gives the version. While the hold is being resumed this waits, within the validity (S16). */
  async save(value: Buffer): Promise<number> {
    const { rpc, state, grant } = this.#kept;
    await this.#keeper.isAnswered(() => state.isValid());
    if (!state.isValid()) throw this.#overError();
    const order = ++this.#begun;
    try {
      return await this.#keeper.call(async (id, sent) => {
        const { version, validity } = await rpc.saveCheckpoint(id, value, state.remainingMs() + SAVE_GRACE_MS);
        if (validity !== undefined) state.takeIn(validity, sent);
        // Answers may come in another order.
        if (order > this.#saved) {
          this.#saved = order;
          this.#checkpoint = new Checkpoint(value, version, grant.fencingToken, undefined);
        }
        return version;
      });
    } catch (error) {
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
