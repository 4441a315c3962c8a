// The life line of a hold: the stream that brings its events, wherever it comes from (S14).

import { status } from "@grpc/grpc-js";

import type { Grant, Resume } from "../../gen/leasehold/v1/hold.js";
import type { HoldLeaseResponse } from "../../gen/leasehold/v1/lease_service.js";
import type { Place } from "../connect/connections.js";
import type { MessageStream, Rpc } from "../connect/rpc.js";
import { RefusedError } from "../errors/errors.js";
import { ownRefusal } from "../errors/refusal.js";
import type { Loss } from "./loss.js";
import { lossOf } from "./loss.js";

/** What happens to a hold, in the sidecar's words. */
export type LineEvent = NonNullable<HoldLeaseResponse["event"]>;

/** The stream of a hold. Only one event may be waited for at a time. */
export interface Line {
  /** Where it is. */
  readonly place: Place;
  /** Whether it ended because nothing was heard for too long. */
  readonly isSilent: boolean;
  /** The next event that this client knows; `undefined` when there is none any more. Throws how the stream broke. */
  next(): Promise<LineEvent | undefined>;
  /** Ends the stream. */
  cancel(): void;
  /** The hold is over here (S13), by a loss or by its holder: ends the stream, unless it is good for more than this hold. */
  close(isLost: boolean): void;
  /** Opens another one that goes on with the hold (S16); its first event is a grant. */
  resume(resume: Resume): Line;
}

/** A HoldLease call, which is there for one hold. */
export class HoldLine implements Line {
  readonly #rpc: Rpc;
  readonly #stream: MessageStream<HoldLeaseResponse>;

  constructor(rpc: Rpc, stream: MessageStream<HoldLeaseResponse>) {
    this.#rpc = rpc;
    this.#stream = stream;
  }

  get place(): Place {
    return this.#stream.place;
  }

  get isSilent(): boolean {
    return this.#stream.isSilent;
  }

  async next(): Promise<LineEvent | undefined> {
    for (let message = await this.#stream.next(); message !== undefined; message = await this.#stream.next()) {
      if (message.event !== undefined) return message.event;
    }
    return undefined;
  }

  cancel(): void {
    this.#stream.cancel();
  }

  close(): void {
    this.cancel();
  }

  resume(value: Resume): Line {
    const stream = this.#rpc.holdLease({ $case: "resume", value });
    stream.waitPatiently();
    return new HoldLine(this.#rpc, stream);
  }
}

/** The next event that this client knows, or how the stream ended. */
export async function readEvent(line: Line): Promise<LineEvent | RefusedError> {
  try {
    return (await line.next()) ?? endedWithoutWord();
  } catch (error) {
    if (error instanceof RefusedError) return error;
    throw error;
  }
}

/** A stream; the error where there are no certificates to connect with. */
export function openLine(open: () => Line): Line | RefusedError {
  try {
    return open();
  } catch (error) {
    if (error instanceof RefusedError) return error;
    throw error;
  }
}

/** What a try to resume is answered with. */
export async function readGrant(line: Line): Promise<Grant | Loss | RefusedError> {
  for (;;) {
    const read = await readEvent(line);
    if (read instanceof RefusedError) return read;
    if (read.$case === "granted") return read.value;
    if (read.$case === "lost") return lossOf(read.value);
  }
}

/** A stream ended without an error. */
export function endedWithoutWord(): RefusedError {
  return ownRefusal(status.UNAVAILABLE, "the sidecar ended the stream without a reason");
}
