// The life line of a run's hold: the subscription's stream, for as long as the run goes on.

import { LAST_WORD_MS, NEWER_FIELDS } from "../constants.js";
import type { Grant, Resume } from "../../gen/leasehold/v1/hold.js";
import type { Run, SubscribeScheduleResponse } from "../../gen/leasehold/v1/schedule_service.js";
import { ScheduleServiceService, SubscribeScheduleRequest } from "../../gen/leasehold/v1/schedule_service.js";
import type { BootReading } from "../hold/boot-clock.js";
import { tell } from "../hold/event.js";
import type { Place } from "../connect/connections.js";
import { needs } from "../errors/unsupported.js";
import type { Line, LineEvent } from "../hold/line.js";
import type { MessageStream, Rpc } from "../connect/rpc.js";
import type { ScheduleListener } from "./event.js";

/** An event of a subscription. */
export type SubscriptionEvent = NonNullable<SubscribeScheduleResponse["event"]>;

/** A SubscribeSchedule call. */
export interface Subscribed {
  readonly stream: MessageStream<SubscribeScheduleResponse>;
  /** When it was sent. */
  readonly sent: BootReading;
}

/** Makes the call. */
export function subscribe(rpc: Rpc, request: SubscribeScheduleRequest): Subscribed {
  const sent = rpc.clock.read();
  const needed = needs(SubscribeScheduleRequest, request, NEWER_FIELDS.SubscribeScheduleRequest);
  return { stream: rpc.stream(ScheduleServiceService.subscribeSchedule, { ...request, needs: needed }), sent };
}

/**
 * The hold of a run, which is to end at the run's deadline here: the sidecar's lasts a little longer, in which the outcome
 * still counts (T12).
 */
export function grantOf({ grant, deadline }: Run): Grant | undefined {
  return grant === undefined || deadline === undefined ? grant : { ...grant, maxHoldEnds: deadline };
}

/** What the lines of one run have in common. */
export interface RunThread {
  readonly rpc: Rpc;
  readonly request: SubscribeScheduleRequest;
  readonly runId: string;
  readonly listener: ScheduleListener | undefined;
  /** Gets the stream when the run is over; `undefined` if it cannot go on. */
  readonly giveBack: (here: Subscribed | undefined) => void;
  /** Whether the run's outcome was told, and that was answered. */
  isCompleted: boolean;
  /** Called when it was. */
  onCompleted?: () => void;
}

/** The stream of a subscription while a run goes on. */
export class RunLine implements Line {
  readonly #thread: RunThread;
  readonly #here: Subscribed;
  /** The sidecar has said on this stream that the run is over. */
  #isOver = false;
  /** It was lost: the clock has found that, or the sidecar has said so. */
  #isLost = false;
  #isBroken = false;
  /** The run's hold is over here. */
  #isClosed = false;
  #isGiven = false;
  #lastWord: NodeJS.Timeout | undefined;

  constructor(thread: RunThread, here: Subscribed) {
    this.#thread = thread;
    this.#here = here;
  }

  get place(): Place {
    return this.#here.stream.place;
  }

  get isSilent(): boolean {
    return this.#here.stream.isSilent;
  }

  async next(): Promise<LineEvent | undefined> {
    // What comes when the run is over is for whoever waits for the next one.
    while (!this.#isOver && !this.#isGiven) {
      const message = await this.#read();
      if (this.#isElsewhere(message)) return undefined;
      if (message === undefined) {
        this.#broke();
        return undefined;
      }
      const event = message.event === undefined ? undefined : this.#ofHold(message.event);
      this.#settle();
      if (event !== undefined) return event;
    }
    return undefined;
  }

  async #read(): Promise<SubscribeScheduleResponse | undefined> {
    try {
      return await this.#here.stream.next();
    } catch (error) {
      this.#broke();
      throw error;
    }
  }

  /** Whether the stream was given back meanwhile, and with it what was read. */
  #isElsewhere(message: SubscribeScheduleResponse | undefined): boolean {
    if (this.#isGiven && message !== undefined) this.#here.stream.putBack(message);
    return this.#isGiven;
  }

  #broke(): void {
    this.#isBroken = true;
    this.#settle();
  }

  /** What an event means for the hold; `undefined` if nothing. */
  #ofHold(event: SubscriptionEvent): LineEvent | undefined {
    switch (event.$case) {
      case "run": {
        const grant = grantOf(event.value);
        return grant === undefined ? undefined : { $case: "granted", value: grant };
      }
      case "renewed":
      case "atRisk":
      case "recovered":
      case "revoked":
      case "draining":
        return event;
      case "lost":
        this.#isOver = true;
        this.#isLost = true;
        return event;
      case "recorded":
        // Else of an earlier run.
        if (event.value.runId !== this.#thread.runId) return undefined;
        this.#isOver = true;
        return { $case: "released", value: { result: undefined } };
      case "definitionInForce":
        tell(this.#thread.listener, { type: "definitionInForce", definition: event.value });
        return undefined;
      case "standby":
        return undefined;
    }
  }

  cancel(): void {
    this.#here.stream.cancel();
  }

  /**
   * The stream goes on to the next run only if the sidecar, too, knows that this one is over: else it would go on
   * renewing a hold that nobody believes in. After a loss it says so a moment later than the clock here, and a stream that
   * ended meanwhile would be a run that was abandoned; then this one ends, because the work may go on: the next run comes
   * by another (T24).
   */
  close(isLost: boolean): void {
    this.#isClosed = true;
    this.#isLost ||= isLost;
    this.#thread.onCompleted = (): void => {
      this.#settle();
    };
    this.#lastWord = setTimeout(() => {
      this.#broke();
    }, LAST_WORD_MS);
    this.#settle();
  }

  #settle(): void {
    if (!this.#isClosed || this.#isGiven) return;
    const { isCompleted, giveBack } = this.#thread;
    if (!this.#isBroken && !this.#isOver && (this.#isLost || !isCompleted)) return;
    this.#isGiven = true;
    clearTimeout(this.#lastWord);
    if (this.#isBroken || this.#isLost) {
      this.cancel();
      giveBack(undefined);
    } else {
      this.#here.stream.handOver();
      giveBack(this.#here);
    }
  }

  resume(resume: Resume): Line {
    const { rpc, request, runId } = this.#thread;
    const here = subscribe(rpc, { ...request, reconnected: true, resume, runId });
    here.stream.waitPatiently();
    return new RunLine(this.#thread, here);
  }
}
