// For tests: what a sidecar says in the words of the vectors, as messages.

import assert from "node:assert/strict";

import { status } from "@grpc/grpc-js";

import { duration } from "../src/duration.js";
import type { BootTime } from "../src/proto.js";
import type { Refused } from "./tools.js";
import { message, refusal } from "./tools.js";

export const OURS = "kernel-a";
export const ELSEWHERE = "kernel-b";

/** What the clocks of the kernels read when a vector begins. Two have our boot id, and are not ours. */
export const BASES: Readonly<Record<string, number>> & { readonly ours: number } = {
  ours: 1_000_000,
  elsewhere: 5_000_000,
  ahead: 3_000_000,
  behind: 500_000,
};

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
  fencing_token?: number;
  max_hold?: Limit;
  deadline?: Limit;
  reason?: string;
  loss?: string;
  outcome?: string;
  cause?: string;
  by?: string;
  state?: string;
  understood?: boolean;
  result?: string;
  [field: string]: unknown;
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

  #reading(at: number): BootTime {
    const bootId = this.#kernel === "elsewhere" ? ELSEWHERE : OURS;
    return { bootId, sinceBoot: duration("at", this.base + at) };
  }

  #limit(limit: Limit | undefined): object | undefined {
    return limit && { at: this.#reading(limit.at), after: duration("after", limit.after) };
  }

  /** All that a message may have: each takes what it knows. */
  #said(said: Said): object {
    const {
      until = 0,
      for: left,
      token = "",
      fencing_token: fencingToken = 65_536,
      max_hold,
      deadline,
      ...more
    } = said;
    const { state = "HELD", cause = "UNSPECIFIED", by, outcome = "UNSPECIFIED", loss = "", ...others } = more;
    const released = { outcome: `RELEASE_OUTCOME_${outcome}`, lossReason: `LOSS_REASON_${loss || "UNSPECIFIED"}` };
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
      state: `HOLD_STATE_${state}`,
      cause: `ERROR_REASON_${cause}`,
      timeLeft: duration("left", said.left ?? 0),
      breakNote: by === undefined ? undefined : { brokenBy: by },
      ...others,
      understood: said.understood === true ? {} : undefined,
      result: said.result === undefined ? released : `COMPLETION_RESULT_${said.result}`,
    };
  }

  /** An event of a stream, in a message of this type. */
  event(type: string, name: string, said: Said): object {
    const kind = name === "busy" ? "BUSY" : "LOSS";
    const first = name === "granted" || name === "run" ? { resumeToken: said.token ?? "resume-1" } : {};
    const all = { ...this.#said(said), ...first, reason: `${kind}_REASON_${said.reason ?? "UNSPECIFIED"}` };
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

/** The type of the answer to a call, by the name that vectors have for that. */
export function responseTo(name: string): string {
  const words = name === "release" ? ["release", "lease"] : name.split("_");
  return `${words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("")}Response`;
}
