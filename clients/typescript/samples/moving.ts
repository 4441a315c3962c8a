/** What docs/moving.md shows. */
import { Client } from "leasehold-client";

const parts = ["one", "two"];
const client = await Client.connect();
await client.withHold({ function: "import", waitMs: 10_000 }, async (signal, hold) => {
  for (const part of parts) {
    signal.throwIfAborted();
    await load(part, hold.fencingToken);
  }
});
await client.close();

async function load(part: string, fencingToken: number): Promise<void> {
  console.log(`loaded ${part} with token ${String(fencingToken)}`);
  await Promise.resolve();
}
