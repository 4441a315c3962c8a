// The calls as promises and streams, with errors of this client.

import type { ClientReadableStream, MethodDefinition, ServiceError } from "@grpc/grpc-js";
import { status } from "@grpc/grpc-js";

import {
  CALL_TIMEOUT_MS,
  DEFAULT_RELEASE_TIMEOUT_MS,
  SAVE_GRACE_MS,
  SILENCE_MS,
  STREAMS_PER_CONNECTION,
  NEWER_FIELDS,
} from "../constants.js";
import type { ReleaseResult, Validity } from "../../gen/leasehold/v1/hold.js";
import type {
  GetHoldResponse,
  HoldLeaseResponse,
  SaveCheckpointResponse,
} from "../../gen/leasehold/v1/lease_service.js";
import { HoldLeaseRequest, LeaseServiceService, ReleaseLeaseRequest } from "../../gen/leasehold/v1/lease_service.js";
import type { RunOutcome } from "../../gen/leasehold/v1/schedule.js";
import type { Clock } from "../hold/boot-clock.js";
import type { Connections, Place } from "./connections.js";
import { saveFailed } from "../hold/checkpoint.js";
import type { RefusedError } from "../errors/errors.js";
import { ProtocolError } from "../errors/errors.js";
import { ownRefusal } from "../errors/refusal.js";
import { inTrace } from "./trace-context.js";
import { knowing, needs } from "../errors/unsupported.js";

/** No lease lasts longer unless it is renewed. */
const LONGEST_LEASE_MS = 60_000;

/** How long things may take. Tests have limits of their own. */
export interface Limits {
  /** How long a release waits for its answer. */
  readonly releaseMs: number;
  /** A stream that brings nothing for so long is dropped: a sidecar sends a word at least every 30 s. */
  readonly silenceMs: number;
  /** How many lasting calls a connection carries: fewer than a sidecar allows by default, 256. */
  readonly streams: number;
}

/** The limits of a client unless something else is asked for. */
export const LIMITS: Limits = {
  releaseMs: DEFAULT_RELEASE_TIMEOUT_MS,
  silenceMs: SILENCE_MS,
  // Each leaves room for a call about it.
  streams: STREAMS_PER_CONNECTION / 2,
};

/** How a unary call is made. */
export interface UnaryOptions {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
  readonly lasting?: boolean;
  /** Of the hold that it is about. */
  readonly over?: Place | undefined;
}

/** Names a hold in calls of its own. */
export interface HoldId {
  readonly leaseId: string;
  /** The newest that was answered (S16); 0 of a hold that is known by its lease id only. */
  readonly generation: number;
  /** Unless it has no stream. */
  readonly place?: Place;
}

/** What a release carries besides. */
export interface Ending {
  readonly checkpoint?: Buffer;
  readonly outcome?: RunOutcome;
}

/** What a hold needs of its client. */
export class Rpc {
  readonly clock: Clock;
  readonly limits: Limits;
  readonly #connections: Connections;
  /** Those that have not ended. */
  readonly #streams = new Set<Cancellable>();
  /** The releases and completions under way. */
  readonly #endings = new Set<Promise<unknown>>();
  #closed = false;

  constructor(connections: Connections, clock: Clock, limits: Limits) {
    this.#connections = connections;
    this.clock = clock;
    this.limits = limits;
    // So that a sidecar on the same kernel knows that the end of a stream is this process's doing (S14).
    if (clock.bootId !== "") connections.metadata.set("leasehold-boot-id", clock.bootId);
  }

  /** Makes a unary call that is cancelled after `timeoutMs`, or when `signal` aborts. One that waits is `lasting`. */
  async unary<Q, R>(
    method: MethodDefinition<Q, R>,
    request: Q,
    { timeoutMs = CALL_TIMEOUT_MS, signal, lasting = false, over }: UnaryOptions = {},
  ): Promise<R> {
    signal?.throwIfAborted();
    this.#throwIfClosed();
    const metadata = inTrace(this.#connections.metadata);
    const place = lasting ? this.#connections.unaryPlace() : over?.ofCall();
    const channel = place?.channel ?? this.#connections.short;
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
          place?.leave();
          signal?.removeEventListener("abort", abort);
          if (signal?.aborted === true) reject(signal.reason as Error);
          else if (error !== null) reject(this.#connections.failure(channel, error));
          else if (response === undefined) reject(new ProtocolError("a call was answered without a message"));
          else {
            this.#connections.heard();
            resolve(response);
          }
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
    this.#throwIfClosed();
    const metadata = inTrace(this.#connections.metadata);
    const place = this.#connections.place();
    const { channel } = place;
    const { path, requestSerialize, responseDeserialize } = method;
    const call = channel.makeServerStreamRequest(path, requestSerialize, responseDeserialize, request, metadata);
    const stream = new MessageStream<R>(call, place, this.limits.silenceMs, {
      heard: () => {
        this.#connections.heard();
      },
      failure: (error) => {
        const failure = this.#connections.failure(channel, error);
        if (failure.isBelowNeeds) place.retire();
        return failure;
      },
      ended: (ended) => this.#streams.delete(ended),
    });
    this.#streams.add(stream);
    return stream;
  }

  #throwIfClosed(): void {
    if (this.#closed) throw clientClosed();
  }

  /** Waits until a connection stands, for so long at the most. */
  async awaitSidecar(waitMs: number, signal?: AbortSignal): Promise<void> {
    this.#throwIfClosed();
    await this.#connections.awaitSidecar(waitMs, signal);
  }

  /** Opens or resumes a hold. */
  holdLease(start: NonNullable<HoldLeaseRequest["start"]>): MessageStream<HoldLeaseResponse> {
    const needed = needs(HoldLeaseRequest, { start }, NEWER_FIELDS.HoldLeaseRequest);
    return this.stream(LeaseServiceService.holdLease, { start, needs: needed });
  }

  /** A release or a completion, which the end of the client waits for. */
  async ending<T>(ending: Promise<T>): Promise<T> {
    this.#endings.add(ending);
    try {
      return await ending;
    } finally {
      this.#endings.delete(ending);
    }
  }

  /** Releases a lock. */
  async release(hold: HoldId, ending: Ending = {}, timeoutMs = this.limits.releaseMs): Promise<ReleaseResult> {
    const { leaseId, generation } = hold;
    const request = ReleaseLeaseRequest.create({ leaseId, generation, ...ending });
    const { result } = await this.unary(LeaseServiceService.releaseLease, request, {
      timeoutMs,
      over: hold.place,
    });
    if (result === undefined) throw new ProtocolError("a release was answered without a result");
    return result;
  }

  /** Reports progress, and returns the validity. */
  async reportProgress(hold: HoldId): Promise<Validity> {
    const { validity } = await this.unary(LeaseServiceService.reportProgress, hold, { over: hold.place });
    if (validity === undefined) throw new ProtocolError("a report was answered without a validity");
    return validity;
  }

  /** Asks for the state of a hold, which changes nothing. The answer has a validity. */
  async getHold(hold: HoldId, timeoutMs = CALL_TIMEOUT_MS): Promise<GetHoldResponse & { validity: Validity }> {
    const answer = await this.unary(LeaseServiceService.getHold, hold, { timeoutMs, over: hold.place });
    const { validity } = answer;
    if (validity === undefined) throw new ProtocolError("it has no validity of the hold");
    return { ...answer, validity };
  }

  /** Replaces the lock's checkpoint (S24). The sidecar answers when the store does, or when the validity is over (S27). */
  async saveCheckpoint(
    hold: HoldId,
    value: Buffer,
    timeoutMs = LONGEST_LEASE_MS + SAVE_GRACE_MS,
  ): Promise<SaveCheckpointResponse> {
    const options = { timeoutMs, over: hold.place };
    const request = { ...hold, value };
    const saving = knowing("checkpoints", () => this.unary(LeaseServiceService.saveCheckpoint, request, options));
    return await saving.catch(saveFailed);
  }

  /** Whether the client was closed, so that no further call can be made. */
  get isClosed(): boolean {
    return this.#closed;
  }

  /**
   * Ends the connections, and what still waits for an answer by a stream. `abandon` ends the holds before (S13). Releases
   * and completions that are under way have as long as a release may take.
   */
  async close(abandon: () => void): Promise<void> {
    abandon();
    if (this.#endings.size > 0) await within(this.limits.releaseMs, Promise.allSettled(this.#endings));
    // What was granted meanwhile.
    abandon();
    this.#closed = true;
    for (const stream of [...this.#streams]) stream.cancel(clientClosed());
    this.#connections.close();
  }
}

/** Waits for `what`, for so long at the most. */
async function within(ms: number, what: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([what, late]);
  clearTimeout(timer);
}

function clientClosed(): RefusedError {
  return ownRefusal(status.CANCELLED, "the client was closed");
}

type Cancellable = Pick<MessageStream<unknown>, "cancel">;

/** What a stream tells its client. */
interface Ears {
  heard(): void;
  failure(error: ServiceError): RefusedError;
  ended(stream: Cancellable): void;
}

interface Taker<T> {
  readonly resolve: (message: T | undefined) => void;
  readonly reject: (error: Error) => void;
}

/**
 * The messages of a stream, one after the other. Only one may be waited for at a time. One that goes silent ends with an
 * error like a broken one, but its call goes on until {@link MessageStream.cancel}: the end of a hold's stream would be
 * the end of the hold (S14).
 */
export class MessageStream<T> {
  readonly #call: ClientReadableStream<T>;
  readonly #place: Place;
  readonly #messages: T[] = [];
  readonly #silence: NodeJS.Timeout;
  readonly #ears: Ears;
  #taker: Taker<T> | undefined;
  #isSilent = false;
  #isPatient = false;
  /** How the stream ended: well, or with an error. */
  #ended: { readonly error: Error | undefined } | undefined;
  /** Whether the reader has heard of that, and so has all messages. */
  #isRead = false;
  /** Whether its call is over. */
  #isOver = false;

  constructor(call: ClientReadableStream<T>, place: Place, silenceMs: number, ears: Ears) {
    this.#call = call;
    this.#place = place;
    this.#ears = ears;
    this.#silence = setTimeout(() => {
      if (this.#isPatient) return;
      place.retire();
      this.#isSilent = true;
      this.#end(
        ownRefusal(status.UNAVAILABLE, `nothing was heard from the sidecar for ${String(silenceMs / 1_000)} s`),
      );
    }, silenceMs).unref();
    call.on("data", (message: T) => {
      ears.heard();
      if (this.#ended !== undefined) return;
      this.#isPatient = false;
      this.#silence.refresh();
      if (this.#taker === undefined) this.#messages.push(message);
      else this.#take().resolve(message);
    });
    // An error is told at once, but messages before it may still be on their way: `end` comes after them.
    let failure: Error | undefined;
    call.on("error", (error: ServiceError) => {
      failure = ears.failure(error);
    });
    call.on("end", () => {
      this.#isOver = true;
      this.#end(failure);
      this.#leaveIfRead();
    });
  }

  /** Where it is. */
  get place(): Place {
    return this.#place;
  }

  /** Whether it ended because nothing was heard for too long. */
  get isSilent(): boolean {
    return this.#isSilent;
  }

  /** The next message; `undefined` when the sidecar has ended the stream. */
  async next(): Promise<T | undefined> {
    const message = this.#messages.shift();
    if (message !== undefined) return message;
    if (this.#ended !== undefined) {
      this.#isRead = true;
      this.#leaveIfRead();
      if (this.#ended.error !== undefined) throw this.#ended.error;
      return undefined;
    }
    return await new Promise<T | undefined>((resolve, reject) => {
      this.#taker = { resolve, reject };
    });
  }

  /** The first message may take as long as it likes: a try to resume is never cut short (S14). */
  waitPatiently(): void {
    this.#isPatient = true;
  }

  /** Whoever waits for a message is told that there is none: the stream goes on for somebody else. */
  handOver(): void {
    if (this.#taker !== undefined) this.#take().resolve(undefined);
  }

  /** Puts a message back that was for somebody else. */
  putBack(message: T): void {
    if (this.#taker === undefined) this.#messages.unshift(message);
    else this.#take().resolve(message);
  }

  /** Ends the stream from here; what waits for a message gets `reason`, or is told that there is none. */
  cancel(reason?: Error): void {
    this.#messages.length = 0;
    this.#end(reason);
    this.#leave();
    this.#call.cancel();
  }

  #take(): Taker<T> {
    const taker = this.#taker;
    if (taker === undefined) throw new Error("nobody waits for a message");
    this.#taker = undefined;
    return taker;
  }

  /** A message that was not read may be of a hold, which takes a place here when it is. */
  #leaveIfRead(): void {
    if (this.#isOver && this.#isRead) this.#leave();
  }

  #leave(): void {
    this.#place.leave();
    this.#ears.ended(this);
  }

  #end(error: Error | undefined): void {
    if (this.#ended !== undefined) return;
    this.#ended = { error };
    clearTimeout(this.#silence);
    if (this.#taker === undefined) return;
    this.#isRead = true;
    const { resolve, reject } = this.#take();
    if (error === undefined) resolve(undefined);
    else reject(error);
  }
}
