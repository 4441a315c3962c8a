// How fast holds are through the client, and through the generated stub alone.

import { credentials } from "@grpc/grpc-js";
import { DEFAULT_ENDPOINT, ENDPOINT_VARIABLE } from "leasehold-client";
import type { Client } from "leasehold-client";
import { LeaseServiceClient, LeaseSpec, LockKey, ReleaseLeaseRequest } from "leasehold-client/proto";
import type { HoldLeaseResponse } from "leasehold-client/proto";

/** Short, so that what else the machine does slows both alike. */
const TURN = 20;
/** Turns of each that do not count: until then the engine is still compiling. */
const WARM_UP_TURNS = 15;

/** Those of the client's that change what a call costs, and a connection of its own. */
const CHANNEL_OPTIONS = {
  "grpc.enable_http_proxy": 0,
  "grpc.enable_retries": 0,
  "grpc.service_config_disable_resolution": 1,
  "grpc.use_local_subchannel_pool": 1,
};

/** Holds and releases a second. */
export interface Rates {
  readonly client: number;
  readonly stub: number;
}

/** Takes and releases the lock of `name` so many times by each, in turns. */
export async function measure(client: Client, name: string, times: number): Promise<Rates> {
  const stub = new LeaseServiceClient(target(), credentials.createInsecure(), CHANNEL_OPTIONS);
  const byClient = async (): Promise<void> => {
    const hold = await client.hold({ function: name, waitMs: Infinity });
    await hold.release();
  };
  const byStub = (): Promise<void> => holdByStub(stub, name);
  const spent: { client: number[]; stub: number[] } = { client: [], stub: [] };
  for (let turn = -WARM_UP_TURNS; turn * TURN < times; turn += 1) {
    // Each goes first every other time, because the end of a client's last stream is read in the turn after it.
    const turns = turn % 2 === 0 ? (["client", "stub"] as const) : (["stub", "client"] as const);
    for (const who of turns) {
      const took = await timed(who === "client" ? byClient : byStub);
      if (turn >= 0) spent[who].push(took);
    }
  }
  stub.close();
  return { client: rate(spent.client), stub: rate(spent.stub) };
}

/** How often a second, by the median turn: what else the machine does makes some turns slow. */
function rate(turns: number[]): number {
  const median = turns.sort((a, b) => a - b)[Math.floor(turns.length / 2)] ?? NaN;
  return (TURN * 1_000) / median;
}

function target(): string {
  const endpoint = process.env[ENDPOINT_VARIABLE] ?? DEFAULT_ENDPOINT;
  if (endpoint.startsWith("unix:")) return endpoint;
  if (endpoint.startsWith("http:")) return new URL(endpoint).host;
  throw new Error("only connections without TLS are measured");
}

/** The milliseconds that a turn takes. */
async function timed(action: () => Promise<void>): Promise<number> {
  const begun = performance.now();
  for (let count = 0; count < TURN; count += 1) await action();
  return performance.now() - begun;
}

/** HoldLease until it is granted, then ReleaseLease, reading on to Released. */
async function holdByStub(stub: LeaseServiceClient, name: string): Promise<void> {
  const key = LockKey.create({ function: name });
  const spec = LeaseSpec.create({ key, wait: { seconds: 60, nanos: 0 } });
  await new Promise<void>((resolve, reject) => {
    const stream = stub.holdLease({ start: { $case: "spec", value: spec }, needs: 1 });
    let released = false;
    const done = (error?: unknown): void => {
      if (error instanceof Error) reject(error);
      else if (released) resolve();
      else reject(new Error("the stream ended before the release"));
    };
    let answers = 0;
    const answered = (error?: unknown): void => {
      answers += 1;
      if (error instanceof Error || answers === 2) done(error);
    };
    stream.on("data", ({ event }: HoldLeaseResponse) => {
      if (event?.$case === "released") released = true;
      if (event?.$case === "granted")
        stub.releaseLease(
          ReleaseLeaseRequest.create({ leaseId: event.value.leaseId, generation: event.value.generation }),
          answered,
        );
    });
    stream.on("error", answered);
    stream.on("end", () => {
      answered();
    });
  });
}
