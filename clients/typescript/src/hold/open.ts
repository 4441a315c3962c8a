// Asks for a lock by a stream, and returns the hold once it is granted.

import { FIRST_PAUSE_MS, LONGEST_PAUSE_MS } from "../constants.js";
import type { Grant, LeaseSpec } from "../../gen/leasehold/v1/hold.js";
import { LossReason, Validity } from "../../gen/leasehold/v1/hold.js";
import type { HoldLeaseResponse } from "../../gen/leasehold/v1/lease_service.js";
import type { BootReading } from "./boot-clock.js";
import { BusyError, LostError } from "../errors/errors.js";
import { lossOf } from "./loss.js";
import { occurrenceOver } from "./occurrence.js";
import { isBreak } from "../errors/refusal.js";
import { isBelowNeeds } from "../errors/unsupported.js";
import type { Place } from "../connect/connections.js";
import type { HoldId, MessageStream, Rpc } from "../connect/rpc.js";
import { sleep } from "../duration.js";
import type { HoldListener } from "./event.js";
import { tell } from "./event.js";
import type { Holds } from "./held.js";
import { Hold } from "./hold.js";
import { HoldLine, endedWithoutWord } from "./line.js";
import { HoldState } from "./state.js";

/** How a hold is asked for. */
export interface HoldOptions {
  /** Cancels the waiting, which then fails with the signal's reason. A lock that is granted already stays held. */
  readonly signal?: AbortSignal;
  /** Gets what happens to the hold: waiting, granted, and all that follows. Called at once, so keep it short. */
  readonly onEvent?: HoldListener;
}

/**
 * Asks for the lock; a `BusyError` if it was not acquired within the wait. The wait is also one for a sidecar that does
 * not answer yet, or is too old for what is asked (S37), and goes on when the connection breaks or goes silent.
 */
export async function openHold(
  rpc: Rpc,
  holds: Holds,
  spec: (waitMs: number) => LeaseSpec,
  waitMs: number,
  options: HoldOptions,
): Promise<Hold> {
  const began = rpc.clock.read().earliest;
  let pause = FIRST_PAUSE_MS;
  const onWaiting = (): void => {
    pause = FIRST_PAUSE_MS;
  };
  const left = (): number => Math.max(waitMs - (rpc.clock.read().latest - began), 0);
  for (let ask = waitMs; ; ask = left()) {
    try {
      return await openOnce(rpc, holds, spec(ask), { ...options, onWaiting });
    } catch (error) {
      const isEnded = left() === 0 || rpc.isClosed || options.signal?.aborted === true;
      if (isEnded || !(isBreak(error) || isBelowNeeds(error))) throw error;
    }
    await sleep(pause, options.signal);
    pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
  }
}

interface OneTry extends HoldOptions {
  /** The sidecar has heard the request, or nothing was heard of it. */
  readonly onWaiting: () => void;
}

async function openOnce(rpc: Rpc, holds: Holds, spec: LeaseSpec, options: OneTry): Promise<Hold> {
  const { signal, onEvent } = options;
  signal?.throwIfAborted();
  const sent = rpc.clock.read();
  const stream = rpc.holdLease({ $case: "spec", value: spec });
  const place = stream.place.ofHold();
  const abort = (): void => {
    stream.cancel(signal?.reason as Error);
  };
  signal?.addEventListener("abort", abort);
  try {
    const grant = await readGrant(stream, spec, options);
    const state = await believe(rpc, grant, sent, place);
    signal?.throwIfAborted();
    const { lockPath, fencingToken } = grant;
    tell(onEvent, { type: "granted", lockPath, fencingToken });
    return new Hold(holds, { rpc, state, line: new HoldLine(rpc, stream), place, grant, listener: onEvent });
  } catch (error) {
    if (stream.isSilent) options.onWaiting();
    // Nothing is held: a grant on its way is released by this (S14).
    stream.cancel();
    place.leave();
    throw error;
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}

async function readGrant(
  stream: MessageStream<HoldLeaseResponse>,
  spec: LeaseSpec,
  { onEvent, onWaiting }: OneTry,
): Promise<Grant> {
  for (let message = await stream.next(); message !== undefined; message = await stream.next()) {
    switch (message.event?.$case) {
      case "granted":
        return message.event.value;
      case "busy":
        throw new BusyError(message.event.value);
      case "lost":
        throw new LostError(lossOf(message.event.value));
      case "waiting": {
        const { position, record } = message.event.value;
        onWaiting();
        tell(onEvent, { type: "waiting", position, record });
        break;
      }
      case "alreadyDone":
      case "skipped":
        throw occurrenceOver(spec, message.event);
      // Said after a grant only, or not known to this version.
      case "renewed":
      case "atRisk":
      case "recovered":
      case "draining":
      case "released":
      case "revoked":
      case undefined:
    }
  }
  throw endedWithoutWord();
}

/**
 * What a grant is worth here, which was asked for at `sent`, of a hold at `place`.
 *
 * @throws LostError if it is over already; RefusedError if its validity cannot be learned.
 */
export async function believe(rpc: Rpc, grant: Grant, sent: BootReading, place: Place): Promise<HoldState> {
  const granted = new HoldState(rpc.clock, grant.validity ?? Validity.create(), sent);
  granted.takeInMaxHold(grant.maxHoldEnds, sent);
  const state = await askFirst(rpc, { ...grant, place }, granted);
  if (state.isValid()) return state;
  throw new LostError(state.loss ?? { reason: LossReason.EXPIRED, detail: "the grant came too late" });
}

/**
 * S21: elsewhere than on the sidecar's kernel the grant's duration counts from before the request, and a wait may have
 * used it up. Then the validity is asked for anew.
 */
async function askFirst(rpc: Rpc, hold: HoldId, state: HoldState): Promise<HoldState> {
  const due = state.nextQuestion;
  if (due === undefined) return state;
  const asked = state.now();
  if (asked.latest < due) return state;
  const { validity, maxHoldEnds } = await rpc.getHold(hold);
  const fresh = new HoldState(rpc.clock, validity, asked);
  fresh.takeInMaxHold(maxHoldEnds, asked);
  return fresh;
}
