// A hold's validity and its end, as the holder and the keeper both know it.

import { LossReason } from "../../gen/leasehold/v1/hold.js";
import type { BootTime, Deadline, Validity } from "../../gen/leasehold/v1/hold.js";
import type { BreakNote } from "../../gen/leasehold/v1/lock.js";
import type { Known } from "./known-validity.js";
import { KnownValidity, knownOf } from "./known-validity.js";
import type { BootReading, Clock } from "./boot-clock.js";
import { LostError } from "../errors/errors.js";
import type { Loss } from "./loss.js";
import { Notice } from "./notice.js";

const EXPIRED: Loss = { reason: LossReason.EXPIRED, detail: "its validity ended without a renewal" };

const AT_BOUND: Loss = { reason: LossReason.MAX_HOLD_REACHED, detail: "the time that it may last was over" };

/** The loss at the deadline of a notice. */
function brokenBy({ breakNote, reason }: Notice): Loss {
  const loss = { reason: LossReason.BROKEN, detail: reason === "" ? "its lease has run out" : reason };
  return breakNote === undefined ? loss : { ...loss, breakNote };
}

/** A hold's validity and its end: lost is final (S4). */
export class HoldState {
  readonly #clock: Clock;
  readonly #validity = new KnownValidity();
  readonly #abort = new AbortController();
  readonly #revoked = new AbortController();
  #maxHold: Known | undefined;
  #notice: Notice | undefined;
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

  /** Aborts at the notice that the lock was broken (S22). */
  get revokedSignal(): AbortSignal {
    return this.#revoked.signal;
  }

  /** The notice that the lock was broken, if there was one. */
  get notice(): Notice | undefined {
    return this.#notice;
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
      this.lose(this.#endOfValidity());
    }
    return left;
  }

  /** Why a validity ended of which no end was told. */
  #endOfValidity(): Loss {
    if (this.#notice !== undefined) return brokenBy(this.#notice);
    const isAtBound = this.#maxHold !== undefined && this.#maxHold.until <= this.#validity.until;
    return isAtBound ? AT_BOUND : EXPIRED;
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

  /** Takes in when `max_hold` ends. What was not told, is older, or cannot be counted here changes nothing (S21). */
  takeInMaxHold(ends: Deadline | undefined, sent: BootReading | undefined): void {
    if (ends === undefined) return;
    const known = knownOf(ends, sent, this.#clock.read(), this.#clock.bootId);
    if (known !== undefined && known.asOf >= (this.#maxHold?.asOf ?? 0)) this.#maxHold = known;
  }

  /** The time until `max_hold` ends; `undefined` if it does not. 0 if the hold is over. */
  maxHoldRemainingMs(): number | undefined {
    if (this.#maxHold === undefined) return undefined;
    return this.isValid() ? Math.max(this.#maxHold.until - this.#clock.read().latest, 0) : 0;
  }

  /** The time until a deadline that answers a request sent at `sent`; `undefined` if there is none. */
  timeUntil(deadline: Deadline | undefined, sent: BootReading): number | undefined {
    if (deadline === undefined) return undefined;
    const now = this.#clock.read();
    const known = knownOf(deadline, sent, now, this.#clock.bootId);
    return known === undefined ? undefined : Math.max(known.until - now.latest, 0);
  }

  /** The lock was broken, and the hold ends with its validity (S22). The notice, if it is the first. */
  revoke(note: BreakNote | undefined): Notice | undefined {
    if (!this.isValid() || this.#notice !== undefined) return undefined;
    this.#notice = new Notice(note, () => this.remainingMs());
    this.#revoked.abort(this.#notice);
    return this.#notice;
  }

  /** The hold is lost, unless it is over already. */
  lose(loss: Loss): void {
    if (this.#over) return;
    this.#over = true;
    this.#loss = loss;
    this.#abort.abort(new LostError(loss));
    this.#onLost?.(loss);
  }

  /** The holder ends the hold (S13). False if it was over already. */
  end(): boolean {
    const valid = this.isValid();
    this.#over = true;
    return valid;
  }
}
