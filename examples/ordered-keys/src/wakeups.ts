// The queue of BullMQ that tells workers which accounts to look at. It says where to look, not what to do: losing a
// wake-up or having one twice does no harm.

import { type Job, Queue, Worker } from "bullmq";
import type { Redis } from "ioredis";

const NAME = "wakeups";
const LATER_MS = 2_000;
/** A worker whose sidecar restarts fails; the wake-up is for another one then. */
const AGAIN = { attempts: 20, backoff: { type: "fixed", delay: 1_000 } };

/** Where wake-ups are sent to. */
export class Wakeups {
  readonly #queue: Queue<string>;

  constructor(connection: Redis) {
    this.#queue = new Queue(NAME, { connection });
  }

  /** Has some worker look at each of these accounts; `first`: before all others that wait. */
  async wake(accounts: string[], { first = false } = {}): Promise<void> {
    const opts = { ...AGAIN, lifo: first, removeOnComplete: true, removeOnFail: true };
    await this.#queue.addBulk(accounts.map((account) => ({ name: "wake", data: account, opts })));
  }

  /**
   * Has some worker look at an account again in a while; once, however often this is asked for meanwhile. An account that
   * another worker is at needs this: that one may have died, and its lease may run for as long as it can.
   */
  async wakeLater(account: string): Promise<void> {
    const deduplication = { id: account, ttl: LATER_MS - 500 };
    const opts = { ...AGAIN, delay: LATER_MS, deduplication, removeOnComplete: true, removeOnFail: true };
    await this.#queue.add("wake", account, opts);
  }

  /** Ends the connection. */
  async close(): Promise<void> {
    await this.#queue.close();
  }
}

/** Looks at one account at a time, until closed. The wake-up of a worker that died is repeated after some 10 s. */
export function onWakeup(connection: Redis, look: (account: string) => Promise<void>): Worker {
  const options = { connection, lockDuration: 10_000, stalledInterval: 5_000, maxStalledCount: 100 };
  const worker = new Worker(
    NAME,
    async ({ data }: Job<string>) => {
      await look(data);
    },
    options,
  );
  worker.on("error", (error) => {
    console.error(`the queue: ${error.message}`);
  });
  worker.on("failed", (job, error) => {
    console.error(`account ${String(job?.data)}: ${error.message}`);
  });
  return worker;
}
