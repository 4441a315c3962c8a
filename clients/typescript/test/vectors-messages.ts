// For vectors.test.ts: what a vector's sidecar says, as messages.

import { status } from "@grpc/grpc-js";

import { duration } from "../src/duration.js";
import {
  AtRisk,
  BreakNote,
  Busy,
  Deadline,
  Draining,
  ExtendLeaseResponse,
  GetHoldResponse,
  Grant,
  Lost,
  Recovered,
  Released,
  ReleaseLeaseResponse,
  ReleaseResult,
  Renewed,
  ReportProgressResponse,
  Revoked,
  SaveCheckpointResponse,
  Validity,
  Waiting,
  busyReasonFromJSON,
  errorReasonFromJSON,
  holdStateFromJSON,
  lossReasonFromJSON,
  releaseOutcomeFromJSON,
} from "../src/proto.js";
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

  #validity({ until = 0, for: left }: Said): Validity | undefined {
    if (left === undefined) return undefined;
    return Validity.create({ validUntil: this.#reading(until), validFor: duration("for", left) });
  }

  #limit({ max_hold }: Said): Deadline | undefined {
    if (max_hold === undefined) return undefined;
    return Deadline.create({ at: this.#reading(max_hold.at), after: duration("after", max_hold.after) });
  }

  /** An event of a stream. */
  event(name: string, said: Said): Event {
    const validity = this.#validity(said);
    const { generation = 1, token = "", fencing_token: fencingToken = 65_536, position = 0 } = said;
    switch (name) {
      case "granted": {
        const about = { leaseId: "lease-1", lockPath: "locks/p/h/f/s/FUNCTION", fencingToken, generation };
        const resumeToken = token === "" ? "resume-1" : token;
        const value = Grant.create({ ...about, resumeToken, validity, maxHoldEnds: this.#limit(said) });
        return { $case: "granted", value };
      }
      case "waiting":
        return { $case: "waiting", value: Waiting.create({ position }) };
      case "busy": {
        const reason = busyReasonFromJSON(`BUSY_REASON_${said.reason ?? ""}`);
        return { $case: "busy", value: Busy.create({ reason }) };
      }
      case "renewed": {
        const value = Renewed.create({ validity, resumeToken: token, maxHoldEnds: this.#limit(said) });
        return { $case: "renewed", value };
      }
      case "at_risk": {
        const cause = errorReasonFromJSON(`ERROR_REASON_${said.cause ?? ""}`);
        return { $case: "atRisk", value: AtRisk.create({ validity, cause }) };
      }
      case "recovered":
        return { $case: "recovered", value: Recovered.create({ validity }) };
      case "draining":
        return { $case: "draining", value: Draining.create({ timeLeft: duration("left", said.left ?? 0) }) };
      case "revoked":
        return { $case: "revoked", value: Revoked.create({ validity, breakNote: noteOf(said) }) };
      case "lost":
        return {
          $case: "lost",
          value: Lost.create({ reason: lossReasonFromJSON(`LOSS_REASON_${said.reason ?? ""}`) }),
        };
      case "released":
        return { $case: "released", value: Released.create({ result: resultOf(said) }) };
      default:
        throw new Error(`there is no event ${name}`);
    }
  }

  /** An answer to a call. */
  answer(name: string, said: Said): unknown {
    const validity = this.#validity(said);
    const maxHoldEnds = this.#limit(said);
    switch (name) {
      case "release":
        return ReleaseLeaseResponse.create({ result: resultOf(said) });
      case "get_hold": {
        const state = holdStateFromJSON(`HOLD_STATE_${said.state ?? "HELD"}`);
        const breakNote = said.by === undefined ? undefined : noteOf(said);
        return GetHoldResponse.create({ validity, maxHoldEnds, state, breakNote });
      }
      case "report_progress":
        return ReportProgressResponse.create({ validity });
      case "extend_lease":
        return ExtendLeaseResponse.create({ validity, maxHoldEnds, resumeToken: said.token ?? "" });
      case "save_checkpoint":
        return SaveCheckpointResponse.create({ version: said.version ?? 0, validity });
      default:
        throw new Error(`there is no call ${name}`);
    }
  }
}

function noteOf({ by = "" }: Said): BreakNote {
  return BreakNote.create({ brokenBy: by });
}

function resultOf({ outcome = "", loss = "UNSPECIFIED" }: Said): ReleaseResult {
  return ReleaseResult.create({
    outcome: releaseOutcomeFromJSON(`RELEASE_OUTCOME_${outcome}`),
    lossReason: lossReasonFromJSON(`LOSS_REASON_${loss}`),
  });
}
