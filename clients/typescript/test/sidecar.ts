// For tests: a sidecar in the place of the connections, which does what a test says. Nothing goes over a socket.

import assert from "node:assert/strict";
import { EventEmitter } from "node:events";

import type { Client as Channel } from "@grpc/grpc-js";
import { Metadata, connectivityState, status } from "@grpc/grpc-js";

import { milliseconds } from "../src/duration.js";
import type { Dialer } from "../src/connect/endpoint.js";
import { LeaseSpec } from "../src/proto.js";
import type { HoldLeaseRequest, Resume, SubscribeScheduleRequest } from "../src/proto.js";
import type { Refused, Refusing, Said } from "./messages.js";
import { Messages, errorOf, message, refusal, responseTo } from "./messages.js";

/** What the client has sent, over which connection. */
interface Heard {
  /** The name of its method. */
  readonly method: string;
  readonly request: object;
  readonly metadata: Metadata;
  readonly by: number;
}

/** A call that is answered by a stream, as the client has it. */
export class Stream extends EventEmitter {
  readonly heard: Heard;
  readonly #onCancelled: () => void;
  isOpen = true;
  isGranted = false;
  isTooOld = false;

  constructor(heard: Heard, onCancelled: () => void) {
    super();
    this.heard = heard;
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

  /** The sidecar says a message. */
  say(said: object): void {
    if (this.isOpen) this.emit("data", message(`${this.heard.method}Response`, said));
  }

  /** The sidecar ends it, well or not. */
  end(refused?: Refused): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    if (refused !== undefined) this.emit("error", refused);
    this.emit("end");
  }
}

type Callback = (error: unknown, response?: unknown) => void;
/** A call that waits for its answer. */
interface Waiting {
  readonly name: string;
  readonly by: number;
  readonly answer: Callback;
}

type Opened = HoldLeaseRequest | SubscribeScheduleRequest;

/** The request of any call of a holder's. */
interface Asked {
  generation?: number;
  maxHold?: { seconds: number; nanos: number };
  value?: Uint8Array;
  checkpoint?: Uint8Array;
  outcome?: string;
  detail?: string;
}

/** The name that a vector has for a call. */
function nameOf(method: string): string {
  const words = method.match(/[A-Z][a-z]*/g) ?? [];
  return words.join("_").toLowerCase().replace("release_lease", "release");
}

/** A call that is answered by one message, in the words of the vectors, which have none for an ending of a release. */
function inWords(name: string, { generation, maxHold, value, checkpoint, outcome, detail }: Asked): string {
  if (generation === undefined) return name;
  const texts = [value, checkpoint].map((bytes) => Buffer.from(bytes ?? []).toString());
  const ending = [outcome?.replace(/^RUN_OUTCOME_(UNSPECIFIED)?/, ""), detail];
  return sentence(name, String(generation), maxHold && String(milliseconds(maxHold)), ...texts, ...ending);
}

/** Does what a vector or a test says, and remembers what it was sent. */
export class Sidecar {
  /** What calls are answered with that nothing else is said of: one after the other, and the last again and again. */
  readonly answers: Record<string, object[]> = {};
  readonly streams: Stream[] = [];
  /** The calls that are answered by one message, and the same in words, with their connection. */
  readonly calls: Heard[] = [];
  readonly asked: string[] = [];
  /** The connections that are not closed, and have carried something. */
  readonly connections = new Set<number>();
  /** How many calls a connection carries at once. */
  room = Infinity;
  readonly #messages: Messages;
  readonly #isValid: () => boolean;
  readonly #waiting = new Set<Waiting>();
  readonly #prepared = new Map<string, object>();
  readonly #attempts: string[] = [];
  #dialled = 0;
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
    this.#dialled += 1;
    const by = this.#dialled;
    const heard = (path: string, request: object, metadata: Metadata): Heard => {
      const method = path.replace(/.*\//, "");
      this.connections.add(by);
      const streams = this.streams.filter((it) => it.isOpen && it.heard.by === by);
      const calls = [...this.#waiting].filter((it) => it.by === by);
      assert.ok(streams.length + calls.length < this.room, "a connection is full");
      return { method, request: message(`${method}Request`, request), metadata: metadata.clone(), by };
    };
    return {
      makeServerStreamRequest: (path: string, _to: unknown, _from: unknown, request: object, metadata: Metadata) => {
        // It is silent, or has met a sidecar that is too old.
        if (last?.isOpen === true || last?.isTooOld === true) this.#faults.push("S37: the connection was left");
        last = this.#open(heard(path, request, metadata));
        return last;
      },
      makeUnaryRequest: (path: string, _to: unknown, _from: unknown, request: object, ...more: unknown[]) => {
        const [metadata, { deadline }, callback] = more as [Metadata, { deadline: number }, Callback];
        return this.#call(heard(path, request, metadata), deadline, callback);
      },
      getChannel: () => ({ getConnectivityState: () => connectivityState.READY }),
      waitForReady: (_deadline: number, callback: (error?: Error) => void) => {
        callback();
      },
      close: () => this.connections.delete(by),
    };
  }

  #open(heard: Heard): Stream {
    const request = heard.request as Opened;
    if ("needs" in request) {
      if (request.needs !== 1) this.#faults.push("S37: a request does not need revision 1");
      this.#sent.push(this.#openedBy(request));
    }
    const number = this.streams.length;
    const stream = new Stream(heard, () => {
      const isReplaced = this.streams.slice(number + 1).some(({ isGranted }) => isGranted);
      if (!isReplaced && this.#isValid()) this.#faults.push("S14: a stream was ended while the hold was valid");
    });
    this.streams.push(stream);
    return stream;
  }

  /** What was asked for. */
  #openedBy(request: Opened): string {
    if ("reconnected" in request) {
      const { reconnected, resume } = request;
      return sentence("subscribe", reconnected && "reconnected", resume !== undefined && this.#resume(resume));
    }
    if (request.start?.$case === "resume") return this.#resume(request.start.value);
    const { permits = 1, priority, yields, share, ...spec } = request.start?.value ?? LeaseSpec.create();
    const counts = { wait: milliseconds(spec.wait), permits: permits - 1 && permits, priority };
    const counted = Object.entries(counts).map(([name, count]) => count > 0 && `${name} ${String(count)}`);
    const endless = spec.waitWithoutEnd && "wait_without_end";
    return sentence("hold", endless, ...counted, yields && "yields", share !== "" && `share ${share}`);
  }

  #resume({ resumeToken, toldValidUntil, attemptId }: Resume): string {
    const told = toldValidUntil?.sinceBoot;
    const until = told === undefined ? "" : ` told ${String(milliseconds(told) - this.#messages.base)}`;
    if (!this.#attempts.includes(attemptId)) this.#attempts.push(attemptId);
    return `resume ${resumeToken}${until} attempt ${String(this.#attempts.indexOf(attemptId) + 1)}`;
  }

  #call(heard: Heard, deadline: number, callback: Callback): { cancel: () => void } {
    const name = nameOf(heard.method);
    const isEnd = name === "release" || name === "complete_run";
    if (isEnd && this.#isValid()) this.#faults.push("S13: the hold is valid when its release is sent");
    const said = inWords(name, heard.request);
    this.calls.push(heard);
    this.#sent.push(said);
    this.asked.push(`${said} by ${String(heard.by)}`);
    const answer: Callback = (...given) => {
      clearTimeout(timer);
      if (this.#waiting.delete(call)) callback(...given);
    };
    const timer = setTimeout(answer, deadline - Date.now(), refusal(status.DEADLINE_EXCEEDED, "nobody answers"));
    const call = { name, by: heard.by, answer };
    this.#waiting.add(call);
    const answers = this.answers[name] ?? [];
    const prepared = this.#prepared.get(name) ?? (answers.length > 1 ? answers.shift() : answers[0]);
    this.#prepared.delete(name);
    const later = (given: object): void => {
      process.nextTick(() => {
        this.#answerBy(call, given);
      });
    };
    if (prepared !== undefined) later(prepared);
    const cancel = (): void => {
      later(refusal(status.CANCELLED, "cancelled"));
    };
    return { cancel };
  }

  #answerBy({ name, answer }: Waiting, given: object): void {
    if ("details" in given) answer(given);
    else answer(null, message(responseTo(name), given));
  }

  answer(name: string, said: Said): void {
    this.give(name, this.#messages.answer(name, said));
  }

  refuse(name: string, refusing: Refusing): void {
    this.give(name, errorOf(refusing));
  }

  /** Answers the oldest call of this name; where there is none, the next one. */
  give(name: string, given: object): void {
    const call = [...this.#waiting].find((it) => it.name === name);
    if (call === undefined) this.#prepared.set(name, given);
    else this.#answerBy(call, given);
  }

  /** A stream by its number, and the newest without one. */
  on(number = this.streams.length): Stream {
    const stream = this.streams[number - 1];
    assert.ok(stream !== undefined, `there is no stream ${String(number)}`);
    return stream;
  }

  tell(number: number | undefined, events: Record<string, Said>): void {
    const stream = this.on(number);
    for (const [name, said] of Object.entries(events)) {
      stream.isGranted ||= name === "granted" || name === "run";
      stream.say(this.#messages.event(`${stream.heard.method}Response`, name, said));
    }
  }

  break(number: number | undefined, refusing: Refusing): void {
    const stream = this.on(number);
    stream.isTooOld = refusing.needs !== undefined;
    stream.end(refusing.code === undefined ? undefined : errorOf(refusing));
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
    return this.streams.flatMap(({ isOpen }, index) => (isOpen ? [index + 1] : []));
  }
}

/** Those of the words that are there. */
function sentence(...words: (string | false | undefined)[]): string {
  return words.filter((word) => word !== false && word !== undefined && word !== "").join(" ");
}
