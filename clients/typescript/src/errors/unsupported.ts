// A sidecar that is too old for what is asked (S37).

import { status } from "@grpc/grpc-js";

import { RefusedError } from "./errors.js";
import { Reason } from "./reason.js";
import { ownRefusal } from "./refusal.js";

/** A path of a request, and the revision of a sidecar that knows what is there. */
export type Newer = readonly [path: string, revision: number];

/** The least revision of a sidecar that serves a request: that of the newest field that is set in it. */
export function needs(request: object, newer: readonly Newer[]): number {
  const needed = newer.filter(([path]) => isSet(at(request, path)));
  return Math.max(1, ...needed.map(([, revision]) => revision));
}

/** What is at the path; a step into a message of several names the one that is meant. */
function at(request: object, path: string): unknown {
  return path.split(".").reduce<unknown>((inside, step) => {
    if (typeof inside !== "object" || inside === null) return undefined;
    if ("$case" in inside) return "value" in inside && inside.$case === step ? inside.value : undefined;
    return (inside as Record<string, unknown>)[step];
  }, request);
}

/** Whether that goes over the wire. */
function isSet(value: unknown): boolean {
  if (typeof value === "string") return value !== "" && !value.endsWith("_UNSPECIFIED");
  if (Array.isArray(value)) return value.length > 0;
  return value !== undefined && value !== 0 && value !== false;
}

/** Whether another sidecar may serve what this one has refused, because it is older than the request. */
export function isBelowNeeds(error: unknown): error is RefusedError {
  return error instanceof RefusedError && error.isBelowNeeds;
}

/** The sidecar is older than these calls. */
export function unknownCalls(what: string): RefusedError {
  return unsupported(`${what}, because it is older than they are: update the sidecar`);
}

function unsupported(what: string): RefusedError {
  return ownRefusal(status.UNIMPLEMENTED, `the sidecar does not know ${what}`, { reason: Reason.UNSUPPORTED });
}

/** What `call` gives. A sidecar that does not have the call says only that (S37); one that has it says more. */
export async function knowing<T>(what: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof RefusedError)) throw error;
    throw error.code === status.UNIMPLEMENTED && error.reason === undefined ? unknownCalls(what) : error;
  }
}
