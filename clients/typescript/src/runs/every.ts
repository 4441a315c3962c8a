// Runs a function on each occurrence.

import { LossReason } from "../../gen/leasehold/v1/hold.js";
import { sleep } from "../duration.js";
import { leadPauseMs } from "../hold/lead.js";
import { mayPass } from "../errors/refusal.js";
import type { Rpc } from "../connect/rpc.js";
import type { Completion } from "./completion.js";
import type { Run } from "./run.js";
import type { Runs, RunsOptions } from "./runs.js";
import { leave } from "./runs.js";

/** Runs an occurrence; `signal` aborts when the run is lost, at its deadline, or when the caller is to stop. */
// eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- so that a function without a result will do
export type RunWork = (run: Run, signal: AbortSignal) => Promise<Completion | undefined | void>;

/** How to run a function on each occurrence. */
export type EveryOptions = RunsOptions;

/** A caller that runs what falls to it. */
export interface Worker {
  readonly rpc: Rpc;
  readonly runs: Runs;
  readonly work: RunWork;
  readonly signal: AbortSignal | undefined;
}

/** Goes on until the signal aborts. See `Client.every`. */
export async function every(worker: Worker): Promise<void> {
  const { rpc, runs, signal } = worker;
  const isStopped = (): boolean => signal?.aborted === true;
  try {
    for (let failures = 0; !isStopped();) {
      let run: Run | undefined;
      try {
        run = await runs.next();
        failures = 0;
      } catch (error) {
        if (isStopped()) return;
        if (rpc.isClosed || !mayPass(error)) throw error;
      }
      if (run !== undefined) {
        await workOn(run, worker);
        continue;
      }
      await sleep(leadPauseMs(failures, Math.random()), signal).catch((error: unknown) => {
        if (!isStopped()) throw error;
      });
      failures += 1;
    }
  } finally {
    runs.close();
  }
}

/** One run, from its beginning until its outcome was recorded. */
async function workOn(run: Run, { rpc, work, signal }: Worker): Promise<void> {
  const stopping = signal === undefined ? run.signal : AbortSignal.any([run.signal, signal]);
  let completion: Completion;
  try {
    completion = (await work(run, stopping)) ?? { outcome: "succeeded" };
  } catch (error) {
    completion = failure(run, error, signal);
  }
  const giveUp = soonAfter(signal, rpc.limits.releaseMs);
  try {
    await run.complete(completion, { signal: giveUp.signal });
  } catch (error) {
    // What is not answered by then expires. Of a run that was lost it is said so that its sidecar grants another one (T24);
    // else a new stream does.
    if (!giveUp.signal.aborted && run.loss === undefined) throw error;
  } finally {
    giveUp.clear();
    // What cannot be sent has completed nothing.
    await leave(run);
  }
}

/** How a run has ended whose work has thrown `error`. */
function failure(run: Run, error: unknown, signal: AbortSignal | undefined): Completion {
  if (run.loss?.reason === LossReason.MAX_HOLD_REACHED) {
    return { outcome: "failedFinal", detail: "stopped at its deadline" };
  }
  const isStopped = signal?.aborted === true || run.loss !== undefined;
  return isStopped ? { outcome: "returned" } : { outcome: "failed", detail: textOf(error) };
}

/** Aborts `ms` after `signal`. */
function soonAfter(signal: AbortSignal | undefined, ms: number): { signal: AbortSignal; clear: () => void } {
  const controller = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const begin = (): void => {
    timer = setTimeout(() => {
      controller.abort();
    }, ms);
  };
  if (signal?.aborted === true) begin();
  else signal?.addEventListener("abort", begin);
  const clear = (): void => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", begin);
  };
  return { signal: controller.signal, clear };
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
