// The connections of a client: as many as its streams need, for calls about those, too, and one for all other calls.

import type { Client as Channel, Metadata, ServiceError } from "@grpc/grpc-js";
import { connectivityState, status } from "@grpc/grpc-js";

import type { Dialer } from "./endpoint.js";
import type { RefusedError } from "../errors/errors.js";
import { EndpointError, UnreachableError } from "../errors/errors.js";
import { Reason } from "../errors/reason.js";
import { ownRefusal, refused } from "../errors/refusal.js";

/** How often a wait for a connection looks whether somebody still waits. */
const LOOK_MS = 1_000;

/** A handshake of TLS 1.3 is over before the sidecar has seen our certificate, and Node.js may not tell its alert. */
const CUT_OFF =
  "it closed the connection after the TLS handshake, as a sidecar does that wants a client certificate that it trusts";

/**
 * A place on a connection, which stays open for it: of a lasting call; or of a hold, and of each call about it, which go to
 * the sidecar of its stream as no other one knows it. These take no room of a lasting call.
 */
export class Place {
  readonly #calls: 0 | 1;
  #way: Way;
  #isLeft = false;

  constructor(
    way: Way,
    /** For the call that it was taken for. */
    readonly channel: Channel,
    calls: 0 | 1,
  ) {
    this.#way = way;
    this.#calls = calls;
    way.enter(calls);
  }

  /**
   * Another one where the hold is now, for a call about it: the hold may move, or be over, before that has gone out.
   *
   * @throws RefusedError when the place was left, because the hold is over; as {@link Way.channel}.
   */
  ofCall(): Place {
    if (!this.#isLeft) return new Place(this.#way, this.#way.channel, 0);
    throw ownRefusal(status.FAILED_PRECONDITION, "the hold is over", { reason: Reason.HOLD_RELEASED });
  }

  /** Another one there, for the hold whose stream this one is of. */
  ofHold(): Place {
    return new Place(this.#way, this.channel, 0);
  }

  /** Goes where that other place is: the hold was resumed there. One that was left stays so. */
  moveTo(other: Place): void {
    if (this.#isLeft) return;
    const before = this.#way;
    this.#way = other.#way;
    this.#way.enter(this.#calls);
    before.leave(this.#calls);
  }

  /** The call, or the hold, is over. May be repeated. */
  leave(): void {
    if (this.#isLeft) return;
    this.#isLeft = true;
    this.#way.leave(this.#calls);
  }

  /** Lets no more lasting calls onto its connection: it is silent, or its sidecar too old for this one (S37). */
  retire(): void {
    this.#way.isRetired = true;
  }
}

/** One way to a sidecar. Its channel is made anew when its connection was lost and certificates may have changed. */
class Way {
  isRetired = false;
  /** How many lasting calls it carries. */
  calls = 0;
  readonly #dialer: Dialer;
  readonly #onEmpty: () => void;
  #places = 0;
  #channel: Channel;
  #used = false;
  /** Replaced, perhaps with a call that is about to start on it. */
  #before: Channel | undefined;

  /** Calls `onEmpty` each time that the last place is left. */
  constructor(dialer: Dialer, onEmpty: () => void = () => undefined) {
    this.#dialer = dialer;
    this.#onEmpty = onEmpty;
    this.#channel = dialer.dial();
  }

  enter(calls: 0 | 1): void {
    this.#places += 1;
    this.calls += calls;
  }

  leave(calls: 0 | 1): void {
    this.#places -= 1;
    this.calls -= calls;
    if (this.#places === 0) this.#onEmpty();
  }

  /** @throws RefusedError when there are no certificates to connect with. */
  get channel(): Channel {
    const state = this.#channel.getChannel().getConnectivityState(false);
    const lost = state === connectivityState.IDLE || state === connectivityState.TRANSIENT_FAILURE;
    if (this.#dialer.reloads && this.#used && lost) this.#replace();
    this.#used = true;
    return this.#channel;
  }

  #replace(): void {
    const fresh = dialNow(this.#dialer);
    this.#before?.close();
    this.#before = this.#channel;
    this.#channel = fresh;
  }

  close(): void {
    this.#before?.close();
    this.#channel.close();
  }
}

function dialNow({ dial }: Dialer): Channel {
  try {
    return dial();
  } catch (error) {
    if (!(error instanceof EndpointError)) throw error;
    throw ownRefusal(status.UNAVAILABLE, error.message);
  }
}

/** The connections of a client. A sidecar's `limits.streams_per_connection` is 256 by default. */
export class Connections {
  readonly metadata: Metadata;
  readonly #dialer: Dialer;
  readonly #streams: number;
  readonly #lasting = new Set<Way>();
  readonly #short: Way;

  #isHeard = false;

  /**
   * Connects to nothing yet. A connection carries at most `streams` lasting calls.
   *
   * @throws EndpointError when the certificates cannot be used.
   */
  constructor(dialer: Dialer, streams: number) {
    this.metadata = dialer.metadata;
    this.#dialer = dialer;
    this.#streams = streams;
    this.#add(dialer);
    this.#short = new Way(dialer);
  }

  /** Waits until a connection stands, for so long at the most. Whether one does, the next call tells. */
  async awaitSidecar(waitMs: number, signal?: AbortSignal): Promise<void> {
    const end = performance.now() + waitMs;
    for (;;) {
      signal?.throwIfAborted();
      const left = Math.min(end - performance.now(), LOOK_MS);
      if (left <= 0) return;
      const isThere = await new Promise<boolean>((resolve) => {
        this.short.waitForReady(Date.now() + left, (error) => {
          resolve(error === undefined);
        });
      });
      if (isThere) return;
    }
  }

  /** A sidecar has answered. */
  heard(): void {
    this.#isHeard = true;
  }

  /** What a call over `channel` failed with; where no sidecar is, it says where that was looked for. */
  failure(channel: Channel, error: ServiceError): RefusedError {
    const refusal = refused(error);
    if (refusal.code !== status.UNAVAILABLE || refusal.reason !== undefined) return refusal;
    const { secure, shown } = this.#dialer;
    // What is encrypted may break only after the handshake, when the sidecar has seen the certificate.
    const isNew = secure && !this.#isHeard;
    const isFailed = channel.getChannel().getConnectivityState(false) === connectivityState.TRANSIENT_FAILURE;
    if (!isFailed && !isNew) return refusal;
    return new UnreachableError(shown, problemOf(refusal.details, isNew), refusal, { cause: error });
  }

  /** For calls about no stream. It never moves: a lease id means something to one sidecar alone. */
  get short(): Channel {
    return this.#short.channel;
  }

  /** A place for a call that lasts as long as a hold, a wait or a watch. */
  place(): Place {
    const isFree = ({ calls, isRetired }: Way): boolean => !isRetired && calls < this.#streams;
    return placeOn(
      [...this.#lasting].find(isFree) ?? this.#add({ ...this.#dialer, dial: () => dialNow(this.#dialer) }),
    );
  }

  /** A place for a unary call that waits: where its lease id is known after it, as long as short calls have room. */
  unaryPlace(): Place {
    return this.#short.calls < this.#streams ? placeOn(this.#short) : this.place();
  }

  #add(dialer: Dialer): Way {
    const way = new Way(dialer, () => {
      const isSpare = way.isRetired || [...this.#lasting].some((other) => other !== way && !other.isRetired);
      if (isSpare && this.#lasting.delete(way)) way.close();
    });
    this.#lasting.add(way);
    return way;
  }

  close(): void {
    for (const way of this.#lasting) way.close();
    // What is left later closes nothing again.
    this.#lasting.clear();
    this.#short.close();
  }
}

/** @throws RefusedError as {@link Way.channel}. */
function placeOn(way: Way): Place {
  return new Place(way, way.channel, 1);
}

/** What happened, for people; `isNew` of an encrypted connection over which nobody has answered yet. */
function problemOf(details: string, isNew: boolean): string {
  if (isNew && /Failed to connect|ECONNRESET|Connection dropped/.test(details)) return CUT_OFF;
  return details.replace(/\.? Resolution note: $/, "").replaceAll(/\s+/g, " ");
}
