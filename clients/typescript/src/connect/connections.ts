// The connections of a client: as many as its lasting calls need, and one for those that must go through at once.

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
  /** For short calls about what this one carries: they go where it is, and its sidecar with it. */
  readonly short: Channel;
  /** The call is over. May be repeated. */
  leave(): void;
  /** Lets no more calls onto this connection: it has gone silent. */
  retire(): void;
  /** Its sidecar is too old for this call: new connections may meet another one (S37). */
  leaveSidecar(): void;
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

  /** Made with the way for short calls about what it carries, unless it is one. */
  constructor(
    dialer: Dialer,
    readonly short?: Way,
  ) {
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

  /** Whether a call has gone over it. */
  get isUsed(): boolean {
    return this.#used;
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
  /** For what no other connection carries. */
  #short: Way;

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
    this.#short = new Way(dialer);
    this.#lasting.add(new Way(dialer, this.#short));
  }

  /** Waits until a connection stands, for so long at the most. Whether one does, the next call tells. */
  async awaitSidecar(waitMs: number, signal?: AbortSignal): Promise<void> {
    const end = performance.now() + waitMs;
    for (;;) {
      signal?.throwIfAborted();
      const left = Math.min(end - performance.now(), LOOK_MS);
      if (left <= 0) return;
      const place = this.place();
      const isThere = await new Promise<boolean>((resolve) => {
        place.channel.waitForReady(Date.now() + left, (error) => {
          resolve(error === undefined);
        });
      });
      place.leave();
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

  /** For calls that must go through at once, releases above all: they never wait behind those that last. */
  get short(): Channel {
    return this.#short.channel;
  }

  /** A place for a call that lasts as long as a hold, a wait or a watch. */
  place(): Place {
    let way = [...this.#lasting].find(({ calls, retired }) => !retired && calls < this.#streams);
    if (way === undefined) {
      way = this.#fresh(this.#short);
      this.#lasting.add(way);
    }
    return this.#placeOn(way);
  }

  #fresh(short?: Way): Way {
    return new Way({ ...this.#dialer, dial: () => dialNow(this.#dialer) }, short);
  }

  #placeOn(way: Way): Place {
    const { channel } = way;
    const shortOf = ({ short }: Way): Way => (short === undefined || short.isClosed ? this.#short : short);
    way.calls += 1;
    let left = false;
    return {
      channel,
      get short(): Channel {
        return shortOf(way).channel;
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
      leaveSidecar: (): void => {
        way.retired = true;
        // One that was never used meets whichever sidecar is there then.
        if (way.short === this.#short && this.#short.isUsed) this.#short = this.#fresh();
      },
    };
  }

  #closeSuperfluous(way: Way): void {
    const replaceable = way.retired || [...this.#lasting].some((other) => other !== way && !other.retired);
    if (way.calls > 0 || !replaceable) return;
    this.#lasting.delete(way);
    way.close();
    const { short } = way;
    if (short !== this.#short && ![...this.#lasting].some((other) => other.short === short)) short?.close();
  }

  close(): void {
    for (const way of this.#lasting) {
      way.close();
      way.short?.close();
    }
    this.#short.close();
  }
}

/** What happened, for people; `isNew` of an encrypted connection over which nobody has answered yet. */
function problemOf(details: string, isNew: boolean): string {
  if (isNew && /Failed to connect|ECONNRESET|Connection dropped/.test(details)) return CUT_OFF;
  return details.replace(/\.? Resolution note: $/, "").replaceAll(/\s+/g, " ");
}
