// The other way: a worker holds partitions of the accounts for as long as it lives, and takes no lock for each account.

import { setTimeout } from "node:timers/promises";

import { Client, type Hold } from "leasehold-client";

import { Accounts, connectRedis } from "./accounts.js";
import { LEASE_MS, drainHeld } from "./drain.js";
import { event } from "./events.js";

const PARTITIONS = 32;
const LOOK_EVERY_MS = 100;

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    stop.abort();
  });
}

const redis = connectRedis();
const accounts = new Accounts(redis);
await using client = await Client.connect();

/** Competes for a partition. A replica that has many leaves free ones to others, and yields to those that have least. */
async function lead(partition: number): Promise<void> {
  const name = { function: "partition", scope: String(partition), leaseDurationMs: LEASE_MS };
  const request = { ...name, share: "partitions", yields: true, rebalance: true };
  for await (const term of client.lead(request, { signal: stop.signal })) {
    const ended = AbortSignal.any([term.signal, term.revokedSignal, stop.signal]);
    await drainPartition(partition, term, ended).catch((error: unknown) => {
      console.error(`partition ${String(partition)}: ${String(error)}`);
    });
  }
}

/** Applies what waits for the partition's accounts until the term ends; finishes the movement that it is at. */
async function drainPartition(partition: number, term: Hold, ended: AbortSignal): Promise<void> {
  while (!ended.aborted) {
    const waiting = await accounts.waiting();
    for (const account of waiting.filter((each) => partitionOf(each) === partition)) {
      await drainHeld(term, accounts, account, ended);
    }
    await setTimeout(LOOK_EVERY_MS);
  }
}

/** The partition of an account: the same everywhere, for as long as the number of partitions stays. */
function partitionOf(account: string): number {
  let hash = 0;
  for (const byte of Buffer.from(account)) hash = (Math.imul(hash, 31) + byte) >>> 0;
  return hash % PARTITIONS;
}

event("ready", {});
await Promise.allSettled(Array.from({ length: PARTITIONS }, (_, partition) => lead(partition)));
redis.disconnect();
