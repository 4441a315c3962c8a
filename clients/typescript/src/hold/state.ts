// A hold's validity and its end, as the holder and the keeper both know it.

import { LossReason } from "../../gen/leasehold/v1/hold.js";
import type { BootTime, Validity } from "../../gen/leasehold/v1/hold.js";
import { KnownValidity } from "../known-validity.js";
import type { BootReading, Clock } from "../boot-clock.js";
import { HoldLostError } from "../errors.js";
import type { Loss } from "../loss.js";

/** A hold's validity and its end: lost is final (S4). */
export class HoldState {
  readonly #clock: Clock;
  readonly #validity = new KnownValidity();
  readonly #abort = new AbortController();
  /** Ended by the holder or lost. */
  #over = false;
  #loss: Loss | undefined;
  #onLost: ((loss: Loss) => void) | undefined;

  /** A hold that was granted by `validity`, in answer to a request sent at `sent`. */
  constructor(clock: Clock, validity: Validity, sent: BootReading) {
    this.#clock = clock;
    this.#validity.takeIn(validity, sent, clock.read(), clock.bootId);
  }

  /** Aborts when the hold is lost, and not when its holder ends it. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** The end of validity, in milliseconds since boot. */
  get validUntil(): number {
    return this.#validity.until;
  }

  /** Why the hold was lost, if it was. */
  get loss(): Loss | undefined {
    return this.#loss;
  }

  /** The latest validity told, in the sidecar's words (S16). */
  get told(): BootTime | undefined {
    return this.#validity.told;
  }

  /** When the sidecar should be asked next for the validity; `undefined` where its words are enough (S21). */
  get nextQuestion(): number | undefined {
    return this.#validity.nextQuestion;
  }

  /** Calls `onLost` once, when the hold is lost. */
  set onLost(onLost: (loss: Loss) => void) {
    this.#onLost = onLost;
  }

  now(): BootReading {
    return this.#clock.read();
  }

  /** The time left; 0 if the hold is over. Being past validity is being lost, whoever finds out first (S21). */
  remainingMs(): number {
    if (this.#over) return 0;
    const left = Math.max(this.#validity.until - this.#clock.read().latest, 0);
    if (left === 0) {
      this.lose({ reason: LossReason.EXPIRED, detail: "its validity ended without word of a renewal" });
    }
    return left;
  }

  isValid(): boolean {
    return this.remainingMs() > 0;
  }

  /** Takes in what the sidecar says, unless the hold is over (S4). Says whether it goes on. */
  takeIn(validity: Validity, sent: BootReading | undefined): boolean {
    if (!this.isValid()) return false;
    this.#validity.takeIn(validity, sent, this.#clock.read(), this.#clock.bootId);
    return this.isValid();
  }

  /** The hold is lost, unless it is over already. */
  lose(loss: Loss): void {
    if (this.#over) return;
    this.#over = true;
    this.#loss = loss;
    this.#abort.abort(new HoldLostError(loss));
    this.#onLost?.(loss);
  }

  /** The holder ends the hold (S13). False if it was over already. */
  end(): boolean {
    const valid = this.isValid();
    this.#over = true;
    return valid;
  }
}
