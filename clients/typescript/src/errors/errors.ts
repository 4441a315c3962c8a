// What can go wrong, told apart by class, code and reason, never by text.

import type { status } from "@grpc/grpc-js";

import type { Busy, ReleaseResult } from "../../gen/leasehold/v1/hold.js";
import { BusyReason, PriorityStatus } from "../../gen/leasehold/v1/hold.js";
import type { LockRecord } from "../../gen/leasehold/v1/lock.js";
import { milliseconds } from "../duration.js";
import type { Loss } from "../hold/loss.js";
import { lossReasonName } from "../hold/loss.js";
import type { Reason } from "./reason.js";

/** What all errors of this client have in common. */
export abstract class LeaseholdError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The endpoint, or an option that goes with it, is invalid. Trying again does not help. */
export class EndpointError extends LeaseholdError {
  constructor(
    /** What was given, without a password in it. */
    readonly endpoint: string,
    /** What is wrong with it and what would be right. */
    readonly problem: string,
    options?: ErrorOptions,
  ) {
    super(`the endpoint ${JSON.stringify(endpoint)} cannot be used: ${problem}`, options);
  }
}

/** This machine has no clock that counts while it sleeps, without which nobody knows whether a lock is still held. */
export class PlatformError extends LeaseholdError {}

/** The lock was not acquired within the wait asked for: somebody else has it, or it is not available yet. */
export class BusyError extends LeaseholdError {
  /** Why the lock is not available. */
  readonly reason: BusyReason;
  /** The lock's record, as far as it is known. */
  readonly record: LockRecord | undefined;
  /** When to ask again. */
  readonly retryAfterMs: number;
  /** How many of the lock's permits were found held, as far as the sidecar knows. */
  readonly heldPermits: number;
  /** Why the caller's priority did not free the lock; `undefined` if it gave none, or if that is not known (S33). */
  readonly priorityStatus: PriorityStatus | undefined;

  constructor(busy: Busy) {
    const lockPath = busy.record?.lockPath ?? "";
    const what = lockPath === "" ? "the lock" : `the lock ${lockPath}`;
    const status = knownStatus(busy.priorityStatus);
    const priority = status === undefined ? "" : ` (priority: ${inWords(status)})`;
    super(`${what} is busy: ${whyBusy(busy)}${priority}`);
    this.reason = busy.reason;
    this.record = busy.record;
    this.retryAfterMs = milliseconds(busy.retryAfter);
    this.heldPermits = busy.heldPermits;
    this.priorityStatus = status;
  }

  /** Who has the lock, or had it last (see `record.holderIsLastRecorded`); empty if unknown. */
  get holder(): string {
    return this.record?.holder ?? "";
  }
}

/** Why, in the words that all of Leasehold's clients use. */
function whyBusy({ heldPermits, reason, record }: Busy): string {
  if (reason === BusyReason.BREAKING) return "it was broken, and its lease has not expired yet";
  if (reason === BusyReason.RESTING) return "it rests, as its last holder asked (min_hold)";
  if (heldPermits > 1) return `${String(heldPermits)} permits of it are held`;
  if (record === undefined || record.holder === "") return "held by somebody else";
  // Quoted, so that no control character of it gets out.
  const holder = JSON.stringify(record.holder);
  return record.holderIsLastRecorded ? `held, last recorded holder ${holder}` : `held by ${holder}`;
}

/** The status, unless there is none, or one that this version does not know. */
function knownStatus(status: PriorityStatus): PriorityStatus | undefined {
  const isKnown = status !== PriorityStatus.UNSPECIFIED && status !== PriorityStatus.UNRECOGNIZED;
  return isKnown ? status : undefined;
}

function inWords(status: PriorityStatus): string {
  return status
    .replace(/^PRIORITY_STATUS_/, "")
    .replaceAll("_", " ")
    .toLowerCase();
}

/** The hold was lost: stop. The reason of the signal that a hold aborts. */
export class LostError extends LeaseholdError {
  /** The answer to the release that found the loss, which says what became of a checkpoint; `undefined` otherwise. */
  readonly released: ReleaseResult | undefined;

  constructor(
    /** Why. */
    readonly loss: Loss,
    options?: ErrorOptions & { readonly released?: ReleaseResult },
  ) {
    const name = lossReasonName(loss.reason);
    super(`the lock was lost: ${name}${loss.detail === "" ? "" : `: ${loss.detail}`}`, options);
    this.released = options?.released;
  }
}

/**
 * The loss that an error tells of, also where JavaScript has put it into a `SuppressedError` beside the error of an
 * `await using` block; `undefined` if it tells of none.
 */
export function lossIn(error: unknown): Loss | undefined {
  if (error instanceof LostError) return error.loss;
  if (!(error instanceof Error) || error.name !== "SuppressedError") return undefined;
  const wrapped = error as { readonly error?: unknown; readonly suppressed?: unknown };
  return lossIn(wrapped.error) ?? lossIn(wrapped.suppressed);
}

/**
 * It is not known whether the lock was released: no sidecar has confirmed it in time. The lock is available when its
 * lease runs out, at the latest (S13, S16).
 */
export class ReleaseUnconfirmedError extends LeaseholdError {
  constructor(lockPath: string, problem: string, options?: ErrorOptions) {
    const available = "it becomes available when its lease expires, if not before";
    super(`the release of the lock ${lockPath} was not confirmed, and ${available}: ${problem}`, options);
  }
}

/** The sidecar answered what no sidecar of this API may, so it is a newer or a broken one. */
export class ProtocolError extends LeaseholdError {
  constructor(problem: string) {
    super(`the sidecar's answer is invalid: ${problem}`);
  }
}

/** A field of a request that the sidecar refused (S19). */
export interface FieldViolation {
  /** The field's path, such as `spec.key.function`. */
  readonly field: string;
  /** What is wrong with it, and the allowed range. */
  readonly description: string;
}

/** What an error of the sidecar says. */
export interface Refusal {
  /** The gRPC code. */
  readonly code: status;
  /** The reason; `undefined` if the error did not come from a sidecar, as when a connection breaks. */
  readonly reason: Reason | undefined;
  /** What to show to people. */
  readonly details: string;
  /** The fields that were wrong, with `INVALID_FIELD`. */
  readonly violations: readonly FieldViolation[];
  /** When to try again, if that was said. */
  readonly retryAfterMs: number | undefined;
  /** Why the hold is over, with `HOLD_LOST`: `EXPIRED` and so on. */
  readonly lossReason: string | undefined;
  /** Whether the sidecar's revision is below what the request needs: then it has said both (S37). */
  readonly isBelowNeeds?: boolean;
}

/** The sidecar answered with an error, or the connection broke. Decide by `code` and `reason`, never by the message. */
export class RefusedError extends LeaseholdError implements Refusal {
  readonly code: status;
  readonly reason: Reason | undefined;
  readonly details: string;
  readonly violations: readonly FieldViolation[];
  readonly retryAfterMs: number | undefined;
  readonly lossReason: string | undefined;
  readonly isBelowNeeds: boolean;

  constructor(refusal: Refusal, options?: ErrorOptions) {
    // The message names the first field at the most; the others must not stay unseen.
    const unseen = refusal.violations.filter(({ field }) => !refusal.details.includes(field));
    super([refusal.details, ...unseen.map(({ field, description }) => `${field}: ${description}`)].join("; "), options);
    this.code = refusal.code;
    this.reason = refusal.reason;
    this.details = refusal.details;
    this.violations = refusal.violations;
    this.retryAfterMs = refusal.retryAfterMs;
    this.lossReason = refusal.lossReason;
    this.isBelowNeeds = refusal.isBelowNeeds ?? false;
  }
}

/** No sidecar answers at the endpoint. */
export class UnreachableError extends RefusedError {
  constructor(
    /** Where the sidecar was looked for. */
    readonly endpoint: string,
    /** What happened, for people. */
    readonly problem: string,
    refusal: Refusal,
    options?: ErrorOptions,
  ) {
    const details =
      `no sidecar answers at ${endpoint} (${problem}); start one with \`leasehold serve\`, ` +
      "or say where it is with LEASEHOLD_ENDPOINT";
    super({ ...refusal, details }, options);
  }
}
