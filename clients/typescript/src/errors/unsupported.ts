// A sidecar that is too old for what is asked (S37).

import { status } from "@grpc/grpc-js";

import { RefusedError } from "./errors.js";
import { Reason } from "./reason.js";
import { ownRefusal } from "./refusal.js";

/** A path of a request, and the revision of a sidecar that knows what is there. */
export type Newer = readonly [path: string, revision: number];

/** A type of messages, as it was generated. */
interface MessageType<T> {
  encode(message: T): { finish(): Uint8Array };
  fromPartial(message: never): T;
}

/** The least revision of a sidecar that serves a request: that of the newest field that is set in it. */
export function needs<T>(type: MessageType<T>, request: Partial<T>, newer: readonly Newer[]): number {
  // Only what was generated knows: an optional zero goes over the wire, and an empty map does not.
  const size = (message: unknown): number => type.encode(type.fromPartial(message as never)).finish().length;
  const needed = newer.filter(([path]) => size(without(request, path.split("."))) < size(request));
  return Math.max(1, ...needed.map(([, revision]) => revision));
}

/** The message without what is at the path; a step into a message of several names the one that is meant. */
function without(message: unknown, [step = "", ...more]: string[]): unknown {
  if (typeof message !== "object" || message === null) return message;
  const inside = message as Record<string, unknown>;
  const rest = (key: string): unknown => (more.length === 0 ? undefined : without(inside[key], more));
  if (!("$case" in message)) return { ...message, [step]: rest(step) };
  if (message.$case !== step) return message;
  return more.length === 0 ? undefined : { ...message, value: rest("value") };
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
