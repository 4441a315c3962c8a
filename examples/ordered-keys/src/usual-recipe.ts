// Not to be copied: the usual recipe, which the chaos test shows to break the order. A key in Redis is the lock, it ends
// by a time-out that nobody renews, and nothing refuses who comes late.

import { randomUUID } from "node:crypto";

import { connectRedis, ledger, list } from "./accounts.js";
import { work } from "./drain.js";
import { event } from "./events.js";
import { Wakeups, onWakeup } from "./wakeups.js";

const TIMEOUT_MS = 1_000;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end`;

const redis = connectRedis();
const wakeups = new Wakeups(redis);

async function drain(account: string): Promise<void> {
  while ((await redis.exists(list(account))) === 1) {
    const mine = randomUUID();
    if ((await redis.set(`lock:${account}`, mine, "PX", TIMEOUT_MS, "NX")) === null) return;
    for (let text = await redis.lpop(list(account)); text !== null; text = await redis.lpop(list(account))) {
      const { number, amount } = JSON.parse(text) as { number: number; amount: number };
      event("begin", { account, number, amount });
      await work({ account, number, amount });
      event("end", { account, number, amount });
      const balance = await redis.hincrby("balances", account, amount);
      await redis.rpush(ledger(account), JSON.stringify({ number, balance }));
      event("applied", { account, number, amount });
    }
    await redis.srem("waiting", account);
    await redis.eval(RELEASE, 1, `lock:${account}`, mine);
  }
}

const worker = onWakeup(redis, drain);
event("ready", {});
process.once("SIGTERM", () => {
  void worker.close().then(async () => {
    await wakeups.close();
    redis.disconnect();
  });
});
