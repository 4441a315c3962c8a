// Takes part in a schedule, and holds locks for named occurrences.

import { once } from "node:events";

import { OccurrenceOverError, OutcomeNotRecordedError, OutcomeResult, lossReasonName } from "leasehold-client";
import type { Outcome, ReleaseResult, Run, RunsOptions, Subscription } from "leasehold-client";

import type { Command, Running } from "./talk.js";
import { connected, nameOf, running, say, sayEvent, sayFailure } from "./talk.js";

const OUTCOMES: Readonly<Record<string, Outcome>> = {
  SUCCEEDED: "succeeded",
  FAILED: "failed",
  RETURNED: "returned",
};

function outcomeNamed(name: string): Outcome {
  const outcome = OUTCOMES[name];
  if (outcome === undefined) throw new Error(`no outcome is called ${name}`);
  return outcome;
}

function scheduleNamed({ function: name = "", every_ms = 0, backoff_ms = 0, run_timeout_ms }: Command): Subscription {
  const timeout = run_timeout_ms === undefined ? {} : { runTimeoutMs: run_timeout_ms };
  return { function: name, everyMs: every_ms, backoffMs: backoff_ms, ...timeout };
}

/** Says what happens. */
function telling(id: string, signal: AbortSignal): RunsOptions {
  return {
    signal,
    onEvent: ({ type }) => {
      if (type === "subscribed" || type === "interrupted") say(id, type);
    },
    onHoldEvent: (event) => {
      sayEvent(id, event);
    },
  };
}

function sayRun(id: string, { scheduledAt, attempt, fencingToken: token }: Run): void {
  say(id, "run", { at: scheduledAt.getTime() / 1_000, attempt, token });
}

/** Completes each run as it is told to, until it is cancelled. */
export async function runs(command: Command): Promise<void> {
  const { id } = command;
  const abort = new AbortController();
  const entry: Running = { abort };
  running.set(id, entry);
  const cancelled = once(abort.signal, "abort");
  try {
    const taking = (await connected()).runs(scheduleNamed(command), telling(id, abort.signal));
    for await (const run of taking) {
      const told = new Promise<string>((resolve) => {
        entry.complete = resolve;
      });
      sayRun(id, run);
      await Promise.race([told, cancelled]);
      if (abort.signal.aborted) break;
      const { result } = await run.complete({ outcome: outcomeNamed(await told) });
      say(id, "completed", { result: nameOf("COMPLETION_RESULT_", result) });
    }
  } catch (error) {
    sayFailure(id, error, abort);
  }
}

/** Runs a function that hangs: whatever becomes of its run, it returns when it is told to, and not before. */
export async function every(command: Command): Promise<void> {
  const { id } = command;
  const abort = new AbortController();
  const entry: Running = { abort };
  running.set(id, entry);
  const hang = async (run: Run): Promise<void> => {
    sayRun(id, run);
    run.signal.addEventListener("abort", () => {
      if (run.loss !== undefined) say(id, "lost", { reason: lossReasonName(run.loss.reason) });
    });
    await new Promise<string>((resolve) => {
      entry.complete = resolve;
    });
  };
  try {
    await (await connected()).every(scheduleNamed(command), hang, telling(id, abort.signal));
    say(id, "aborted");
  } catch (error) {
    sayFailure(id, error, abort);
  }
}

/** Holds a lock for an occurrence, and releases it with the outcome, if there is one. */
export async function occurrence({ id, function: name = "", at = 0, outcome }: Command): Promise<void> {
  try {
    const held = await (await connected()).hold({ function: name, occurrence: new Date(at * 1_000) });
    const release = outcome === undefined || outcome === null ? {} : { outcome: outcomeNamed(outcome) };
    const result = await held.release(release).catch((error: unknown): ReleaseResult => {
      if (error instanceof OutcomeNotRecordedError) return error.result;
      throw error;
    });
    say(id, "released", { attempt: held.attempt, recorded: result.outcomeResult === OutcomeResult.RECORDED });
  } catch (error) {
    if (!(error instanceof OccurrenceOverError)) throw error;
    say(id, "over", { outcome: error.run === undefined ? null : nameOf("RUN_OUTCOME_", error.run.outcome) });
  }
}
