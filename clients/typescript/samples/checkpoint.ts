// Works through numbered items, and goes on where the last holder stopped: `node dist/samples/checkpoint.js FUNCTION ITEMS`.
// When the lock is broken there is notice: the sample saves, releases, and leaves the rest to the next holder.

import { setTimeout } from "node:timers/promises";

import { Client } from "leasehold-client";

const [name = "sample", items = "100"] = process.argv.slice(2);

await using client = await Client.connect();
await using hold = await client.hold({ function: name, waitMs: Infinity });

let { next } = (hold.checkpoint?.json() ?? { next: 0 }) as { next: number };
console.log(`from item ${String(next)}, token ${String(hold.fencingToken)}`);
while (next < Number(items) && !hold.revokedSignal.aborted) {
  await work(next, hold.signal);
  next += 1;
  await hold.saveJson({ next });
}
await hold.release({ checkpoint: JSON.stringify({ next }) });
const notice = hold.notice === undefined ? "" : `, told to stop: ${hold.notice.reason}`;
console.log(`up to item ${String(next)}${notice}`);

/** Stands for the work on one item. */
async function work(item: number, signal: AbortSignal): Promise<void> {
  console.log(`item ${String(item)}`);
  await setTimeout(1_000, undefined, { signal });
}
