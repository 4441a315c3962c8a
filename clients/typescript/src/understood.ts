// Whether the sidecar that answered knows what was asked for (S37).

import { status } from "@grpc/grpc-js";

import type { LeaseSpec, Understood } from "../gen/leasehold/v1/hold.js";
import { RefusedError } from "./errors.js";
import { Reason } from "./reason.js";
import { ownRefusal } from "./refusal.js";

/** The error of a caller that was not served as it asked; `undefined` if it was. */
export function notUnderstood(spec: LeaseSpec, understood: Understood | undefined): RefusedError | undefined {
  if (spec.waitWithoutEnd && understood?.waitWithoutEnd !== true) return unsupported("a wait without end");
  if (spec.permits !== undefined && spec.permits > 1 && understood?.permits !== spec.permits) {
    return unsupported(`${String(spec.permits)} permits`);
  }
  if (spec.priority > 0 && understood?.priority !== spec.priority) return unsupported("priorities");
  if (spec.yields && understood?.yields !== true) return unsupported("holders that yield");
  if (spec.share !== "" && understood?.share !== spec.share) return unsupported("shares");
  if (spec.rebalance && understood?.rebalance !== true) return unsupported("rebalancing");
  if (spec.occurrenceAt !== undefined && understood?.occurrenceAt?.getTime() !== spec.occurrenceAt.getTime()) {
    return unsupported("occurrences");
  }
  return undefined;
}

/** The sidecar is older than what this client asks for. */
export function unsupported(what: string, done = "nothing is held"): RefusedError {
  const details = `the sidecar is older than this request and does not know ${what}: upgrade it; ${done}`;
  return ownRefusal(status.UNIMPLEMENTED, details, { reason: Reason.UNSUPPORTED });
}

/** What `call` gives. A sidecar that does not have the call says only that (S37); one that has it says more. */
export async function knowing<T>(what: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof RefusedError)) throw error;
    throw error.code === status.UNIMPLEMENTED && error.reason === undefined
      ? unsupported(what, "nothing was done")
      : error;
  }
}
