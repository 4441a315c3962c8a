// Durations to and from the wire; everywhere else they are milliseconds. And how one passes.

import { setTimeout } from "node:timers/promises";

import type { Duration } from "../gen/google/protobuf/duration.js";

/** The longest duration that protobuf allows: about 10,000 years. */
const LONGEST_SECONDS = 315_576_000_000;

/** The milliseconds of a duration from the wire; 0 for an absent or a negative one, which only ends holds earlier. */
export function milliseconds(wire: Duration | undefined): number {
  if (wire === undefined) return 0;
  const value = wire.seconds * 1_000 + wire.nanos / 1_000_000;
  return Number.isFinite(value) && value > 0 ? value : 0;
}

/** A duration for the wire; the longest there is if it is longer. What is no duration is a `RangeError`. */
export function duration(name: string, value: number): Duration {
  if (Number.isNaN(value) || value < 0) {
    throw new RangeError(`${name} is ${String(value)}: it must be a number of milliseconds, 0 or more`);
  }
  if (value >= LONGEST_SECONDS * 1_000) return { seconds: LONGEST_SECONDS, nanos: 0 };
  const seconds = Math.floor(value / 1_000);
  const nanos = Math.min(Math.round((value - seconds * 1_000) * 1_000_000), 999_999_999);
  return { seconds, nanos };
}

/** {@link duration} of what may be left out. */
export function optionalDuration(name: string, value: number | undefined): Duration | undefined {
  return value === undefined ? undefined : duration(name, value);
}

/** Lets so many milliseconds pass; throws the signal's reason when that aborts. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  await setTimeout(ms, undefined, signal === undefined ? {} : { signal }).catch(() => signal?.throwIfAborted());
}
