// Runs something on each occurrence of a schedule, until Ctrl-C: `node dist/samples/every.js FUNCTION CRON`.

import { setTimeout } from "node:timers/promises";

import { Client } from "leasehold-client";

const [name = "sample", cron = "@every 10s"] = process.argv.slice(2);
const stop = new AbortController();
process.once("SIGINT", () => {
  stop.abort();
});

async function report(of: Date, token: number, signal: AbortSignal): Promise<void> {
  console.log(`the report of ${of.toISOString()}, token ${String(token)}`);
  await setTimeout(100, undefined, { signal });
}

await using client = await Client.connect();
const nightly = { function: name, cron, timeZone: "Europe/Copenhagen" };
await client.every(
  nightly,
  async (run, signal) => {
    await report(run.scheduledAt, run.fencingToken, signal);
  },
  { signal: stop.signal },
);
console.log("stopped");
