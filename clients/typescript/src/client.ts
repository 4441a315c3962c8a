// The client: one method for each thing to be done.

import { CALL_TIMEOUT_MS, FIRST_PAUSE_MS, LONGEST_PAUSE_MS, NEWER_FIELDS } from "./constants.js";
import type {
  ExtendLeaseResponse,
  CheckTokenResponse,
  ResolvePathResponse,
} from "../gen/leasehold/v1/lease_service.js";
import { AcquireLeaseRequest, LeaseServiceService } from "../gen/leasehold/v1/lease_service.js";
import type { BreakOutcome, GetHoldResponse, SaveCheckpointResponse } from "../gen/leasehold/v1/lease_service.js";
import type { Grant, ReleaseResult, Validity, LeaseSpec as WireSpec } from "../gen/leasehold/v1/hold.js";
import type { LockRecord, LockState } from "../gen/leasehold/v1/lock.js";
import { BreakMode } from "../gen/leasehold/v1/lock.js";
import type { Clock } from "./hold/boot-clock.js";
import { machineClock } from "./hold/boot-clock.js";
import { checkpointBytes } from "./hold/checkpoint.js";
import { duration, milliseconds, sleep } from "./duration.js";
import { Connections } from "./connect/connections.js";
import type { ConnectOptions } from "./connect/endpoint.js";
import { dialer } from "./connect/endpoint.js";
import { BusyError, LostError, ProtocolError, RefusedError } from "./errors/errors.js";
import type { Hold, ReleaseOptions } from "./hold/hold.js";
import { endingOf } from "./hold/hold.js";
import type { HoldOptions } from "./hold/open.js";
import { openHold } from "./hold/open.js";
import { lead } from "./hold/lead.js";
import { checkRecorded, occurrenceOver } from "./hold/occurrence.js";
import { Reason } from "./errors/reason.js";
import type { ServerInfo } from "./connect/server-info.js";
import { serverInfo } from "./connect/server-info.js";
import type { CallOptions, LeaseSpec, LockKey, LockSelector, WatchOptions } from "./hold/spec.js";
import { leaseSpec, lockKey, lockSelector, under } from "./hold/spec.js";
import type { Limits } from "./connect/rpc.js";
import { LIMITS, Rpc } from "./connect/rpc.js";
import { ScheduleClient } from "./runs/schedules.js";
import { isBelowNeeds, needs } from "./errors/unsupported.js";
import type { LocksEvent } from "./watch/watch.js";
import { watchLock, watchLocks } from "./watch/watch.js";

/** The longest wait that any sidecar allows; an operator may set a shorter one. */
const LONGEST_WAIT_MS = 24 * 60 * 60 * 1_000;
/** Waits are not made shorter than this to please a sidecar. */
const SHORTEST_ROUND_MS = 1_000;

/** What to tell of a lock. */
export interface GetLockOptions extends CallOptions {
  /** Whether the record is to have the checkpoint's value: see {@link Checkpoint.from}. Default: false. */
  readonly withCheckpoint?: boolean;
}

/** Which locks to list. */
export interface ListOptions extends WatchOptions {
  /** Only those in one of these states. Default: all. */
  readonly states?: readonly LockState[];
  /** How many records a page has at most: 1 to 250. Default: 100. */
  readonly pageSize?: number;
}

/** How to break a lock. */
export interface BreakOptions extends CallOptions {
  /** Frees the lock at once. TWO HOLDERS ARE POSSIBLE until the old one notices. Default: the lease runs out. */
  readonly now?: boolean;
  /** Who breaks it, for people. Default: the name of the sidecar's pod or host. */
  readonly brokenBy?: string;
  /**
   * The token of the grant to break, as the lock's record has shown it. Give it always: if that grant is over by then,
   * nothing is broken. Default: the grant that the sidecar reads first.
   */
  readonly fencingToken?: number;
}

/** What a break did. */
export interface BreakResult {
  /** What happened. */
  readonly outcome: BreakOutcome;
  /** When the lock is free, counted from now; with outcome `BREAKING` only. */
  readonly freeInMs: number | undefined;
  /** What is known of the lock after the break. */
  readonly record: LockRecord | undefined;
}

/** Which lock to lead by. */
export type LeadSpec = Omit<LeaseSpec, "waitMs">;

/** Runs under a lock: `signal` aborts when the hold is lost. */
export type HeldWork<T> = (signal: AbortSignal, hold: Hold) => T | Promise<T>;

/**
 * A client of a sidecar. It makes its connections by itself: as many as its holds, waits and watches need, with room for
 * short calls about those, and one for all other calls. They are made again when they break. Three things are tried again
 * by themselves: a hold whose stream breaks is resumed within its validity, a caller that waits in the queue asks again
 * within its wait, and a watch is opened again.
 */
export class Client extends ScheduleClient implements AsyncDisposable {
  private constructor(rpc: Rpc) {
    super(rpc);
  }

  /**
   * A client of the sidecar that `LEASEHOLD_ENDPOINT` names by default, else of `http://127.0.0.1:50951`. The sidecar may
   * start later: the client connects when a call needs it. Then a call that waits for a lock waits for the sidecar, too,
   * and others fail with an {@link UnreachableError} while none answers.
   *
   * @throws EndpointError when the endpoint or an option is invalid.
   * @throws PlatformError elsewhere than on Linux and macOS.
   */
  static async connect(options: ConnectOptions = {}): Promise<Client> {
    return await Client.connectBy(machineClock(), options);
  }

  /** @internal Connects by another clock than the machine's, and with other limits, for tests. */
  static connectBy(clock: Clock, options: ConnectOptions, tested: Partial<Limits> = {}): Promise<Client> {
    const { releaseTimeoutMs: releaseMs = LIMITS.releaseMs } = options;
    const limits = { ...LIMITS, releaseMs, ...tested };
    const connections = new Connections(dialer(options), limits.streams);
    return Promise.resolve(new Client(new Rpc(connections, clock, limits)));
  }

  /**
   * Takes the lock and keeps it until the hold is released: `await using hold = await client.hold(…)`.
   *
   * @throws BusyError when the lock was not acquired within `waitMs`; it says who has it.
   * @throws RefusedError when the sidecar refuses, or the connection breaks; with reason `UNSUPPORTED` when it is older
   *   than the request (S37).
   * @throws LostError when the grant was over before it could be used.
   */
  async hold(spec: LeaseSpec, options: HoldOptions = {}): Promise<Hold> {
    const wire = (waitMs: number): WireSpec => leaseSpec(spec, waitMs);
    return await openHold(this.rpc, this.holds, wire, spec.waitMs ?? 0, options);
  }

  /**
   * Takes the lock, runs `work`, and releases the lock however `work` ends. When the hold is lost `signal` aborts;
   * once `work` has ended then, this fails with a {@link LostError}, whose cause is what `work` threw. It fails as
   * {@link Hold.release} does where only that finds a loss, or was not confirmed; where `work` threw something of its
   * own, that is thrown, and what the release threw is its property `suppressed`. `options.signal` cancels the waiting, and aborts the work's signal after that.
   *
   * @throws BusyError, RefusedError, LostError as {@link Client.hold}; and what `work` throws.
   */
  async withHold<T>(spec: LeaseSpec, work: HeldWork<T>, options: HoldOptions = {}): Promise<T> {
    const hold = await this.hold(spec, options);
    const signal = options.signal === undefined ? hold.signal : AbortSignal.any([hold.signal, options.signal]);
    let result: T;
    try {
      result = await work(signal, hold);
    } catch (cause) {
      // Read before the release, which ends the hold.
      const { loss } = hold;
      await hold.release().catch((error: unknown) => {
        if (loss === undefined) attach(error, cause);
      });
      if (loss === undefined || cause instanceof LostError) throw cause;
      throw new LostError(loss, { cause });
    }
    await hold.release();
    return result;
  }

  /**
   * Leads: `for await (const term of client.lead(…))`. Each term is a hold of the lock, for which this waits as long as it
   * takes; it ends with the loop's body, which releases the lock, and the next term begins. So the body should go on until
   * `term.signal` aborts, and end without an error then: an error that it throws ends the leading, as `break` does. Both
   * release the lock. `options.signal` ends the waiting between terms, not a term.
   *
   * Between terms there is a pause of 0.1 to 1 s, and of up to 10 s while the sidecar or its store cannot be reached.
   *
   * @throws RefusedError when the sidecar refuses for good, or this client was closed; what {@link Hold.release} throws
   *   where the loop is left.
   */
  async *lead(spec: LeadSpec, options: HoldOptions = {}): AsyncGenerator<Hold, void, undefined> {
    const open = (): Promise<Hold> => this.hold({ ...spec, waitMs: Infinity }, options);
    yield* lead({ open, isClosed: () => this.rpc.isClosed, signal: options.signal });
  }

  /**
   * Runs `work` for as long as this leads, and again in each new term: when a term is lost, its signal aborts, and what
   * `work` gives or throws then is dropped. So is what it gives in a term that was revoked (its `notice`), and that notice
   * itself, thrown as the reason of `term.revokedSignal`. When `work` ends in any other term, this gives its result; any
   * other error of it this throws. `options.signal` ends the waiting, and aborts the work's signal.
   *
   * @throws as {@link Client.lead}; and what `work` throws.
   */
  async withTerms<T>(spec: LeadSpec, work: HeldWork<T>, options: HoldOptions = {}): Promise<T> {
    for await (const term of this.lead(spec, options)) {
      const signal = options.signal === undefined ? term.signal : AbortSignal.any([term.signal, options.signal]);
      try {
        const result = await work(signal, term);
        if (term.loss === undefined && term.notice === undefined) return result;
      } catch (error) {
        if (term.loss === undefined && error !== term.notice) throw error;
      }
    }
    throw new ProtocolError("the terms ended by themselves");
  }

  /**
   * Takes the lock by a unary call: the sidecar renews it until {@link Client.release}, `maxHoldMs` or shutdown,
   * whether or not this process lives. Prefer {@link Client.hold}.
   *
   * @throws BusyError, RefusedError, OccurrenceOverError
   */
  async acquire(spec: LeaseSpec, { signal }: CallOptions = {}): Promise<Grant> {
    const acquireOnce = async (waitMs: number): Promise<Grant> => {
      const wire = leaseSpec(spec, waitMs);
      const options = { signal, timeoutMs: waitMs + CALL_TIMEOUT_MS, lasting: true };
      const request = {
        spec: wire,
        needs: needs(AcquireLeaseRequest, { spec: wire }, NEWER_FIELDS.AcquireLeaseRequest),
      };
      const { outcome } = await this.rpc.unary(LeaseServiceService.acquireLease, request, options);
      if (outcome === undefined) throw new ProtocolError("an acquire was answered without an outcome");
      if (outcome.$case === "alreadyDone" || outcome.$case === "skipped") throw occurrenceOver(wire, outcome);
      if (outcome.$case === "busy") throw new BusyError(outcome.value);
      return outcome.value;
    };
    // S37: the sidecar may be replaced meanwhile, by one that is new enough.
    const acquire = async (waitMs: number): Promise<Grant> => {
      const end = performance.now() + waitMs;
      for (let [left, pause] = [waitMs, FIRST_PAUSE_MS]; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
        try {
          return await acquireOnce(left);
        } catch (error) {
          if (!isBelowNeeds(error) || performance.now() + pause >= end) throw error;
        }
        await sleep(pause, signal);
        left = Math.max(Math.round(end - performance.now()), 0);
      }
    };
    const { waitMs = 0 } = spec;
    // The call itself is made once: one of which nothing is known may have been granted.
    const began = performance.now();
    if (waitMs > 0) await this.rpc.awaitSidecar(waitMs, signal);
    if (waitMs === Infinity) return await withoutEnd(acquire);
    return await acquire(Math.max(Math.round(waitMs - (performance.now() - began)), 0));
  }

  /**
   * Releases a lock. Stop acting on it before calling this; may be repeated. The outcome `ALREADY_LOST` says that
   * somebody else may have had the lock before. A `checkpoint` is saved first; see `checkpointOutcome` of the result.
   *
   * @throws RefusedError with reason `UNKNOWN_LEASE` if the sidecar knows no such hold.
   * @throws OutcomeNotRecordedError if the lock was released, and the `outcome` not recorded, or that is not known.
   */
  async release(leaseId: string, options: ReleaseOptions = {}): Promise<ReleaseResult> {
    const result = await this.rpc.ending(this.rpc.release({ leaseId, generation: 0 }, endingOf(options)));
    if (options.outcome !== undefined) checkRecorded(result);
    return result;
  }

  /**
   * Replaces the checkpoint of a lock that {@link Client.acquire} has acquired. Prefer {@link Hold.save}.
   *
   * @throws RefusedError with reason `HOLD_LOST` if the hold is over, `CHECKPOINT_UNKNOWN` if that is not known (S27).
   */
  async saveCheckpoint(leaseId: string, value: Uint8Array | string): Promise<SaveCheckpointResponse> {
    return await this.rpc.saveCheckpoint({ leaseId, generation: 0 }, checkpointBytes("value", value));
  }

  /**
   * Sets a new bound of the hold, counted from now.
   *
   * @throws RefusedError with reason `HOLD_LOST` if the hold is over.
   */
  async extend(leaseId: string, maxHoldMs: number): Promise<ExtendLeaseResponse> {
    const request = { leaseId, generation: 0, maxHold: duration("maxHoldMs", maxHoldMs) };
    return await this.rpc.unary(LeaseServiceService.extendLease, request);
  }

  /**
   * Reports progress of the holder, and returns until when it may act.
   *
   * @throws RefusedError with reason `HOLD_LOST` or `HOLD_RELEASED` if the hold is over.
   */
  async reportProgress(leaseId: string): Promise<Validity> {
    return await this.rpc.reportProgress({ leaseId, generation: 0 });
  }

  /**
   * The validity, the limits and the state of a hold; changes nothing.
   *
   * @throws RefusedError with reason `HOLD_LOST` or `HOLD_RELEASED` if the hold is over.
   */
  async getHold(leaseId: string): Promise<GetHoldResponse> {
    return await this.rpc.getHold({ leaseId, generation: 0 });
  }

  /** The record of one lock. `withCheckpoint` reads the lock's checkpoint from the store, too. */
  async getLock(lock: LockSelector, options: GetLockOptions = {}): Promise<LockRecord> {
    const request = { lock: lockSelector(lock), withCheckpoint: options.withCheckpoint ?? false };
    const { record } = await this.rpc.unary(LeaseServiceService.getLock, request, options);
    if (record === undefined) throw new ProtocolError("it has no record of the lock");
    return record;
  }

  /** The records of locks in the order of their paths, page after page. */
  async *listLocks(options: ListOptions = {}): AsyncGenerator<LockRecord, void, undefined> {
    const { states = [], labels = {}, share = "", pageSize = 0, signal } = options;
    let pageToken = "";
    do {
      const request = { under: under(options), states: [...states], labels, share, pageSize, pageToken };
      const page = await this.rpc.unary(LeaseServiceService.listLocks, request, { signal });
      yield* page.records;
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
  }

  /**
   * The record of a lock now and at each change, until the loop over it ends or `signal` aborts. For those who want to
   * know when a lock becomes available; it excludes nobody. Opened again by itself when the connection breaks or goes
   * silent.
   *
   * @throws RefusedError when the store cannot be read, or no sidecar has answered for 90 s: watch again.
   */
  async *watchLock(lock: LockSelector, { signal }: CallOptions = {}): AsyncGenerator<LockRecord, void, undefined> {
    yield* watchLock(this.rpc, lockSelector(lock), signal);
  }

  /**
   * All locks under a host id or a prefix: their records, then each change, until the loop over it ends or `signal`
   * aborts. For people and dashboards; it excludes nobody. Opened again by itself when the connection breaks or goes
   * silent, and then tells what is different, and what is gone.
   *
   * @throws RefusedError when the store cannot be read, or no sidecar has answered for 90 s: watch again.
   */
  async *watchLocks(options: WatchOptions = {}): AsyncGenerator<LocksEvent, void, undefined> {
    const { labels, share = "", signal } = options;
    const request = { under: under(options), labels: { ...labels }, share };
    yield* watchLocks(this.rpc, request, signal);
  }

  /** What the sidecar is: its version, its limits and what it can do. */
  async getServerInfo(options: CallOptions = {}): Promise<ServerInfo> {
    return serverInfo(await this.rpc.unary(LeaseServiceService.getServerInfo, {}, options));
  }

  /** Compares a fencing token with the newest of its lock. */
  async checkToken(lock: LockSelector, fencingToken: number, options: CallOptions = {}): Promise<CheckTokenResponse> {
    const request = { lock: lockSelector(lock), fencingToken };
    return await this.rpc.unary(LeaseServiceService.checkToken, request, options);
  }

  /**
   * Ends the lease of a lock that somebody else has, for a reason that the holder and those who come later are told.
   *
   * @throws RefusedError with reason `BREAK_NOT_ENABLED` unless the operator enabled it, and with `OTHER_HOLDER` if the
   * lock has another holder by then.
   */
  async breakLock(lock: LockSelector, reason: string, options: BreakOptions = {}): Promise<BreakResult> {
    const { now = false, brokenBy = "", fencingToken, signal } = options;
    const mode = now ? BreakMode.NOW : BreakMode.RUN_OUT;
    const request = { lock: lockSelector(lock), reason, mode, brokenBy, fencingToken };
    const answer = await this.rpc.unary(LeaseServiceService.breakLock, request, { signal });
    const { outcome, freeIn, record } = answer;
    return { outcome, freeInMs: freeIn === undefined ? undefined : milliseconds(freeIn), record };
  }

  /** The lock path of a name, without acquiring the lock. */
  async resolvePath(name: LockKey, options: CallOptions = {}): Promise<ResolvePathResponse> {
    return await this.rpc.unary(LeaseServiceService.resolvePath, { key: lockKey(name) }, options);
  }

  /**
   * Releases what is still held, which is lost first (S13), and ends the connections. Waits for these releases, and for
   * those and the completions that are under way, as long as a release may take.
   */
  async close(): Promise<void> {
    await this.rpc.close(() => {
      for (const hold of [...this.holds]) hold.abandon();
    });
  }

  /** As {@link Client.close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Puts what a release threw beside what the work threw, which goes first. */
function attach(suppressed: unknown, to: unknown): void {
  if (to instanceof Error && Object.isExtensible(to)) Object.assign(to, { suppressed });
}

/** Asks again as long as the lock is busy: a unary call waits no longer than the sidecar allows. */
async function withoutEnd<T>(ask: (waitMs: number) => Promise<T>): Promise<T> {
  for (let waitMs = LONGEST_WAIT_MS; ;) {
    try {
      return await ask(waitMs);
    } catch (error) {
      if (isWaitTooLong(error) && waitMs > SHORTEST_ROUND_MS) waitMs = Math.max(waitMs / 2, SHORTEST_ROUND_MS);
      else if (!(error instanceof BusyError)) throw error;
    }
  }
}

function isWaitTooLong(error: unknown): boolean {
  if (!(error instanceof RefusedError) || error.reason !== Reason.INVALID_FIELD) return false;
  return error.violations.length > 0 && error.violations.every(({ field }) => field === "spec.wait");
}
