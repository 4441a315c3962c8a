// Spans of time to and from the wire; everywhere else they are milliseconds.

import type { Duration } from "../gen/google/protobuf/duration.js";

/** The longest span that protobuf allows: about 10,000 years. */
const LONGEST_SECONDS = 315_576_000_000;

/** The milliseconds of a span from the wire; 0 for an absent or a negative one, which only ends holds earlier. */
export function milliseconds(wire: Duration | undefined): number {
  if (wire === undefined) return 0;
  const span = wire.seconds * 1_000 + wire.nanos / 1_000_000;
  return Number.isFinite(span) && span > 0 ? span : 0;
}

/** A span for the wire; the longest there is if it is longer. What is no span of time is a `RangeError`. */
export function duration(name: string, span: number): Duration {
  if (Number.isNaN(span) || span < 0) {
    throw new RangeError(`${name} is ${String(span)}: it must be a number of milliseconds, 0 or more`);
  }
  if (span >= LONGEST_SECONDS * 1_000) return { seconds: LONGEST_SECONDS, nanos: 0 };
  const seconds = Math.floor(span / 1_000);
  const nanos = Math.min(Math.round((span - seconds * 1_000) * 1_000_000), 999_999_999);
  return { seconds, nanos };
}

/** {@link duration} of what may be left out. */
export function optionalDuration(name: string, span: number | undefined): Duration | undefined {
  return span === undefined ? undefined : duration(name, span);
}
