// Watches a lock by streams, one after the other.

import { setTimeout } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";

import { LeaseServiceService } from "../gen/leasehold/v1/lease_service.js";
import type { LockRecord, LockSelector } from "../gen/leasehold/v1/lock.js";
import { isBreak } from "./refusal.js";
import type { Rpc } from "./rpc.js";

/** The pause after the connection broke; doubled up to {@link LONGEST_PAUSE_MS}. */
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;

/**
 * The record of a lock now and at each change. A watch that has told a record goes on with another stream when the
 * connection breaks or goes silent, unless no sidecar answers for as long as a stream may be silent.
 */
export async function* watchLock(
  rpc: Rpc,
  lock: LockSelector,
  signal: AbortSignal | undefined,
): AsyncGenerator<LockRecord, void, undefined> {
  let told: LockRecord | undefined;
  let broken: number | undefined;
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    try {
      for await (const record of watchOnce(rpc, lock, signal)) {
        broken = undefined;
        pause = FIRST_PAUSE_MS;
        // The sidecar repeats the last one, so that its silence is noticed.
        if (isDeepStrictEqual(record, told)) continue;
        told = record;
        yield record;
      }
      return;
    } catch (error) {
      const now = rpc.clock.read().latest;
      broken ??= now;
      const isLate = now - broken > rpc.limits.silenceMs;
      if (told === undefined || isLate || !isBreak(error) || signal?.aborted === true) throw error;
    }
    await setTimeout(pause, undefined, signal === undefined ? {} : { signal }).catch(() => signal?.throwIfAborted());
  }
}

async function* watchOnce(
  rpc: Rpc,
  lock: LockSelector,
  signal: AbortSignal | undefined,
): AsyncGenerator<LockRecord, void, undefined> {
  signal?.throwIfAborted();
  const stream = rpc.stream(LeaseServiceService.watchLock, { lock });
  const abort = (): void => {
    stream.cancel(signal?.reason as Error);
  };
  signal?.addEventListener("abort", abort);
  try {
    for (let message = await stream.next(); message !== undefined; message = await stream.next()) {
      if (message.record !== undefined) yield message.record;
    }
  } finally {
    signal?.removeEventListener("abort", abort);
    stream.cancel();
  }
}
