// Leads: holds a lock term after term.

import { FIRST_TERM_PAUSE_MS, LONGEST_TERM_PAUSE_MS, SHORTEST_TERM_PAUSE_MS } from "../constants.js";
import { sleep } from "../duration.js";
import { BusyError, LostError } from "../errors/errors.js";
import type { Hold } from "./hold.js";
import { mayPass } from "../errors/refusal.js";

/** The pause in milliseconds before the lock is asked for again, after so many failures in a row. */
export function leadPauseMs(failures: number, random: number): number {
  const longest = Math.min(FIRST_TERM_PAUSE_MS * 2 ** failures, LONGEST_TERM_PAUSE_MS);
  return SHORTEST_TERM_PAUSE_MS + random * (longest - SHORTEST_TERM_PAUSE_MS);
}

/** What asks for a term, and until when. */
export interface Candidate {
  /** Waits for the lock. */
  readonly open: () => Promise<Hold>;
  /** Whether the client was closed, so that no term can begin any more. */
  readonly isClosed: () => boolean;
  readonly signal: AbortSignal | undefined;
}

/** Term after term, each released when the loop goes on or is left. See {@link Client.lead}. */
export async function* lead(candidate: Candidate): AsyncGenerator<Hold, void, undefined> {
  const { open, isClosed, signal } = candidate;
  for (let failures = 0; ;) {
    signal?.throwIfAborted();
    let term: Hold | undefined;
    try {
      term = await open();
      failures = 0;
    } catch (error) {
      if (isClosed() || !mayLeadLater(error)) throw error;
    }
    if (term !== undefined) yield* during(term);
    await sleep(leadPauseMs(failures, Math.random()), signal);
    if (term === undefined) failures += 1;
  }
}

/** One term, and its release. Where the loop is left, that tells what the release throws. */
async function* during(term: Hold): AsyncGenerator<Hold, void, undefined> {
  let isLeft = true;
  try {
    yield term;
    isLeft = false;
  } finally {
    if (isLeft) await term.release();
  }
  // However this ends the term is over: it was lost, or the lock is available when its lease runs out.
  await term.release().catch(() => undefined);
}

/** Whether another try may succeed: a term was lost, or the sidecar or its store is away or overloaded. */
function mayLeadLater(error: unknown): boolean {
  if (error instanceof LostError || error instanceof BusyError) return true;
  return mayPass(error);
}
