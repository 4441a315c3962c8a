// Until when a client may act (S21). Pure: readings of the clock are arguments.

import type { BootTime, Deadline, Validity } from "../../gen/leasehold/v1/hold.js";
import type { BootReading } from "./boot-clock.js";
import { milliseconds } from "../duration.js";

/** How much of a promised validity is worth a question: a tenth. */
const WORTH_ASKING = 10;

/** A validity, or another moment that lies ahead, on our clock. */
export interface Known {
  readonly until: number;
  readonly asOf: number;
  readonly sameKernel: boolean;
}

/** Until when a hold is valid as this client knows it, and from which message. Moments are milliseconds since boot. */
export class KnownValidity {
  #known: Known = { until: 0, asOf: 0, sameKernel: false };
  #told: BootTime | undefined;
  /** When the sidecar last told of a validity that is noticeably longer, and cannot be counted before it is asked. */
  #longerHeard: number | undefined;

  /** The end of validity. Past it the hold is lost. */
  get until(): number {
    return this.#known.until;
  }

  /** The latest validity told, in the sidecar's words (S16). */
  get told(): BootTime | undefined {
    return this.#told;
  }

  /**
   * When the sidecar should be asked next for the validity: at once when it has told of one that cannot be counted
   * here, which it does at each renewal, and else when half of this one is over. `undefined` where its words are enough,
   * because its boot clock is ours.
   */
  get nextQuestion(): number | undefined {
    const { until, asOf, sameKernel } = this.#known;
    return sameKernel ? undefined : (this.#longerHeard ?? asOf + Math.max(until - asOf, 0) / 2);
  }

  /**
   * Takes in a validity that was read at `now`, in an answer to a request sent at `sent` if there was one. Whether
   * the old one still counts is for the caller to check before.
   */
  takeIn(validity: Validity, sent: BootReading | undefined, now: BootReading, bootId: string): void {
    const known = understand(validity, sent, now, bootId);
    if (known === undefined) {
      // Said, though it cannot be counted here: the sidecar keeps to it.
      this.#told = validity.validUntil;
      const validFor = milliseconds(validity.validFor);
      if (now.earliest + validFor > this.#known.until + validFor / WORTH_ASKING) this.#longerHeard = now.earliest;
      return;
    }
    // An older message than the newest one changes nothing.
    if (known.asOf >= this.#known.asOf) {
      this.#known = known;
      // An answer to a question from before says nothing of what was told since.
      if (known.sameKernel || known.asOf >= (this.#longerHeard ?? 0)) this.#longerHeard = undefined;
      this.#told = validity.validUntil;
    }
  }
}

/**
 * A deadline on our clock, read at `now` in an answer to a request sent at `sent` if there was one; `undefined` if
 * nothing can be counted from it.
 */
export function knownOf(
  deadline: Deadline,
  sent: BootReading | undefined,
  now: BootReading,
  bootId: string,
): Known | undefined {
  return understand({ validUntil: deadline.at, validFor: deadline.after }, sent, now, bootId);
}

/** What `validity` means on our clock; `undefined` if nothing can be counted from it. */
function understand(
  validity: Validity,
  sent: BootReading | undefined,
  now: BootReading,
  bootId: string,
): Known | undefined {
  const validFor = milliseconds(validity.validFor);
  const told = validity.validUntil;
  if (told !== undefined && bootId !== "" && told.bootId === bootId) {
    const until = milliseconds(told.sinceBoot);
    const made = Math.max(until - validFor, 0);
    // A message made after it was read, or before it was asked for, was made by another clock after all: time
    // namespaces shift the boot clock and keep the boot id.
    if (made <= now.latest && (sent === undefined || sent.earliest <= made)) {
      return { until, asOf: made, sameKernel: true };
    }
  }
  if (sent === undefined) return undefined;
  return { until: sent.earliest + validFor, asOf: sent.earliest, sameKernel: false };
}
