import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "leasehold-client";

const client = await Client.connect();
await client.withHold({ function: "nightly-report", waitMs: 30_000 }, async (signal, hold) => {
  console.log(`writing the report with token ${String(hold.fencingToken)}`);
  await sleep(1_000, undefined, { signal }); // stands for the work: it ends when the lock is lost
});
await client.close();
