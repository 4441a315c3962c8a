// Holds a lock until Ctrl-C, and says what happens to it: `node dist/samples/hold.js FUNCTION [SCOPE]`.

import { once } from "node:events";

import { BusyError, Client, LostError } from "leasehold-client";

const [name = "sample", scope = ""] = process.argv.slice(2);

await using client = await Client.connect();
try {
  await client.withHold(
    { function: name, scope, waitMs: 60_000 },
    async (signal, hold) => {
      console.log(`${hold.lockPath} is ours, token ${String(hold.fencingToken)}`);
      await once(process, "SIGINT", { signal });
    },
    {
      onEvent: (event) => {
        console.log(event);
      },
    },
  );
  console.log("released");
} catch (error) {
  if (error instanceof BusyError) console.log(error.message);
  else if (error instanceof LostError) console.log(`lost: ${error.message}`);
  else throw error;
}
