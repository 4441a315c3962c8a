// For tests: messages and errors as a sidecar gives them, in the words of the vectors or by their fields.

import assert from "node:assert/strict";

import { Metadata, status } from "@grpc/grpc-js";

import { BadRequest, ErrorInfo, RetryInfo, Status } from "../gen/google/rpc/error.js";
import { duration } from "../src/duration.js";
import * as messages from "../src/proto.js";

export const OURS = "kernel-a";
export const ELSEWHERE = "kernel-b";

/** What the clocks of the kernels read when a vector begins. Two have our boot id, and are not ours. */
export const BASES: Readonly<Record<string, number>> & { readonly ours: number } = {
  ours: 1_000_000,
  elsewhere: 5_000_000,
  ahead: 3_000_000,
  behind: 500_000,
};

/** What a call is refused with. */
export interface Refused {
  readonly code: status;
  readonly details: string;
  readonly metadata: Metadata;
}

/** An error with the details that a sidecar gives. */
export function refusal(
  code: status,
  details: string,
  info?: { reason: string; domain?: string; metadata?: Record<string, string> },
  more: { violations?: { field: string; description: string }[]; retryAfterMs?: number } = {},
): Refused {
  const metadata = new Metadata();
  const parts: Status["details"] = [];
  const add = (name: string, value: Uint8Array): void => {
    parts.push({ typeUrl: `type.googleapis.com/google.rpc.${name}`, value: Buffer.from(value) });
  };
  if (info !== undefined)
    add("ErrorInfo", ErrorInfo.encode({ domain: "leasehold.dev", metadata: {}, ...info }).finish());
  const { violations: fieldViolations, retryAfterMs } = more;
  if (fieldViolations !== undefined) add("BadRequest", BadRequest.encode({ fieldViolations }).finish());
  if (retryAfterMs !== undefined) {
    add("RetryInfo", RetryInfo.encode({ retryDelay: duration("retryAfterMs", retryAfterMs) }).finish());
  }
  const trailer = Status.encode({ code, message: details, details: parts }).finish();
  if (parts.length > 0) metadata.set("grpc-status-details-bin", Buffer.from(trailer));
  return { code, details, metadata };
}

interface MessageType {
  fromPartial(said: object): object;
  encode(message: object): { finish(): Uint8Array };
  decode(bytes: Uint8Array): object;
}

/** A message of a type of the API, with what of this it may have, as it comes out of the wire. */
export function message(type: string, said: object): object {
  const made = (messages as unknown as Record<string, MessageType | undefined>)[type];
  assert.ok(made !== undefined, `there is no message ${type}`);
  return made.decode(made.encode(made.fromPartial(said)).finish());
}

/** How the sidecar refuses a call, or ends a stream: without a word if there is no code. */
export interface Refusing {
  code?: keyof typeof status;
  reason?: string;
  loss?: string;
  needs?: number;
  revision?: number;
}

export function errorOf({ code = "UNKNOWN", reason, loss, needs, revision }: Refusing): Refused {
  const metadata: Record<string, string> = {
    ...(loss === undefined ? {} : { loss_reason: loss }),
    ...(needs === undefined ? {} : { needs: String(needs), revision: String(revision) }),
  };
  return refusal(status[code], "so it is", reason === undefined ? undefined : { reason, metadata });
}

interface Limit {
  at: number;
  after: number;
}

/** What the sidecar says. What the vectors do not know has the name of its field. */
export interface Said {
  until?: number;
  for?: number;
  left?: number;
  token?: string;
  max_hold?: Limit;
  deadline?: Limit;
  [field: string]: unknown;
}

/** What a sidecar says, on the clock of its kernel. */
export class Messages {
  readonly #kernel: string;

  constructor(kernel: string) {
    this.#kernel = kernel;
  }

  /** What the clock of its kernel read when the vector began. */
  get base(): number {
    return BASES[this.#kernel] ?? NaN;
  }

  #reading(at: number): messages.BootTime {
    const bootId = this.#kernel === "elsewhere" ? ELSEWHERE : OURS;
    return { bootId, sinceBoot: duration("at", this.base + at) };
  }

  #limit(limit: Limit | undefined): object | undefined {
    return limit && { at: this.#reading(limit.at), after: duration("after", limit.after) };
  }

  /** All that a message may have: each takes what it knows. */
  #said({ until = 0, for: left, max_hold, deadline, token = "", ...said }: Said): object {
    const { fencing_token: fencingToken = 65_536, by: brokenBy, understood, result, ...more } = said;
    const value = (type: string, field: string, least?: string): string => `${type}_${wordOf(said[field], least)}`;
    const released = { outcome: value("RELEASE_OUTCOME", "outcome"), lossReason: value("LOSS_REASON", "loss") };
    return {
      leaseId: "lease-1",
      lockPath: "locks/p/h/f/s/FUNCTION",
      fencingToken,
      generation: 1,
      resumeToken: token,
      validity: left === undefined ? undefined : { validUntil: this.#reading(until), validFor: duration("for", left) },
      maxHoldEnds: this.#limit(max_hold),
      deadline: this.#limit(deadline),
      runId: "run-1",
      scheduledAt: new Date(1_800_000),
      timeLeft: duration("left", said.left ?? 0),
      breakNote: brokenBy === undefined ? undefined : { brokenBy },
      ...more,
      state: value("HOLD_STATE", "state", "HELD"),
      cause: value("ERROR_REASON", "cause"),
      understood: understood === true ? {} : undefined,
      result: result === undefined ? released : value("COMPLETION_RESULT", "result"),
    };
  }

  /** An event of a stream, in a message of this type. */
  event(type: string, name: string, said: Said): object {
    const kind = name === "busy" ? "BUSY" : "LOSS";
    const first = name === "granted" || name === "run" ? { resumeToken: said.token ?? "resume-1" } : {};
    const reason = `${kind}_REASON_${wordOf(said["reason"])}`;
    const all = { ...this.#said(said), ...first, reason };
    const $case = name.replace(/_[a-z]/g, (it) => it.charAt(1).toUpperCase());
    const response = message(type, { event: { $case, value: { ...all, grant: all } } });
    assert.ok("event" in response && response.event !== undefined, `there is no event ${name}`);
    return response;
  }

  /** An answer to a call. */
  answer(name: string, said: Said): object {
    return message(responseTo(name), this.#said(said));
  }
}

function wordOf(said: unknown, least = "UNSPECIFIED"): string {
  return typeof said === "string" ? said : least;
}

/** The type of the answer to a call, by the name that vectors have for that. */
export function responseTo(name: string): string {
  const words = name.replace(/^release$/, "release_lease").split("_");
  return `${words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("")}Response`;
}
