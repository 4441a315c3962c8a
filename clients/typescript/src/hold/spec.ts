// What a caller asks for, in this language's words, and the same for the wire.

import { LeaseSpec as WireSpec } from "../../gen/leasehold/v1/hold.js";
import type { ListLocksRequest } from "../../gen/leasehold/v1/lease_service.js";
import type { LockSelector as WireSelector } from "../../gen/leasehold/v1/lock.js";
import { LockKey as WireKey, LockMode } from "../../gen/leasehold/v1/lock.js";
import { optionalDuration } from "../duration.js";
import { holderOrThis } from "./holder.js";

const MOST_UINT32 = 0xffff_ffff;

/** The name of a lock. With the host id it gives the lock path; equal lock paths exclude each other. */
export interface LockKey {
  /** What the lock is for: a job, a function, a resource. At most 1,024 bytes. May be empty, if `scope` is not. */
  readonly function?: string;
  /** The part that splits a function's lock: a tenant, an order, a shard. At most 1,024 bytes. */
  readonly scope?: string;
  /** Whether the lock is held while a function runs, or while a listener listens. Default: `"function"`. */
  readonly mode?: "function" | "listener";
  /** Overrides the sidecar's host id, where the operator allows it. */
  readonly hostId?: string;
  /** Overrides the sidecar's host type, where the operator allows it. */
  readonly hostType?: string;
}

/** What a call may be given beside its request. */
export interface CallOptions {
  /** Cancels the call, which then fails with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** Which permit of a lock is meant, where its holders ask for several. */
export interface LockPermit extends LockKey {
  /** 0 to 31; 0 is the lock's own path. Default: 0. */
  readonly permit?: number;
}

/** Which lock is meant: by its name, or by its path as it stands in a grant or a record. */
export type LockSelector = LockPermit | { readonly lockPath: string };

/** Which locks are meant. */
export interface WatchOptions extends CallOptions {
  /** Those under this host id. Default: the sidecar's. Not with `prefix`. */
  readonly hostId?: string;
  /** Those whose lock path begins with this text, the container and a slash first. */
  readonly prefix?: string;
  /** Only those whose record has all of these labels. Default: all. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Only those whose holder, or last holder, named this share ({@link LeaseSpec.share}). Default: all. */
  readonly share?: string;
}

/** What is asked for: a lock, and how it is to be held. Durations are milliseconds. */
export interface LeaseSpec extends LockKey {
  /** The duration of the lease in the store: whole seconds, 15,000 to 60,000. Default: the sidecar's, 60,000. */
  readonly leaseDurationMs?: number;
  /**
   * How long to wait while the lock is busy: 0 to 24 h, or `Infinity` for ever, also across restarts of the sidecar.
   * Default: 0, one try.
   */
  readonly waitMs?: number;
  /** How long the hold may last in all, more than 0. Default: no such bound; by a unary call 10 min. */
  readonly maxHoldMs?: number;
  /** How long the lock stays taken at least, counted from the grant: 0 to 24 h. Default: 0. */
  readonly minHoldMs?: number;
  /** The hold is lost when progress was not reported for so long: 1 s to 24 h. Default: not watched. */
  readonly progressTimeoutMs?: number;
  /** Whether the sidecar renews the lease. False: the hold lasts one lease duration and no more. Default: true. */
  readonly autoRenew?: boolean;
  /** Who is asking, for people to read: at most 256 bytes. Default: this pod or host, and the process id. */
  readonly holder?: string;
  /**
   * How many callers may hold the lock at the same time: 1 to 32. Each gets a permit, which is a lock of its own, with a
   * path, a fencing token and a checkpoint of its own. Give the same number everywhere (S28). Default: 1.
   */
  readonly permits?: number;
  /**
   * How important this caller is: 0 to 2,147,483,647. Callers of a lock are served by priority, then by arrival. One that
   * has waited for a lease duration takes the lock over from a holder of smaller priority that `yields`: that one is told
   * ({@link Hold.revokedSignal}), and has what is left of its lease to finish. With a number that grows with each version,
   * such as a build number, the newest version takes over (S33). Not with `permits` above 1. Default: 0.
   */
  readonly priority?: number;
  /**
   * Whether this holder gives the lock up to a caller of greater priority, or to one of equal priority that rebalances
   * (S33, S35). Not with `permits` above 1. Default: false.
   */
  readonly yields?: boolean;
  /**
   * The group of like locks, such as all listeners of a deployment, that its sidecars spread among themselves (S34): at
   * most 256 bytes, no invisible characters. Not with `permits` above 1. Default: none.
   */
  readonly share?: string;
  /**
   * Whether the sidecar of this caller may take a lock of the share from a sidecar that holds at least two more: one at a
   * time, at most one a minute, and only from holders of equal priority that yield (S35). Only with `share` and `yields`.
   * Default: false.
   */
  readonly rebalance?: boolean;
  /**
   * The occurrence that the caller is about to run, for callers with a scheduler of their own: whole seconds, at most 5 s
   * after the store's time. It is granted until an outcome was recorded for it (see {@link ReleaseOptions.outcome}), and
   * never after: then, or when a newer one has an outcome, the answer is an {@link OccurrenceOverError} (T2). Not with
   * `permits` above 1, nor `minHoldMs`, nor on a lock that has a schedule. Default: none.
   */
  readonly occurrence?: Date;
  /** How often `occurrence` may fail or be abandoned before that is final: 1 to 100. Default: no limit. */
  readonly occurrenceMaxAttempts?: number;
  /**
   * Makes `acquire` repeatable: at most 128 bytes, a fresh random one for each hold; `hold` makes no use of it.
   * Default: none, every call is a new one.
   */
  readonly requestId?: string;
  /** Free pairs, shown in the lock's record: at most 16, 1,024 bytes in all. Not for secrets. */
  readonly labels?: Readonly<Record<string, string>>;
}

/** The name for the wire. */
export function lockKey(name: LockKey): WireKey {
  return WireKey.create({
    function: name.function ?? "",
    scope: name.scope ?? "",
    mode: name.mode === "listener" ? LockMode.LISTENER : LockMode.FUNCTION,
    hostId: name.hostId,
    hostType: name.hostType,
  });
}

/** The selector for the wire. */
export function lockSelector(lock: LockSelector): WireSelector {
  if ("lockPath" in lock) return { lock: { $case: "lockPath", value: lock.lockPath }, permit: 0 };
  return { lock: { $case: "key", value: lockKey(lock) }, permit: lock.permit ?? 0 };
}

/** The spec for the wire, with this wait; `Infinity` waits as long as the stream is open. */
export function leaseSpec(spec: LeaseSpec, waitMs: number): WireSpec {
  return WireSpec.create({
    key: lockKey(spec),
    leaseDuration: optionalDuration("leaseDurationMs", spec.leaseDurationMs),
    wait: waitMs === Infinity ? undefined : optionalDuration("waitMs", waitMs),
    waitWithoutEnd: waitMs === Infinity,
    permits: spec.permits === undefined ? undefined : wholeNumber("permits", spec.permits, " from 1 to 32"),
    priority: wholeNumber("priority", spec.priority ?? 0, " from 0 to 2147483647"),
    yields: spec.yields ?? false,
    share: spec.share ?? "",
    rebalance: spec.rebalance ?? false,
    occurrenceAt: valid("occurrence", spec.occurrence),
    occurrenceMaxAttempts: wholeNumber("occurrenceMaxAttempts", spec.occurrenceMaxAttempts ?? 0, " from 1 to 100"),
    maxHold: optionalDuration("maxHoldMs", spec.maxHoldMs),
    minHold: optionalDuration("minHoldMs", spec.minHoldMs),
    progressTimeout: optionalDuration("progressTimeoutMs", spec.progressTimeoutMs),
    autoRenew: spec.autoRenew,
    requestId: spec.requestId ?? "",
    holder: holderOrThis(spec.holder),
    labels: { ...spec.labels },
  });
}

/** Checked here, because the wire would take an invalid date for 1970. */
function valid(name: string, date: Date | undefined): Date | undefined {
  if (date !== undefined && Number.isNaN(date.getTime())) throw new RangeError(`${name} is an invalid date`);
  return date;
}

/** Which locks are meant, for the wire. */
export function under({ hostId, prefix }: WatchOptions): ListLocksRequest["under"] {
  if (prefix !== undefined) return { $case: "prefix", value: prefix };
  return hostId === undefined ? undefined : { $case: "hostId", value: hostId };
}

/** Checked here, because the wire would take 1.5 for 1 and -1 for 4,294,967,295. */
export function wholeNumber(name: string, value: number, range: string, most = MOST_UINT32): number {
  if (Number.isInteger(value) && value >= 0 && value <= most) return value;
  throw new RangeError(`${name} is ${String(value)}: it must be a whole number${range}`);
}
