/**
 * Hold singleton locks through a Leasehold sidecar, and know at once when one is lost.
 *
 * Rules: S3 (the clock is read after every wake-up), S4 (lost is final), S13 (the hold ends before the release is sent
 * and before the stream ends), S14, S16 (resume), S21 (how validity is counted).
 */

export { status as Code } from "@grpc/grpc-js";
export type { BreakOptions, BreakResult, GetLockOptions, HeldWork, LeadSpec, ListOptions } from "./client.js";
export { CHECKPOINT_BYTES_MAX, Checkpoint, CheckpointUnknownError } from "./hold/checkpoint.js";
export { Client } from "./client.js";
export type { ClientCertificate, ConnectOptions, TlsCredentials } from "./connect/endpoint.js";
export { DEFAULT_ENDPOINT, ENDPOINT_VARIABLE } from "./connect/endpoint.js";
export type { FieldViolation, Refusal } from "./errors/errors.js";
export {
  BusyError,
  EndpointError,
  LostError,
  LeaseholdError,
  ReleaseUnconfirmedError,
  PlatformError,
  ProtocolError,
  RefusedError,
  UnreachableError,
  lossIn,
} from "./errors/errors.js";
export type { HoldEvent, HoldListener } from "./hold/event.js";
export type { Hold, ReleaseOptions } from "./hold/hold.js";
export type { HoldOptions } from "./hold/open.js";
export type { Held } from "./hold/held.js";
export type { HoldInfo } from "./hold/info.js";
export type { Loss } from "./hold/loss.js";
export { lossReasonName } from "./hold/loss.js";
export { Notice } from "./hold/notice.js";
export type { Outcome } from "./hold/occurrence.js";
export { OccurrenceOverError, OutcomeNotRecordedError } from "./hold/occurrence.js";
export type {
  CheckTokenResponse as TokenCheck,
  ExtendLeaseResponse as Extension,
  ResolvePathResponse as ResolvedPath,
} from "./proto.js";
export type { GetHoldResponse, SaveCheckpointResponse } from "./proto.js";
export type { BreakNote, BootTime, Grant, LockRecord, ReleaseResult, Reservation, Validity } from "./proto.js";
export {
  BreakMode,
  BreakOutcome,
  BusyReason,
  CheckpointOutcome,
  HoldState,
  LockMode,
  LockState,
  LossReason,
  OutcomeResult,
  PriorityStatus,
  ReleaseOutcome,
  TokenStatus,
} from "./proto.js";
export { Reason } from "./errors/reason.js";
export type { ServerInfo, ServerLimits } from "./connect/server-info.js";
export type { LocksEvent } from "./watch/watch.js";
export type { CallOptions, LeaseSpec, LockKey, LockPermit, LockSelector, WatchOptions } from "./hold/spec.js";
export type { CompletedRun, Completion } from "./runs/completion.js";
export type { EveryOptions, RunWork } from "./runs/every.js";
export type { ListSchedulesOptions, PreviewOptions, SchedulePreview } from "./runs/schedules.js";
export type { ScheduleEvent } from "./runs/event.js";
export type { Run } from "./runs/run.js";
export type { RunsOptions } from "./runs/runs.js";
export type { Subscription, ScheduleSpec, Timetable } from "./runs/spec.js";
export type {
  DefinitionInForce,
  EndedRun,
  Occurrence,
  Schedule,
  ScheduleState,
  Standby,
  StartedRun,
  UnderstoodSchedule,
} from "./proto.js";
export { CatchUp, CompletionResult, Overlap, RunKind, RunOutcome } from "./proto.js";
