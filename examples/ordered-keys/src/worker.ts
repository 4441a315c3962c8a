// A worker: looks at the accounts that it is woken for, and takes part in finding those that nobody is at.

import { Client, LockState } from "leasehold-client";

import { Accounts, connectRedis } from "./accounts.js";
import { LEASE_MS, LOCK, drain } from "./drain.js";
import { event } from "./events.js";
import { Wakeups, onWakeup } from "./wakeups.js";

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    stop.abort();
  });
}

const redis = connectRedis();
const accounts = new Accounts(redis);
const wakeups = new Wakeups(redis);
await using client = await Client.connect();

const worker = onWakeup(redis, async (account) => {
  const isDrained = await drain(client, accounts, account, stop.signal);
  // What is left when this worker ends is for the others.
  if (stop.signal.aborted) await wakeups.wake([account]);
  else if (!isDrained) await wakeups.wakeLater(account);
});
event("ready", {});

/** Wakes workers for accounts that have movements and no holder: its worker died, or its wake-up was lost. */
async function sweep(): Promise<void> {
  const waiting = new Set(await accounts.waiting());
  for await (const { key } of client.listLocks({ states: [LockState.HELD], pageSize: 200 })) {
    if (key?.function === LOCK) waiting.delete(key.scope);
  }
  // They have waited longest.
  await wakeups.wake([...waiting], { first: true });
  event("sweep", { woken: waiting.size });
}

const schedule = { function: "sweep", everyMs: 10_000, leaseDurationMs: LEASE_MS, takeoverCheckMs: 2_000 };
await client.every(schedule, sweep, { signal: stop.signal });

await worker.close();
await wakeups.close();
redis.disconnect();
