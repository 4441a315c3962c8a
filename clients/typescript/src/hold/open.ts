// Asks for a lock by a stream, and gives the hold once it is granted.

import type { Grant, LeaseSpec } from "../../gen/leasehold/v1/hold.js";
import { LossReason, Validity } from "../../gen/leasehold/v1/hold.js";
import type { HoldLeaseResponse } from "../../gen/leasehold/v1/lease_service.js";
import { BusyError, HoldLostError, ProtocolError } from "../errors.js";
import { lossOf } from "../loss.js";
import type { MessageStream, Rpc } from "../rpc.js";
import type { HoldListener } from "./event.js";
import { tell } from "./event.js";
import { Hold } from "./hold.js";
import { HoldState } from "./state.js";

/** How a hold is asked for. */
export interface HoldOptions {
  /** Cancels the waiting, which then fails with the signal's reason. What is granted already stays. */
  readonly signal?: AbortSignal;
  /** Gets what happens to the hold: waiting, granted, and all that follows. Called at once, so keep it short. */
  readonly onEvent?: HoldListener;
}

/** Where holds are noted while they live, so that the client can end them. */
export type Holds = Set<Hold>;

/** Asks for the lock; a `BusyError` if it was not to be had. */
export async function openHold(rpc: Rpc, holds: Holds, spec: LeaseSpec, options: HoldOptions): Promise<Hold> {
  const { signal, onEvent } = options;
  signal?.throwIfAborted();
  const sent = rpc.clock.read();
  const stream = rpc.holdLease({ $case: "spec", value: spec });
  const abort = (): void => {
    stream.cancel(signal?.reason as Error);
  };
  signal?.addEventListener("abort", abort);
  try {
    const grant = await readGrant(stream, onEvent);
    const granted = new HoldState(rpc.clock, grant.validity ?? Validity.create(), sent);
    const state = await askFirst(rpc, grant, granted);
    if (!state.isValid()) {
      const late = { reason: LossReason.EXPIRED, detail: "the grant came too late" };
      throw new HoldLostError(state.loss ?? late);
    }
    signal?.throwIfAborted();
    const { lockPath, fencingToken } = grant;
    tell(onEvent, { type: "granted", lockPath, fencingToken });
    return new Hold(holds, { rpc, state, stream, grant, listener: onEvent });
  } catch (error) {
    // Nothing is believed: a grant on its way is given back by this (S14).
    stream.cancel();
    throw error;
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}

async function readGrant(stream: MessageStream<HoldLeaseResponse>, onEvent: HoldListener | undefined): Promise<Grant> {
  for (let message = await stream.next(); message !== undefined; message = await stream.next()) {
    switch (message.event?.$case) {
      case "granted":
        return message.event.value;
      case "busy":
        throw new BusyError(message.event.value);
      case "lost":
        throw new HoldLostError(lossOf(message.event.value));
      case "waiting": {
        const { position, record } = message.event.value;
        tell(onEvent, { type: "waiting", position, record });
        break;
      }
      // Said after a grant only, or not known to this version.
      case "renewed":
      case "atRisk":
      case "recovered":
      case "draining":
      case "released":
      case undefined:
    }
  }
  throw new ProtocolError("the stream ended before the lock was granted");
}

/**
 * S21: elsewhere than on the sidecar's kernel the grant's span counts from before the request, and a wait may have used
 * it up. Then the validity is asked for anew.
 */
async function askFirst(rpc: Rpc, grant: Grant, state: HoldState): Promise<HoldState> {
  const due = state.nextQuestion;
  if (due === undefined) return state;
  const asked = state.now();
  if (asked.latest < due) return state;
  return new HoldState(rpc.clock, await rpc.reportProgress(grant, true), asked);
}
