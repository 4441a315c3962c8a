// How an account's movements are applied in order: by whoever holds the account's lock.

import { setTimeout } from "node:timers/promises";

import { BusyError, type Client, type Hold } from "leasehold-client";

import type { Accounts, Movement } from "./accounts.js";
import { event } from "./events.js";

/** The locks of all accounts have this name; the account is their scope. */
export const LOCK = "movements";

/** The shortest lease: when a sidecar dies, its accounts wait no longer than this. */
export const LEASE_MS = 15_000;

/**
 * Applies what waits for an account; false if another worker is at it. That one looks once more after its release, so a
 * movement that was added meanwhile is not left behind, unless it dies.
 */
export async function drain(client: Client, accounts: Accounts, account: string, stop: AbortSignal): Promise<boolean> {
  while (!stop.aborted && (await accounts.hasWaiting(account))) {
    try {
      await using hold = await client.hold({ function: LOCK, scope: account, leaseDurationMs: LEASE_MS });
      await drainHeld(hold, accounts, account, stop);
    } catch (error) {
      if (error instanceof BusyError) return false;
      throw error;
    }
  }
  return true;
}

/** Applies one movement after the other under a lock, until none waits, or the lock or the worker is to end. */
export async function drainHeld(hold: Hold, accounts: Accounts, account: string, stop: AbortSignal): Promise<void> {
  const token = hold.fencingToken;
  while (!stop.aborted && !hold.revokedSignal.aborted) {
    const movement = await accounts.first(account, token);
    if (movement === undefined) return;
    // It may be long ago that this was asked: the process may have been frozen meanwhile.
    hold.throwIfLost();
    event("begin", { ...movement, token });
    await work(movement, hold.signal);
    hold.throwIfLost();
    event("end", { ...movement, token });
    await accounts.apply(movement, token);
    event("applied", { ...movement, token });
  }
}

/** Stands for what takes time, now more and now less, such as a request to a bank. It may be repeated after a kill. */
export async function work({ number }: Movement, signal?: AbortSignal): Promise<void> {
  const usual = Number(process.env["WORK_MS"] ?? 20);
  await setTimeout(usual * (0.5 + ((number * 37) % 100) / 100), undefined, signal && { signal });
}
