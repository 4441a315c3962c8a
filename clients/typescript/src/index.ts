/**
 * Hold singleton locks through a Leasehold sidecar, and know at once when one is lost.
 *
 * Rules: S3 (the clock is read after every wake-up), S4 (lost is final), S13 (the hold ends before the release is sent
 * and before the stream ends), S14, S16 (resume), S21 (how validity is counted).
 */

export { status as Code } from "@grpc/grpc-js";
export type { BreakOptions, BreakResult, CallOptions, HeldWork, ListOptions } from "./client.js";
export { Client } from "./client.js";
export type { ClientCertificate, ConnectOptions, TlsCredentials } from "./endpoint.js";
export { DEFAULT_ENDPOINT, ENDPOINT_VARIABLE } from "./endpoint.js";
export type { FieldViolation, Refusal } from "./errors.js";
export {
  BusyError,
  EndpointError,
  HoldLostError,
  LeaseholdError,
  NotReleasedError,
  PlatformError,
  ProtocolError,
  RefusedError,
  UnreachableError,
  lossIn,
} from "./errors.js";
export type { HoldEvent, HoldListener } from "./hold/event.js";
export type { Hold } from "./hold/hold.js";
export type { HoldOptions } from "./hold/open.js";
export type { Loss } from "./loss.js";
export { lossReasonName } from "./loss.js";
export type { CheckTokenResponse, ExtendLeaseResponse, ResolvePathResponse } from "./proto.js";
export type { BreakNote, BootTime, Grant, LockRecord, ReleaseResult, Validity } from "./proto.js";
export {
  BreakMode,
  BreakOutcome,
  BusyReason,
  LockMode,
  LockState,
  LossReason,
  ReleaseOutcome,
  TokenStatus,
} from "./proto.js";
export { ErrorReason } from "./reason.js";
export type { AcquireRequest, HoldRequest, LockName, LockReference } from "./request.js";
