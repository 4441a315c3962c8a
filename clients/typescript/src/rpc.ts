// The calls as promises and streams, with errors of this client.

import type { ClientReadableStream, MethodDefinition, ServiceError } from "@grpc/grpc-js";
import { status } from "@grpc/grpc-js";

import type { ReleaseResult, Validity } from "../gen/leasehold/v1/hold.js";
import type { HoldLeaseRequest, HoldLeaseResponse } from "../gen/leasehold/v1/lease_service.js";
import { LeaseServiceService } from "../gen/leasehold/v1/lease_service.js";
import type { Clock } from "./boot-clock.js";
import type { Connection } from "./endpoint.js";
import { ProtocolError } from "./errors.js";
import { ownRefusal, refused } from "./refusal.js";

/** A call that asks no holder and waits for nothing is given up after this. */
export const CALL_TIMEOUT_MS = 30_000;
/** A release may wait until the lease can no longer be valid (S13), at most one lease duration. */
const RELEASE_TIMEOUT_MS = 90_000;

interface UnaryOptions {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
  readonly lasting?: boolean;
}

/** Names a hold in calls of its own. */
export interface HoldId {
  readonly leaseId: string;
  /** The newest that was answered (S16); 0 of a hold that is known by its lease id only. */
  readonly generation: number;
}

/** What a hold needs of its client. */
export class Rpc {
  readonly clock: Clock;
  readonly #connection: Connection;
  /** Those that have not ended. */
  readonly #streams = new Set<Cancellable>();

  constructor(connection: Connection, clock: Clock) {
    this.#connection = connection;
    this.clock = clock;
    // So that a sidecar on the same kernel knows that the end of a stream is this process's doing (S14).
    if (clock.bootId !== "") connection.metadata.set("leasehold-boot-id", clock.bootId);
  }

  /** Makes a unary call that is given up after `timeoutMs`, or when `signal` aborts. One that waits is `lasting`. */
  async unary<Q, R>(
    method: MethodDefinition<Q, R>,
    request: Q,
    { timeoutMs = CALL_TIMEOUT_MS, signal, lasting = false }: UnaryOptions = {},
  ): Promise<R> {
    signal?.throwIfAborted();
    const { metadata } = this.#connection;
    const channel = lasting ? this.#connection.lasting : this.#connection.short;
    return await new Promise<R>((resolve, reject) => {
      const options = { deadline: Date.now() + timeoutMs };
      const { path, requestSerialize, responseDeserialize } = method;
      const call = channel.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        metadata,
        options,
        (error, response) => {
          signal?.removeEventListener("abort", abort);
          if (signal?.aborted === true) reject(signal.reason as Error);
          else if (error !== null) reject(refused(error));
          else if (response === undefined) reject(new ProtocolError("a call was answered without a message"));
          else resolve(response);
        },
      );
      const abort = (): void => {
        call.cancel();
      };
      signal?.addEventListener("abort", abort);
    });
  }

  /** Starts a call that is answered by a stream, without a deadline. */
  stream<Q, R>(method: MethodDefinition<Q, R>, request: Q): MessageStream<R> {
    const { lasting, metadata } = this.#connection;
    const { path, requestSerialize, responseDeserialize } = method;
    const call = lasting.makeServerStreamRequest(path, requestSerialize, responseDeserialize, request, metadata);
    const stream = new MessageStream<R>(call, (ended) => this.#streams.delete(ended));
    this.#streams.add(stream);
    return stream;
  }

  /** Opens or resumes a hold. */
  holdLease(start: NonNullable<HoldLeaseRequest["start"]>): MessageStream<HoldLeaseResponse> {
    return this.stream(LeaseServiceService.holdLease, { start });
  }

  /** Releases a lock. */
  async release(hold: HoldId): Promise<ReleaseResult> {
    const options = { timeoutMs: RELEASE_TIMEOUT_MS };
    const { result } = await this.unary(LeaseServiceService.releaseLease, hold, options);
    if (result === undefined) throw new ProtocolError("a release was answered without a result");
    return result;
  }

  /** Reports progress, or only asks for the validity. */
  async reportProgress(hold: HoldId, validityOnly: boolean, timeoutMs = CALL_TIMEOUT_MS): Promise<Validity> {
    const request = { ...hold, validityOnly };
    const { validity } = await this.unary(LeaseServiceService.reportProgress, request, { timeoutMs });
    if (validity === undefined) throw new ProtocolError("a report was answered without a validity");
    return validity;
  }

  /** Ends the connections, and what still waits for an answer by a stream. Holds have ended before (S13). */
  close(): void {
    const closed = ownRefusal(status.CANCELLED, "the client was closed");
    for (const stream of [...this.#streams]) stream.cancel(closed);
    this.#connection.lasting.close();
    this.#connection.short.close();
  }
}

type Cancellable = Pick<MessageStream<unknown>, "cancel">;

interface Taker<T> {
  readonly resolve: (message: T | undefined) => void;
  readonly reject: (error: Error) => void;
}

/** The messages of a stream, one after the other. Only one may be waited for at a time. */
export class MessageStream<T> {
  readonly #call: ClientReadableStream<T>;
  readonly #messages: T[] = [];
  #taker: Taker<T> | undefined;
  /** How the stream ended: well, or with an error. */
  #ended: { readonly error: Error | undefined } | undefined;

  readonly #onEnd: (stream: Cancellable) => void;

  constructor(call: ClientReadableStream<T>, onEnd: (stream: Cancellable) => void) {
    this.#call = call;
    this.#onEnd = onEnd;
    call.on("data", (message: T) => {
      if (this.#ended !== undefined) return;
      if (this.#taker === undefined) this.#messages.push(message);
      else this.#take().resolve(message);
    });
    // An error is told at once, but messages before it may still be on their way: `end` comes after them.
    let failure: Error | undefined;
    call.on("error", (error: ServiceError) => {
      failure = refused(error);
    });
    call.on("end", () => {
      this.#end(failure);
    });
  }

  /** The next message; `undefined` when the sidecar has ended the stream. */
  async next(): Promise<T | undefined> {
    const message = this.#messages.shift();
    if (message !== undefined) return message;
    if (this.#ended !== undefined) {
      if (this.#ended.error !== undefined) throw this.#ended.error;
      return undefined;
    }
    return await new Promise<T | undefined>((resolve, reject) => {
      this.#taker = { resolve, reject };
    });
  }

  /** Ends the stream from here; what waits for a message gets `reason`, or is told that there is none. */
  cancel(reason?: Error): void {
    this.#messages.length = 0;
    this.#end(reason);
    this.#call.cancel();
  }

  #take(): Taker<T> {
    const taker = this.#taker;
    if (taker === undefined) throw new Error("nobody waits for a message");
    this.#taker = undefined;
    return taker;
  }

  #end(error: Error | undefined): void {
    if (this.#ended !== undefined) return;
    this.#ended = { error };
    this.#onEnd(this);
    if (this.#taker === undefined) return;
    const { resolve, reject } = this.#take();
    if (error === undefined) resolve(undefined);
    else reject(error);
  }
}
