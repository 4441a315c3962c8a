// Does something for as long as this process leads, until Ctrl-C: `node dist/samples/leader.js FUNCTION`.

import { once } from "node:events";

import { Client } from "leasehold-client";

const [name = "sample"] = process.argv.slice(2);
const stop = new AbortController();
process.once("SIGINT", () => {
  stop.abort();
});

await using client = await Client.connect();
try {
  for await (const term of client.lead({ function: name }, { signal: stop.signal })) {
    console.log(`leading, token ${String(term.fencingToken)}`);
    const ended = AbortSignal.any([term.signal, term.revokedSignal, stop.signal]);
    if (!ended.aborted) await once(ended, "abort");
    if (stop.signal.aborted) break;
    console.log(`not leading any more: ${String(ended.reason)}`);
  }
} catch (error) {
  if (error !== stop.signal.reason) throw error;
}
console.log("stopped");
