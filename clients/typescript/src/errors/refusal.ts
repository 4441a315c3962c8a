// The sidecar's errors from the wire: google.rpc.Status with its details.

import type { ServiceError } from "@grpc/grpc-js";
import { status } from "@grpc/grpc-js";

import { BadRequest, ErrorInfo, RetryInfo, Status } from "../../gen/google/rpc/error.js";
import { LossReason } from "../../gen/leasehold/v1/hold.js";
import { milliseconds } from "../duration.js";
import type { Refusal } from "./errors.js";
import { RefusedError } from "./errors.js";
import type { Loss } from "../hold/loss.js";
import { lossReasonNamed } from "../hold/loss.js";
import { Reason } from "./reason.js";

/** The domain of the reasons in google.rpc.ErrorInfo. */
const DOMAIN = "leasehold.dev";
const TRAILER = "grpc-status-details-bin";

/** The error that a call ended with. */
export function refused(error: ServiceError): RefusedError {
  return new RefusedError(readRefusal(error), { cause: error });
}

/** Whether the connection broke, or the sidecar is being replaced: another may answer the same call. */
export function isBreak(error: unknown): error is RefusedError {
  if (!(error instanceof RefusedError)) return false;
  return error.reason === undefined ? BREAKS.has(error.code) : error.reason === Reason.SHUTTING_DOWN;
}

/** Whether the same call may succeed later: the sidecar or its store is away or overloaded, or the connection broke. */
export function mayPass(error: unknown): error is RefusedError {
  return error instanceof RefusedError && (PASSING.has(error.code) || isBreak(error));
}

/** Whether nobody answered a call, which may have been carried out all the same. */
export function isUnanswered(error: unknown): error is RefusedError {
  if (!(error instanceof RefusedError) || error.reason !== undefined) return false;
  return error.code === status.DEADLINE_EXCEEDED || isBreak(error);
}

const PASSING: ReadonlySet<status> = new Set([
  status.ABORTED,
  status.DEADLINE_EXCEEDED,
  status.RESOURCE_EXHAUSTED,
  status.UNAVAILABLE,
]);

/** Codes of a stream that something between the client and the sidecar has ended. */
const BREAKS: ReadonlySet<status> = new Set([status.UNAVAILABLE, status.CANCELLED, status.INTERNAL]);

/** An error that this client found out by itself. */
export function ownRefusal(code: status, details: string, more: Partial<Refusal> = {}): RefusedError {
  const nothing = { reason: undefined, retryAfterMs: undefined, lossReason: undefined, violations: [] };
  return new RefusedError({ ...nothing, ...more, code, details });
}

function readRefusal(error: ServiceError): Refusal {
  const details = readDetails(error);
  const find = <T>(name: string, decode: (value: Uint8Array) => T): T | undefined => {
    const any = details.find(({ typeUrl }) => typeUrl.endsWith(`/google.rpc.${name}`));
    return any === undefined ? undefined : readable(() => decode(any.value));
  };
  const anyInfo = find("ErrorInfo", (value) => ErrorInfo.decode(value));
  const info = anyInfo?.domain === DOMAIN ? anyInfo : undefined;
  const retry = find("RetryInfo", (value) => RetryInfo.decode(value));
  return {
    code: error.code,
    reason: info?.reason,
    details: wantsCertificate(error) + error.details,
    violations: find("BadRequest", (value) => BadRequest.decode(value))?.fieldViolations ?? [],
    retryAfterMs: retry === undefined ? undefined : milliseconds(retry.retryDelay),
    lossReason: info?.metadata["loss_reason"],
    isBelowNeeds: info?.metadata["needs"] !== undefined,
  };
}

/** What to do, where the sidecar ended the connection because of our certificate. */
function wantsCertificate({ code, details }: ServiceError): string {
  const alert = /alert.*(certificate|unknown[ _]ca)|(certificate|unknown[ _]ca).*alert/i;
  if (code !== status.UNAVAILABLE || !alert.test(details)) return "";
  return "the sidecar wants a client certificate that it trusts: ";
}

function readDetails(error: ServiceError): Status["details"] {
  const [trailer] = error.metadata.get(TRAILER);
  if (!(trailer instanceof Uint8Array)) return [];
  return readable(() => Status.decode(trailer))?.details ?? [];
}

/** What `decode` gives; `undefined` for bytes of somebody else: the code and the message still say what happened. */
function readable<T>(decode: () => T): T | undefined {
  try {
    return decode();
  } catch {
    return undefined;
  }
}

/** The loss that an error tells of, if it does. A hold that somebody else has released is lost to its holder. */
export function toldLost(error: unknown): Loss | undefined {
  if (!(error instanceof RefusedError)) return undefined;
  if (error.reason === Reason.HOLD_RELEASED) return { reason: LossReason.UNSPECIFIED, detail: error.details };
  if (error.reason !== Reason.HOLD_LOST) return undefined;
  return { reason: lossReasonNamed(error.lossReason), detail: error.details };
}
