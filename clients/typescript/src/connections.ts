// The connections of a client: as many as its lasting calls need, and one for those that must go through at once.

import type { Client as Channel, Metadata } from "@grpc/grpc-js";
import { connectivityState, status } from "@grpc/grpc-js";

import { LeaseServiceService } from "../gen/leasehold/v1/lease_service.js";
import type { Dialer } from "./endpoint.js";
import { EndpointError, UnreachableError } from "./errors.js";
import { ownRefusal, refused } from "./refusal.js";

const CONNECT_TIMEOUT_MS = 5_000;

/** A handshake of TLS 1.3 is over before the sidecar has seen our certificate, and Node.js may not tell its alert. */
const CUT_OFF =
  "it closed the connection after the TLS handshake, as a sidecar does that wants a client certificate that it trusts";

/** The place of one lasting call. */
export interface Place {
  readonly channel: Channel;
  /** The call is over. May be repeated. */
  leave(): void;
  /** Lets no more calls onto this connection: it has gone silent. */
  retire(): void;
}

/** One way to a sidecar. Its channel is made anew when its connection was lost and certificates may have changed. */
class Way {
  calls = 0;
  retired = false;
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

  private constructor(dialer: Dialer, streams: number) {
    this.metadata = dialer.metadata;
    this.#dialer = dialer;
    this.#streams = streams;
    this.#lasting.add(new Way(dialer));
    this.#short = new Way(dialer);
  }

  /**
   * Connects, and gives up after 5 s. A connection carries at most `streams` lasting calls.
   *
   * @throws UnreachableError when no sidecar answers.
   */
  static async connect(dialer: Dialer, streams: number): Promise<Connections> {
    const connections = new Connections(dialer, streams);
    const place = connections.place();
    const problem = await becomeReady(place.channel, dialer);
    place.leave();
    if (problem === undefined) return connections;
    connections.close();
    throw new UnreachableError(dialer.shown, problem);
  }

  /** For calls that must go through at once, releases above all: they never wait behind those that last. */
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

  #placeOn(way: Way): Place {
    const { channel } = way;
    way.calls += 1;
    let left = false;
    return {
      channel,
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
    if (way.calls > 0 || !replaceable) return;
    this.#lasting.delete(way);
    way.close();
  }

  close(): void {
    for (const way of this.#lasting) way.close();
    this.#short.close();
  }
}

/** The problem that prevents a connection; `undefined` once there is one. */
async function becomeReady(channel: Channel, { secure, metadata }: Dialer): Promise<string | undefined> {
  const deadline = new Date(Date.now() + CONNECT_TIMEOUT_MS);
  for (;;) {
    const state = channel.getChannel().getConnectivityState(true);
    // What is encrypted may break only after the handshake, when the sidecar has seen the certificate.
    if (state === connectivityState.READY && !secure) return undefined;
    if (state === connectivityState.READY || state === connectivityState.TRANSIENT_FAILURE) {
      const problem = await problemOf(channel, metadata, deadline);
      return secure && problem !== undefined && /Failed to connect|ECONNRESET/.test(problem) ? CUT_OFF : problem;
    }
    const changed = await new Promise<boolean>((resolve) => {
      channel.getChannel().watchConnectivityState(state, deadline, (late) => {
        resolve(late === undefined);
      });
    });
    if (!changed) return `no connection within ${String(CONNECT_TIMEOUT_MS / 1_000)} s`;
  }
}

/** Only a call is told why there is no connection: any will do. */
async function problemOf(channel: Channel, metadata: Metadata, deadline: Date): Promise<string | undefined> {
  const { path, requestSerialize, responseDeserialize } = LeaseServiceService.resolvePath;
  return await new Promise<string | undefined>((resolve) => {
    const request = { key: undefined };
    channel.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, metadata, { deadline }, (error) => {
      if (error === null) {
        resolve(undefined);
        return;
      }
      const { code, details, reason } = refused(error);
      const unheard = code === status.UNAVAILABLE || code === status.DEADLINE_EXCEEDED;
      // Anything else was said by somebody who is there.
      if (!unheard || reason !== undefined) resolve(undefined);
      else resolve(details.replace(/\.? Resolution note: $/, "").replaceAll(/\s+/g, " "));
    });
  });
}
