import { Client } from "leasehold-client";

await using client = await Client.connect();
await using hold = await client.hold({ function: "nightly-report", waitMs: 30_000 });
await writeReport(hold.fencingToken, hold.signal);

/** Stands for the work: it sends the token with each write, and stops when the signal aborts. */
async function writeReport(fencingToken: number, signal: AbortSignal): Promise<void> {
  for (let page = 1; page <= 3; page += 1) {
    signal.throwIfAborted();
    console.log(`page ${String(page)}, token ${String(fencingToken)}`);
    await Promise.resolve();
  }
}
