// Watches locks by streams, one after the other.

import { isDeepStrictEqual } from "node:util";

import type { MethodDefinition } from "@grpc/grpc-js";

import { FIRST_PAUSE_MS, LONGEST_PAUSE_MS } from "../constants.js";
import type { WatchLockResponse, WatchLocksRequest, WatchLocksResponse } from "../../gen/leasehold/v1/lease_service.js";
import { LeaseServiceService } from "../../gen/leasehold/v1/lease_service.js";
import type { LockRecord, LockSelector } from "../../gen/leasehold/v1/lock.js";
import { sleep } from "../duration.js";
import { isBreak } from "../errors/refusal.js";
import type { Rpc } from "../connect/rpc.js";

type Messages<T> = AsyncGenerator<T, void, undefined>;

/** What happens to the locks that are watched. */
export type LocksEvent =
  /** A lock's record, at first and after each change. */
  | { readonly type: "changed"; readonly record: LockRecord }
  /** A lock was deleted, or does not have the labels or the share any more. */
  | { readonly type: "gone"; readonly lockPath: string }
  /** Everything that is known was told: so many locks. Repeated at least every 30 s. `at` is for people. */
  | { readonly type: "listed"; readonly locks: number; readonly at: Date | undefined };

/** The record of a lock now and at each change, over as many streams as that takes. */
export async function* watchLock(
  rpc: Rpc,
  lock: LockSelector,
  signal: AbortSignal | undefined,
): AsyncGenerator<LockRecord, void, undefined> {
  let told: LockRecord | undefined;
  const open = (): Messages<WatchLockResponse> => messagesOf(rpc, LeaseServiceService.watchLock, { lock }, signal);
  for await (const { record } of overStreams(rpc, open, signal)) {
    // The sidecar repeats the last one, so that its silence is noticed.
    if (record === undefined || isDeepStrictEqual(record, told)) continue;
    told = record;
    yield record;
  }
}

/** What happens to locks, over as many streams as that takes: a new stream tells again only what is different. */
export async function* watchLocks(
  rpc: Rpc,
  request: WatchLocksRequest,
  signal: AbortSignal | undefined,
): AsyncGenerator<LocksEvent, void, undefined> {
  const told = new Map<string, LockRecord>();
  /** Those that the present stream has told; `undefined` once it has told all. */
  let seen: Set<string> | undefined;
  const open = (): Messages<WatchLocksResponse> => {
    seen = new Set();
    return messagesOf(rpc, LeaseServiceService.watchLocks, request, signal);
  };
  for await (const { event } of overStreams(rpc, open, signal)) {
    switch (event?.$case) {
      case "changed": {
        const record = event.value;
        seen?.add(record.lockPath);
        if (isDeepStrictEqual(record, told.get(record.lockPath))) break;
        told.set(record.lockPath, record);
        yield { type: "changed", record };
        break;
      }
      case "gone":
        if (told.delete(event.value)) yield { type: "gone", lockPath: event.value };
        break;
      case "listed":
        for (const lockPath of missing(told, seen)) {
          told.delete(lockPath);
          yield { type: "gone", lockPath };
        }
        seen = undefined;
        yield { type: "listed", locks: event.value.locks, at: event.value.at };
        break;
      // Not known to this version.
      case undefined:
    }
  }
}

/** Those that were told before the present stream began, and that it does not know any more. */
function missing(told: ReadonlyMap<string, LockRecord>, seen: ReadonlySet<string> | undefined): string[] {
  return seen === undefined ? [] : [...told.keys()].filter((lockPath) => !seen.has(lockPath));
}

/**
 * The messages of streams that `open` opens, one after the other. A watch that has told something goes on with another
 * stream when the connection breaks or goes silent, unless no sidecar answers for as long as a stream may be silent.
 */
async function* overStreams<T>(rpc: Rpc, open: () => Messages<T>, signal: AbortSignal | undefined): Messages<T> {
  let hasTold = false;
  let broken: number | undefined;
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    try {
      for await (const message of open()) {
        hasTold = true;
        broken = undefined;
        pause = FIRST_PAUSE_MS;
        yield message;
      }
      return;
    } catch (error) {
      const now = rpc.clock.read().latest;
      broken ??= now;
      const isLate = now - broken > rpc.limits.silenceMs;
      if (!hasTold || isLate || rpc.isClosed || !isBreak(error) || signal?.aborted === true) throw error;
    }
    await sleep(pause, signal);
  }
}

async function* messagesOf<Q, R>(
  rpc: Rpc,
  method: MethodDefinition<Q, R>,
  request: Q,
  signal: AbortSignal | undefined,
): Messages<R> {
  signal?.throwIfAborted();
  const stream = rpc.stream(method, request);
  const abort = (): void => {
    stream.cancel(signal?.reason as Error);
  };
  signal?.addEventListener("abort", abort);
  try {
    for (let message = await stream.next(); message !== undefined; message = await stream.next()) yield message;
  } finally {
    signal?.removeEventListener("abort", abort);
    stream.cancel();
  }
}
