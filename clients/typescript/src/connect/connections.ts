// The connections of a client: as many as its streams need, for calls about those, too, and one for all other calls.

import type { Client as Channel, Metadata, ServiceError } from "@grpc/grpc-js";
import { connectivityState, status } from "@grpc/grpc-js";

import type { Dialer } from "./endpoint.js";
import type { RefusedError } from "../errors/errors.js";
import { EndpointError, UnreachableError } from "../errors/errors.js";
import { ownRefusal, refused } from "../errors/refusal.js";

/** How often a wait for a connection looks whether somebody still waits. */
const LOOK_MS = 1_000;

/** A handshake of TLS 1.3 is over before the sidecar has seen our certificate, and Node.js may not tell its alert. */
const CUT_OFF =
  "it closed the connection after the TLS handshake, as a sidecar does that wants a client certificate that it trusts";

/** The place of one lasting call. */
export interface Place {
  readonly channel: Channel;
  /** As it is now, for calls about what this one brings; once it is closed, the connection for short calls. */
  readonly current: Channel;
  /** The call is over. May be repeated. */
  leave(): void;
  /** Lets no more lasting calls onto its connection: it is silent, or its sidecar too old for this one (S37). */
  retire(): void;
}

/** One way to a sidecar. Its channel is made anew when its connection was lost and certificates may have changed. */
class Way {
  calls = 0;
  retired = false;
  isClosed = false;
  readonly #dialer: Dialer;
  #channel: Channel;
  #used = false;
  /** Replaced, perhaps with a call that is about to start on it. */
  #before: Channel | undefined;

  constructor(dialer: Dialer) {
    this.#dialer = dialer;
    this.#channel = dialer.dial();
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
    this.isClosed = true;
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
    this.#lasting.add(new Way(dialer));
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

  /** For calls that are about no stream. It never moves: a lease id means something to one sidecar alone. */
  get short(): Channel {
    return this.#short.channel;
  }

  /** A place for a call that lasts as long as a hold, a wait or a watch. */
  place(): Place {
    let way = [...this.#lasting].find(({ calls, retired }) => !retired && calls < this.#streams);
    if (way === undefined) {
      way = new Way({ ...this.#dialer, dial: () => dialNow(this.#dialer) });
      this.#lasting.add(way);
    }
    return this.#placeOn(way);
  }

  /** A place for a unary call that waits: where its lease id is known after it, as long as short calls have room. */
  unaryPlace(): Place {
    return this.#short.calls < this.#streams ? this.#placeOn(this.#short) : this.place();
  }

  #placeOn(way: Way): Place {
    const { channel } = way;
    const currentOf = ({ isClosed }: Way): Way => (isClosed ? this.#short : way);
    way.calls += 1;
    let left = false;
    return {
      channel,
      get current(): Channel {
        return currentOf(way).channel;
      },
      leave: (): void => {
        if (left) return;
        left = true;
        way.calls -= 1;
        this.#closeSuperfluous(way);
      },
      retire: (): void => {
        way.retired = true;
      },
    };
  }

  #closeSuperfluous(way: Way): void {
    const replaceable = way.retired || [...this.#lasting].some((other) => other !== way && !other.retired);
    if (way.calls > 0 || !replaceable || !this.#lasting.delete(way)) return;
    way.close();
  }

  close(): void {
    for (const way of this.#lasting) way.close();
    this.#short.close();
  }
}

/** What happened, for people; `isNew` of an encrypted connection over which nobody has answered yet. */
function problemOf(details: string, isNew: boolean): string {
  if (isNew && /Failed to connect|ECONNRESET|Connection dropped/.test(details)) return CUT_OFF;
  return details.replace(/\.? Resolution note: $/, "").replaceAll(/\s+/g, " ");
}
