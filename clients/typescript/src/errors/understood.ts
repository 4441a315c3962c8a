// Whether the sidecar that answered knows what was asked for (S37).

import { status } from "@grpc/grpc-js";

import type { LeaseSpec, Understood } from "../../gen/leasehold/v1/hold.js";
import { RefusedError } from "./errors.js";
import { Reason } from "./reason.js";
import { ownRefusal } from "./refusal.js";

/** The error of a caller that was not served as it asked; `undefined` if it was. */
export function notUnderstood(spec: LeaseSpec, understood: Understood | undefined): RefusedError | undefined {
  if (spec.waitWithoutEnd && understood?.waitWithoutEnd !== true) return unknownField("wait_without_end");
  if (spec.permits !== undefined && spec.permits > 1 && understood?.permits !== spec.permits) {
    return unknownField("permits");
  }
  if (spec.priority > 0 && understood?.priority !== spec.priority) return unknownField("priority");
  if (spec.yields && understood?.yields !== true) return unknownField("yields");
  if (spec.share !== "" && understood?.share !== spec.share) return unknownField("share");
  if (spec.rebalance && understood?.rebalance !== true) return unknownField("rebalance");
  if (spec.occurrenceAt !== undefined && understood?.occurrenceAt?.getTime() !== spec.occurrenceAt.getTime()) {
    return unknownField("occurrence_at");
  }
  return undefined;
}

/** The sidecar is older than this field of a request. */
export function unknownField(field: string): RefusedError {
  return unsupported(`${field}, because it is older than this request: update the sidecar, or ask without that`);
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
