// Keeps a hold true: reads its stream, watches the clock, and resumes when the sidecar was away.

import { randomUUID } from "node:crypto";

import { status } from "@grpc/grpc-js";

import { ANSWER_POLL_MS, ANSWER_TIMEOUT_MS, FIRST_PAUSE_MS, NAP_MS } from "../constants.js";
import type { Grant, Renewed } from "../../gen/leasehold/v1/hold.js";
import { LossReason, Validity } from "../../gen/leasehold/v1/hold.js";
import type { GetHoldResponse } from "../../gen/leasehold/v1/lease_service.js";
import { HoldState as WireHoldState } from "../../gen/leasehold/v1/lease_service.js";
import type { BreakNote } from "../../gen/leasehold/v1/lock.js";
import type { BootReading } from "./boot-clock.js";
import { milliseconds, sleep } from "../duration.js";
import { RefusedError } from "../errors/errors.js";
import type { Loss } from "./loss.js";
import { alreadyLost, lossOf } from "./loss.js";
import { Reason, reasonNamed } from "../errors/reason.js";
import { toldLost } from "../errors/refusal.js";
import type { Place } from "../connect/connections.js";
import type { HoldId, Rpc } from "../connect/rpc.js";
import type { HoldListener } from "./event.js";
import { tell } from "./event.js";
import type { Line, LineEvent } from "./line.js";
import { openLine, readEvent, readGrant } from "./line.js";
import type { HoldState } from "./state.js";

/** What a keeper is given to keep. */
export interface Kept {
  readonly rpc: Rpc;
  readonly state: HoldState;
  readonly line: Line;
  /** Where its stream is, or was before it broke. */
  readonly place: Place;
  readonly grant: Grant;
  readonly listener: HoldListener | undefined;
  /** Called once when nothing is kept any more. */
  readonly onClosed: () => void;
}

/** Gives back the place of a hold that was lost, and that nobody has any more to release it. */
const DROPPED = new FinalizationRegistry<Place>((place) => {
  place.leave();
});

/** Keeps a hold true from its grant until it is lost, or its holder closes it. */
export class Keeper {
  readonly #kept: Kept;
  /** The hold's stream; while the hold is resumed, the newest try. */
  #line: Line;
  /** Went silent, and must not be cancelled before the hold was resumed elsewhere (S14). */
  #silent: Line | undefined;
  #resumeToken: string;
  #generation: number;
  #resuming = false;
  #refused: Loss | undefined;
  #closed = false;
  #timer: NodeJS.Timeout | undefined;
  #asking = false;

  constructor(kept: Kept) {
    this.#kept = kept;
    this.#line = kept.line;
    this.#resumeToken = kept.grant.resumeToken;
    this.#generation = kept.grant.generation;
    kept.state.onLost = (loss): void => {
      tell(kept.listener, { type: "lost", loss });
      this.close();
    };
    DROPPED.register(this, kept.place);
    this.#watchClock();
    void this.#keep();
  }

  /** The hold, of the newest generation that was answered (S16). */
  get id(): HoldId {
    return { leaseId: this.#kept.grant.leaseId, generation: this.#generation, place: this.#kept.place };
  }

  /** Whether a resume was sent, and it is not known whether it has made a newer generation. */
  get isResuming(): boolean {
    return this.#resuming;
  }

  /** Waits for the answer to a resume that was sent, for as long as `mayWait` allows. False where that ends first. */
  async isAnswered(mayWait: () => boolean): Promise<boolean> {
    while (this.#resuming) {
      if (!mayWait()) return false;
      await sleep(ANSWER_POLL_MS);
    }
    return true;
  }

  /**
   * What `call` about the hold gives, which is told when it was sent (S21). Where it finds out only that the hold has left
   * a sidecar, it is made again with the newest generation, while the hold is valid (S16).
   */
  async call<T>(call: (id: HoldId, sent: BootReading) => Promise<T>): Promise<T> {
    const { state } = this.#kept;
    for (;;) {
      const { id } = this;
      try {
        return await call(id, state.now());
      } catch (error) {
        if (!this.#mayBeElsewhere(id, error)) throw error;
        await this.isAnswered(() => state.isValid());
        if (!state.isValid()) throw error;
      }
    }
  }

  /**
   * The same of a call that counts only where the hold is: what a sidecar has done that the hold has left, or is leaving,
   * is done again where it is then (S16).
   */
  async callHere<T>(call: (id: HoldId) => Promise<T>): Promise<{ answer: T; id: HoldId; sent: BootReading }> {
    const { state } = this.#kept;
    for (;;) {
      const done = await this.call(async (id, sent) => ({ answer: await call(id), id, sent }));
      await this.isAnswered(() => state.isValid());
      if (done.id.generation === this.#generation || !state.isValid()) return done;
    }
  }

  /**
   * Whether the refusal of a call about this generation tells of a loss, while the hold has a newer one, or may have: that
   * is no loss (S16). Else the hold is lost, if the refusal says so.
   */
  #mayBeElsewhere({ generation }: HoldId, refusal: unknown): boolean {
    const loss = toldLost(refusal);
    if (loss === undefined) return false;
    if (this.#resuming || generation !== this.#generation) return true;
    this.#kept.state.lose(loss);
    return false;
  }

  /** Why no try to resume will ever work. */
  get refused(): Loss | undefined {
    return this.#refused;
  }

  /** The bounds of the hold have changed, and its resume token with them. An empty one replaces none. */
  replaceResumeToken(resumeToken: string, generation = this.#generation): void {
    if (resumeToken !== "" && generation === this.#generation) this.#resumeToken = resumeToken;
  }

  /** Ends the stream. The hold has ended before (S13). */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#line.close(this.#kept.state.loss !== undefined);
    this.#silent?.cancel();
    this.#kept.onClosed();
  }

  /** The end of the hold was answered, or given up: nothing is asked about it any more. */
  leave(): void {
    this.#kept.place.leave();
  }

  /** Ends the stream after a release was answered, which ends it from the other side, too: that is waited for. */
  finish(): void {
    // A timer would hold on to what is over already.
    if (this.#closed) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.close();
    }, NAP_MS).unref();
  }

  /** Reads the clock after every wake-up (S3), and asks the sidecar where that is due (S21). */
  #watchClock(): void {
    const { state } = this.#kept;
    const left = state.remainingMs();
    if (this.#closed || left === 0) return;
    const due = state.nextQuestion;
    let nap = Math.min(left, NAP_MS);
    if (due !== undefined && !this.#asking) {
      const now = state.now();
      if (due <= now.latest) void this.#ask();
      else nap = Math.min(nap, due - now.latest);
    }
    this.#timer = setTimeout(() => {
      this.#watchClock();
    }, Math.ceil(nap));
  }

  /**
   * S21: a client elsewhere asks for its validity when it was renewed, and from time to time; what fails is asked again
   * after a nap.
   */
  async #ask(): Promise<void> {
    const { rpc, state } = this.#kept;
    this.#asking = true;
    const { id } = this;
    const sent = state.now();
    try {
      this.takeInHold(await rpc.getHold(id, ANSWER_TIMEOUT_MS), sent);
      this.#asking = false;
      // What was heard meanwhile is another question.
      this.#watchClockNow();
    } catch (error) {
      this.#asking = false;
      this.#mayBeElsewhere(id, error);
    }
  }

  /** Looks at the clock at once: what was just heard may have to be asked about. */
  #watchClockNow(): void {
    if (!this.#kept.state.isValid()) return;
    clearTimeout(this.#timer);
    this.#watchClock();
  }

  /** Reads the stream, and resumes when it breaks, until the hold is over. */
  async #keep(): Promise<void> {
    const { state, listener } = this.#kept;
    for (;;) {
      const read = await readEvent(this.#line);
      if (!(read instanceof RefusedError)) {
        const loss = state.isValid() ? this.#takeIn(read) : undefined;
        if (loss !== undefined) state.lose(loss);
        continue;
      }
      if (!state.isValid()) {
        this.close();
        return;
      }
      const refusal = finalRefusal(read);
      if (refusal !== undefined) {
        state.lose(refusal);
        return;
      }
      tell(listener, { type: "interrupted", detail: read.message });
      if (this.#line.isSilent) this.#silent = this.#line;
      await this.#resume();
    }
  }

  /** Takes in an event, and tells it if the hold goes on; the loss, if the event is one. */
  #takeIn(event: LineEvent): Loss | undefined {
    const { listener } = this.#kept;
    switch (event.$case) {
      case "renewed":
      case "recovered":
        if (event.$case === "renewed") this.#takeInLimits(event.value);
        this.#heard(event.value.validity, (remainingMs) => {
          tell(listener, { type: event.$case, remainingMs });
        });
        return undefined;
      case "atRisk": {
        const { validity, cause, detail } = event.value;
        this.#heard(validity, (remainingMs) => {
          tell(listener, { type: "atRisk", remainingMs, cause: reasonNamed(cause), detail });
        });
        return undefined;
      }
      case "draining":
        tell(listener, { type: "draining", timeLeftMs: milliseconds(event.value.timeLeft) });
        return undefined;
      case "revoked": {
        const { validity, breakNote } = event.value;
        this.#heard(validity, () => {
          this.#revoke(breakNote);
        });
        return undefined;
      }
      case "lost":
        return lossOf(event.value);
      case "released":
        return (
          alreadyLost(event.value.result) ?? {
            reason: LossReason.UNSPECIFIED,
            detail: "it was released by its lease id",
          }
        );
      // Said before a grant only.
      case "waiting":
      case "granted":
      case "busy":
      case "alreadyDone":
      case "skipped":
        return undefined;
    }
  }

  /** Takes in what the sidecar answered to a question sent at `sent`. */
  takeInHold(told: GetHoldResponse & { validity: Validity }, sent: BootReading): void {
    const { state } = this.#kept;
    if (!state.takeIn(told.validity, sent)) return;
    state.takeInMaxHold(told.maxHoldEnds, sent);
    if (told.state === WireHoldState.REVOKED) this.#revoke(told.breakNote);
  }

  /** ExtendLease has changed the limits of the hold, and its resume token with them. */
  #takeInLimits({ resumeToken, maxHoldEnds }: Renewed): void {
    this.replaceResumeToken(resumeToken);
    this.#kept.state.takeInMaxHold(maxHoldEnds, undefined);
  }

  /** S22: the lock was broken, and the hold ends with its validity. */
  #revoke(note: BreakNote | undefined): void {
    const { state, listener } = this.#kept;
    const notice = state.revoke(note);
    if (notice !== undefined) tell(listener, { type: "revoked", remainingMs: state.remainingMs(), notice });
  }

  /** Takes in a validity that answers no request of ours, asks about it where needed, and goes on if the hold does. */
  #heard(validity: Validity | undefined, goOn: (remainingMs: number) => void): void {
    const { state } = this.#kept;
    if (validity !== undefined) state.takeIn(validity, undefined);
    const left = state.remainingMs();
    if (left === 0) return;
    this.#watchClockNow();
    goOn(left);
  }

  /**
   * S16. Tries until it has worked, or the hold is over. A try is never cut short while the hold is valid, because the
   * sidecar would read that as its end (S14).
   */
  async #resume(): Promise<void> {
    const { state } = this.#kept;
    // The same for every try, so that one whose answer was lost can be repeated.
    const attemptId = randomUUID();
    // Also where the holder has ended the hold: its release waits for the answer, and closes this (S16).
    const goesOn = (): boolean => !this.#closed && (state.isValid() || state.loss === undefined);
    for (let pause = FIRST_PAUSE_MS; goesOn(); pause = Math.min(pause * 2, NAP_MS)) {
      const failure = await this.#tryResume(attemptId);
      if (failure === undefined || !goesOn()) return;
      const loss = failure instanceof RefusedError ? finalRefusal(failure) : failure;
      if (loss !== undefined) {
        this.#refused = loss;
        this.#resuming = false;
        state.lose(loss);
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, pause).unref());
    }
  }

  /** `undefined` when the hold goes on; else its loss, or what to try again after. */
  async #tryResume(attemptId: string): Promise<Loss | RefusedError | undefined> {
    const { state, grant, place, listener } = this.#kept;
    const sent = state.now();
    const value = {
      resumeToken: this.#resumeToken,
      toldValidUntil: state.isValid() ? state.told : undefined,
      attemptId,
    };
    this.#resuming = true;
    const opened = openLine(() => this.#line.resume(value));
    if (opened instanceof RefusedError) return opened;
    this.#line = opened;
    const granted = await readGrant(opened);
    if (!("leaseId" in granted)) return granted;
    if (granted.fencingToken !== grant.fencingToken) {
      return { reason: LossReason.TAKEN, detail: "the sidecar resumed another hold than this one" };
    }
    this.#resuming = false;
    place.moveTo(opened.place);
    this.#generation = granted.generation;
    this.#resumeToken = granted.resumeToken;
    this.#silent?.cancel();
    this.#silent = undefined;
    if (!state.takeIn(granted.validity ?? Validity.create(), sent)) return undefined;
    state.takeInMaxHold(granted.maxHoldEnds, sent);
    tell(listener, { type: "resumed", remainingMs: state.remainingMs() });
    return undefined;
  }
}

const HOPELESS: ReadonlySet<status> = new Set([
  status.INVALID_ARGUMENT,
  status.NOT_FOUND,
  status.FAILED_PRECONDITION,
  status.ABORTED,
  status.DATA_LOSS,
  status.UNIMPLEMENTED,
]);

/**
 * The loss, where an error says that no try to resume will ever work; anything else may pass (S16), also that this sidecar
 * is too old (S37).
 */
export function finalRefusal(error: RefusedError): Loss | undefined {
  if (!HOPELESS.has(error.code) || error.reason === Reason.STREAM_BEHIND || error.isBelowNeeds) return undefined;
  const detail = `the sidecar will not resume it: ${error.message}`;
  return toldLost(error) ?? { reason: LossReason.UNSPECIFIED, detail };
}
