// For vectors.test.ts: a sidecar in the place of the connections. Nothing goes over a socket.

import { EventEmitter } from "node:events";

import type { Client as Channel } from "@grpc/grpc-js";
import { Metadata, connectivityState, status } from "@grpc/grpc-js";

import { milliseconds } from "../src/duration.js";
import type { Dialer } from "../src/connect/endpoint.js";
import { LeaseSpec } from "../src/proto.js";
import type { HoldLeaseRequest, Resume, SubscribeScheduleRequest } from "../src/proto.js";
import type { Refusing, Said } from "./vectors-messages.js";
import { Messages, errorOf } from "./vectors-messages.js";
import { refusal } from "./tools.js";

/** A HoldLease call, or a SubscribeSchedule call, as the client has it. */
class Stream extends EventEmitter {
  /** What its messages are. */
  readonly type: string;
  readonly #onCancelled: () => void;
  isOpen = true;
  isGranted = false;
  isTooOld = false;

  constructor(path: string, onCancelled: () => void) {
    super();
    this.type = path.replace(/.*\/(.*)/, "$1Response");
    this.#onCancelled = onCancelled;
  }

  /** Called by the client. */
  cancel(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.#onCancelled();
    process.nextTick(() => {
      this.emit("error", refusal(status.CANCELLED, "cancelled"));
      this.emit("end");
    });
  }

  /** The sidecar ends it. */
  end(refusing: Refusing): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.isTooOld = refusing.needs !== undefined;
    if (refusing.code !== undefined) this.emit("error", errorOf(refusing));
    this.emit("end");
  }
}

type Callback = (error: unknown, response?: unknown) => void;
type Opened = HoldLeaseRequest | SubscribeScheduleRequest;

/** The request of any call of a holder's. */
interface Asked {
  generation: number;
  maxHold?: { seconds: number; nanos: number };
  value?: Uint8Array;
  outcome?: string;
}

/** The name that a vector has for a call. */
function nameOf(path: string): string {
  const words = path.replace(/.*\//, "").match(/[A-Z][a-z]*/g) ?? [];
  return words.join("_").toLowerCase().replace("release_lease", "release");
}

/** Does what a vector says, and remembers what it was sent. */
export class VectorSidecar {
  readonly #messages: Messages;
  readonly #isValid: () => boolean;
  readonly #streams: Stream[] = [];
  readonly #calls = new Set<{ name: string; answer: Callback }>();
  readonly #prepared = new Map<string, Parameters<Callback>>();
  readonly #attempts: string[] = [];
  #sent: string[] = [];
  #faults: string[] = [];

  constructor(kernel: string, isValid: () => boolean) {
    this.#messages = new Messages(kernel);
    this.#isValid = isValid;
  }

  /** Dials this. */
  get dialer(): Dialer {
    const dial = (): Channel => this.#connection() as unknown as Channel;
    return { shown: "vectors", secure: false, reloads: false, dial, metadata: new Metadata(), channelOptions: {} };
  }

  #connection(): object {
    let last: Stream | undefined;
    return {
      makeServerStreamRequest: (path: string, _to: unknown, _from: unknown, request: Opened) => {
        // It is silent, or has met a sidecar that is too old.
        if (last?.isOpen === true || last?.isTooOld === true) this.#faults.push("S37: the connection was left");
        last = this.#open(path, request);
        return last;
      },
      makeUnaryRequest: (path: string, _to: unknown, _from: unknown, request: Asked, ...more: unknown[]) =>
        this.#call(path, request, more.at(-1) as Callback, more.at(-2) as { deadline: number }),
      getChannel: () => ({ getConnectivityState: () => connectivityState.READY }),
      close: () => undefined,
    };
  }

  #open(path: string, request: Opened): Stream {
    if (request.needs !== 1) this.#faults.push("S37: a request does not need revision 1");
    this.#sent.push(this.#inWords(request));
    const number = this.#streams.length;
    const stream = new Stream(path, () => {
      const isReplaced = this.#streams.slice(number + 1).some(({ isGranted }) => isGranted);
      if (!isReplaced && this.#isValid()) this.#faults.push("S14: a stream was ended while the hold was valid");
    });
    this.#streams.push(stream);
    return stream;
  }

  /** What was asked for. */
  #inWords(request: Opened): string {
    if ("reconnected" in request) {
      const { reconnected, resume } = request;
      return sentence("subscribe", reconnected && "reconnected", resume !== undefined && this.#resume(resume));
    }
    if (request.start?.$case === "resume") return this.#resume(request.start.value);
    const { permits = 1, priority, yields, share, ...spec } = request.start?.value ?? LeaseSpec.create();
    const wait = milliseconds(spec.wait);
    const first = sentence("hold", wait > 0 && `wait ${String(wait)}`, permits > 1 && `permits ${String(permits)}`);
    const more = [priority > 0 && `priority ${String(priority)}`, yields && "yields"];
    return sentence(first, ...more, share !== "" && `share ${share}`);
  }

  #resume({ resumeToken, toldValidUntil, attemptId }: Resume): string {
    const told = toldValidUntil?.sinceBoot;
    const until = told === undefined ? "" : ` told ${String(milliseconds(told) - this.#messages.base)}`;
    if (!this.#attempts.includes(attemptId)) this.#attempts.push(attemptId);
    return `resume ${resumeToken}${until} attempt ${String(this.#attempts.indexOf(attemptId) + 1)}`;
  }

  #call(path: string, request: Asked, callback: Callback, { deadline }: { deadline: number }): unknown {
    const name = nameOf(path);
    const isEnd = name === "release" || name === "complete_run";
    if (isEnd && this.#isValid()) this.#faults.push("S13: the hold is valid when its release is sent");
    let said = `${name} ${String(request.generation)}`;
    if (name === "extend_lease") said += ` ${String(milliseconds(request.maxHold))}`;
    if (name === "save_checkpoint") said += ` ${Buffer.from(request.value ?? []).toString()}`;
    if (name === "complete_run") said += ` ${String(request.outcome).replace("RUN_OUTCOME_", "")}`;
    this.#sent.push(said);
    const answer: Callback = (...given) => {
      clearTimeout(timer);
      this.#calls.delete(call);
      callback(...given);
    };
    const timer = setTimeout(answer, deadline - Date.now(), refusal(status.DEADLINE_EXCEEDED, "nobody answers"));
    const call = { name, answer };
    this.#calls.add(call);
    const prepared = this.#prepared.get(name);
    this.#prepared.delete(name);
    if (prepared !== undefined) answer(...prepared);
    return { cancel: () => undefined };
  }

  answer(name: string, said: Said): void {
    this.#give(name, null, this.#messages.answer(name, said));
  }

  refuse(name: string, refusing: Refusing): void {
    this.#give(name, errorOf(refusing));
  }

  /** Answers the oldest call of this name; where there is none, the next one. */
  #give(name: string, ...given: Parameters<Callback>): void {
    const call = [...this.#calls].find((it) => it.name === name);
    if (call === undefined) this.#prepared.set(name, given);
    else call.answer(...given);
  }

  /** A stream by its number, and the newest without one. */
  #on(number = this.#streams.length): Stream {
    const stream = this.#streams[number - 1];
    if (stream === undefined) throw new Error(`there is no stream ${String(number)}`);
    return stream;
  }

  tell(number: number | undefined, events: Record<string, Said>): void {
    const stream = this.#on(number);
    for (const [name, said] of Object.entries(events)) {
      stream.isGranted ||= name === "granted" || name === "run";
      const message = this.#messages.event(stream.type, name, said);
      if (stream.isOpen) stream.emit("data", message);
    }
  }

  break(number: number | undefined, refusing: Refusing): void {
    this.#on(number).end(refusing);
  }

  /** What was sent since this was asked last, and what must never be. */
  taken(): { sent: string[]; faults: string[] } {
    const taken = { sent: this.#sent, faults: this.#faults };
    this.#sent = [];
    this.#faults = [];
    return taken;
  }

  /** The numbers of the streams that live. */
  get open(): number[] {
    return this.#streams.flatMap(({ isOpen }, index) => (isOpen ? [index + 1] : []));
  }
}

/** Those of the words that are there. */
function sentence(...words: (string | false)[]): string {
  return words.filter((word) => word !== false).join(" ");
}
