// What the driver reads and says, and the client that it works with.

import {
  BusyError,
  CheckpointOutcome,
  Client,
  Code,
  EndpointError,
  LostError,
  ReleaseUnconfirmedError,
  RefusedError,
  UnreachableError,
  lossReasonName,
} from "leasehold-client";
import type { Checkpoint, Hold, HoldEvent, LeaseSpec, LockRecord, ReleaseResult } from "leasehold-client";

export interface Command {
  readonly id: string;
  readonly do: string;
  readonly function?: string;
  readonly scope?: string;
  readonly wait_ms?: number | null;
  readonly lease_ms?: number | null;
  readonly max_hold_ms?: number | null;
  readonly min_hold_ms?: number | null;
  readonly progress_timeout_ms?: number | null;
  readonly labels?: Record<string, string> | null;
  readonly lease_id?: string;
  readonly token?: number;
  readonly reason?: string;
  readonly now?: boolean;
  readonly permits?: number | null;
  readonly priority?: number | null;
  readonly yields?: boolean | null;
  readonly share?: string | null;
  readonly rebalance?: boolean | null;
  readonly wait_forever?: boolean;
  readonly prefix?: string;
  readonly value?: string;
  readonly checkpoint?: string;
  readonly times?: number;
  readonly file?: string;
  readonly every_ms?: number;
  readonly backoff_ms?: number;
  readonly run_timeout_ms?: number;
  /** An occurrence in seconds since 1970, and how it, or a run, ended. */
  readonly at?: number;
  readonly outcome?: string | null;
  /** `scope`: the hold is left by the end of an `await using` block. */
  readonly form?: string;
}

/** What the commands on a hold, or on a watch, act upon. */
export interface Running {
  readonly abort: AbortController;
  hold?: Hold;
  /** The abort comes from outside, when the lock is held. */
  interrupted?: boolean;
  /** Ends the block; with an error, by throwing it. */
  leave?: (error?: Error) => void;
  /** Completes the run. */
  complete?: (outcome: string) => void;
}

export type Fields = Record<string, unknown>;

export const running = new Map<string, Running>();
let connecting: Promise<Client> | undefined;

export function say(id: string, event: string, fields: Fields = {}): void {
  process.stdout.write(`${JSON.stringify({ id, event, ...fields })}\n`);
}

export async function connected(): Promise<Client> {
  const options: { keepAliveMs?: number; releaseTimeoutMs?: number } = {};
  const { LEASEHOLD_DRIVER_KEEP_ALIVE_MS: keepAlive, LEASEHOLD_DRIVER_RELEASE_TIMEOUT_MS: releaseTimeout } =
    process.env;
  if (keepAlive !== undefined) options.keepAliveMs = Number(keepAlive);
  if (releaseTimeout !== undefined) options.releaseTimeoutMs = Number(releaseTimeout);
  connecting ??= Client.connect(options);
  try {
    return await connecting;
  } catch (error) {
    connecting = undefined;
    throw error;
  }
}

export function holdRequest(command: Command): LeaseSpec {
  const request: Record<string, unknown> = { ...lockName(command) };
  const set = (name: keyof LeaseSpec, value: unknown): void => {
    if (value !== undefined && value !== null) request[name] = value;
  };
  set("waitMs", command.wait_ms === -1 || command.wait_forever === true ? Infinity : command.wait_ms);
  set("permits", command.permits);
  set("priority", command.priority);
  set("yields", command.yields);
  set("share", command.share);
  set("rebalance", command.rebalance);
  set("leaseDurationMs", command.lease_ms);
  set("maxHoldMs", command.max_hold_ms);
  set("minHoldMs", command.min_hold_ms);
  set("progressTimeoutMs", command.progress_timeout_ms);
  set("labels", command.labels);
  return request;
}

export function lockName(command: Command): { function: string; scope: string } {
  return { function: command.function ?? "", scope: command.scope ?? "" };
}

export interface Granted {
  readonly fencingToken: number;
  readonly leaseId: string;
  readonly lockPath: string;
  readonly permit: number;
}

export function sayGrant(id: string, grant: Granted, checkpoint: Checkpoint | undefined): void {
  const { fencingToken: token, leaseId, lockPath, permit } = grant;
  const fields = { token, lease_id: leaseId, lock_path: lockPath, permit };
  say(id, "granted", { ...fields, checkpoint: checkpoint?.text() ?? null });
}

/** What a record tells of its holder's place among others. */
export function placeFields({ sidecar, share, priority, yields }: LockRecord): Fields {
  return { sidecar, share, priority, yields };
}

/** What became of the checkpoint of a release, if it had one. */
export function checkpointFields({ checkpointOutcome }: ReleaseResult): Fields {
  if (checkpointOutcome === CheckpointOutcome.UNSPECIFIED) return {};
  return { checkpoint: nameOf("CHECKPOINT_OUTCOME_", checkpointOutcome).toLowerCase() };
}

export function sayEvent(id: string, event: HoldEvent): void {
  switch (event.type) {
    case "waiting":
      say(id, "waiting", { place: event.position });
      break;
    case "atRisk":
      say(id, "at_risk", { remaining_ms: Math.floor(event.remainingMs), cause: event.cause });
      break;
    case "recovered":
    case "draining":
    case "interrupted":
    case "resumed":
      say(id, event.type);
      break;
    case "revoked":
      say(id, "revoked", { reason: event.notice.reason, for_priority: event.notice.forPriority ?? null });
      break;
    // Said where the block begins and ends, or not at all.
    case "granted":
    case "renewed":
    case "lost":
  }
}

/** Says how a command failed. */
export function sayFailure(id: string, error: unknown, abort?: AbortController): void {
  if (error instanceof BusyError) {
    const { holder, record, heldPermits, priorityStatus } = error;
    const status = priorityStatus === undefined ? null : nameOf("PRIORITY_STATUS_", priorityStatus);
    const fields = { holder, token: record?.fencingToken ?? null, held_permits: heldPermits, priority_status: status };
    say(id, "busy", record === undefined ? fields : { ...fields, ...placeFields(record) });
  } else if (error instanceof LostError) {
    say(id, "lost", { reason: lossReasonName(error.loss.reason), detail: error.loss.detail });
  } else if (error instanceof ReleaseUnconfirmedError) {
    say(id, "release_unconfirmed");
  } else if (error instanceof RefusedError) {
    const fields = error.violations.map(({ field }) => field);
    const { reason = null, message } = error;
    say(id, "error", { code: Code[error.code], reason, message, fields });
  } else if (abort?.signal.aborted === true && error === abort.signal.reason) {
    say(id, "aborted");
  } else if (error instanceof Error && error.message === "boom") {
    say(id, "failed", { error: error.message });
  } else {
    const code =
      error instanceof UnreachableError ? "UNAVAILABLE" : error instanceof EndpointError ? "ENDPOINT" : "CLIENT";
    say(id, "error", { code, reason: null, message: String(error), fields: [] });
  }
}

/** An enum's value without the enum's own name. */
export function nameOf(prefix: string, value: string): string {
  return value.startsWith(prefix) ? value.slice(prefix.length) : value;
}

/** The client, if it was needed. */
export async function connectedBefore(): Promise<Client | undefined> {
  return await connecting?.catch(() => undefined);
}
