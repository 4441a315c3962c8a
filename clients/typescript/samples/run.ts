// Holds a lock while a command runs, and kills it when the lock is lost:
// `node dist/samples/run.js FUNCTION -- COMMAND…`. The exit code is the command's; 75 when the lock is busy, 76 when lost.

import { spawn } from "node:child_process";
import { once } from "node:events";

import { BusyError, Client, LostError } from "leasehold-client";

const [name, dashes, command, ...parameters] = process.argv.slice(2);
if (name === undefined || dashes !== "--" || command === undefined) {
  console.error("usage: run FUNCTION -- COMMAND…");
  process.exit(64);
}

await using client = await Client.connect();
try {
  process.exitCode = await client.withHold({ function: name }, async (signal, hold) => {
    const env = { ...process.env, LEASEHOLD_FENCING_TOKEN: String(hold.fencingToken) };
    const child = spawn(command, parameters, { env, killSignal: "SIGKILL", signal, stdio: "inherit" });
    const [code] = (await once(child, "exit")) as [number | null];
    return code ?? 1;
  });
} catch (error) {
  if (!(error instanceof BusyError || error instanceof LostError)) throw error;
  console.error(error.message);
  process.exitCode = error instanceof BusyError ? 75 : 76;
}
