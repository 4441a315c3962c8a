// For vectors.test.ts: what a vector's sidecar says, as messages.

import { status } from "@grpc/grpc-js";

import { duration } from "../src/duration.js";
import * as messages from "../src/proto.js";
import type { BootTime } from "../src/proto.js";
import type { Event } from "./fake-sidecar.js";
import { ELSEWHERE, OURS } from "./fake-sidecar.js";
import type { Refused } from "./tools.js";
import { refusal } from "./tools.js";

/** What the clocks of the kernels read when a vector begins. Two have our boot id, and are not ours. */
export const BASES: Readonly<Record<string, number>> & { readonly ours: number } = {
  ours: 1_000_000,
  elsewhere: 5_000_000,
  ahead: 3_000_000,
  behind: 500_000,
};

/** What the sidecar says, with all that it may say. */
export interface Said {
  until?: number;
  for?: number;
  left?: number;
  generation?: number;
  token?: string;
  fencing_token?: number;
  max_hold?: { at: number; after: number };
  position?: number;
  reason?: string;
  loss?: string;
  outcome?: string;
  cause?: string;
  by?: string;
  state?: string;
  version?: number;
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

/** What a vector's sidecar says, on the clock of its kernel. */
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

  /** All that a message may have: each takes what it knows. */
  #said(said: Said): object {
    const {
      until = 0,
      for: left,
      max_hold: limit,
      generation = 1,
      token = "",
      fencing_token: fencingToken = 65_536,
    } = said;
    const { position, state = "HELD", version, cause = "UNSPECIFIED", by, outcome = "UNSPECIFIED", loss = "" } = said;
    return {
      leaseId: "lease-1",
      lockPath: "locks/p/h/f/s/FUNCTION",
      fencingToken,
      generation,
      resumeToken: token,
      validity: left === undefined ? undefined : { validUntil: this.#reading(until), validFor: duration("for", left) },
      maxHoldEnds: limit && { at: this.#reading(limit.at), after: duration("after", limit.after) },
      position,
      version,
      state: `HOLD_STATE_${state}`,
      cause: `ERROR_REASON_${cause}`,
      timeLeft: duration("left", said.left ?? 0),
      breakNote: by === undefined ? undefined : { brokenBy: by },
      result: { outcome: `RELEASE_OUTCOME_${outcome}`, lossReason: `LOSS_REASON_${loss || "UNSPECIFIED"}` },
    };
  }

  /** An event of a stream. */
  event(name: string, said: Said): Event {
    const kind = name === "busy" ? "BUSY" : "LOSS";
    const first = name === "granted" ? { resumeToken: said.token ?? "resume-1" } : {};
    const value = { ...this.#said(said), ...first, reason: `${kind}_REASON_${said.reason ?? "UNSPECIFIED"}` };
    const told = { $case: name === "at_risk" ? "atRisk" : name, value };
    const { event } = messages.HoldLeaseResponse.fromPartial({ event: told } as never);
    if (event === undefined) throw new Error(`there is no event ${name}`);
    return event;
  }

  /** An answer to a call. */
  answer(name: string, said: Said): unknown {
    const words = name === "release" ? ["release", "lease"] : name.split("_");
    const type = `${words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("")}Response`;
    const answers = messages as unknown as Record<string, { fromPartial(said: object): unknown } | undefined>;
    if (answers[type] === undefined) throw new Error(`there is no call ${name}`);
    return answers[type].fromPartial(this.#said(said));
  }
}
