// Adds movements to accounts, most of them to few: `node dist/publish.js MOVEMENTS A_SECOND SEED`.

import { setTimeout } from "node:timers/promises";

import { Accounts, connectRedis } from "./accounts.js";
import { event } from "./events.js";
import { Wakeups } from "./wakeups.js";

const ACCOUNTS = 200;
const BATCH_MS = 100;

const [movements = 1_000, aSecond = 200, seed = 1] = process.argv.slice(2).map(Number);
const redis = connectRedis();
const accounts = new Accounts(redis);
const wakeups = new Wakeups(redis);

/** Numbers from 0 to below 1 that a seed gives (mulberry32). */
function randomOf(state: number): () => number {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Zipf's law: the account at rank r has a part of 1/r. */
const bounds: number[] = [];
for (let rank = 1; rank <= ACCOUNTS; rank += 1) bounds.push((bounds.at(-1) ?? 0) + 1 / rank);

const random = randomOf(seed);
const atOnce = Math.max(1, Math.round((aSecond * BATCH_MS) / 1_000));
for (let sent = 0; sent < movements; sent += atOnce) {
  const pause = setTimeout(BATCH_MS);
  const batch = Array.from({ length: Math.min(atOnce, movements - sent) }, async () => {
    const at = random() * (bounds.at(-1) ?? 0);
    const account = `account-${String(bounds.findIndex((bound) => at < bound) + 1)}`;
    const amount = Math.floor(random() * 200) - 100;
    const number = await accounts.add(account, amount);
    event("added", { account, number, amount });
    await wakeups.wake([account]);
  });
  await Promise.all(batch);
  await pause;
}

await wakeups.close();
redis.disconnect();
