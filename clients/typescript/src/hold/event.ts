// What happens to a hold, for those who want to know.

import type { LockRecord } from "../../gen/leasehold/v1/lock.js";
import type { Loss } from "./loss.js";
import type { Notice } from "./notice.js";
import type { Reason } from "../errors/reason.js";

/** What happens to a hold. Durations are milliseconds, counted from when the event is told. */
export type HoldEvent =
  /** The lock is busy, and the caller waits for it: at this place, 1 being next. */
  | { readonly type: "waiting"; readonly position: number; readonly record: LockRecord | undefined }
  /** The caller has the lock. */
  | { readonly type: "granted"; readonly lockPath: string; readonly fencingToken: number }
  /** The hold was renewed. */
  | { readonly type: "renewed"; readonly remainingMs: number }
  /** Renewals fail: stop what cannot be interrupted later. `detail` is for people. */
  | { readonly type: "atRisk"; readonly remainingMs: number; readonly cause: Reason; readonly detail: string }
  /** Renewals succeed again. */
  | { readonly type: "recovered"; readonly remainingMs: number }
  /** The sidecar is shutting down: finish and release. It still waits for so long. */
  | { readonly type: "draining"; readonly timeLeftMs: number }
  /** The lock was broken, and its lease runs out: the hold ends after this. Finish, save the checkpoint, release (S22). */
  | { readonly type: "revoked"; readonly remainingMs: number; readonly notice: Notice }
  /** The stream to the sidecar broke; the hold goes on until its validity ends, and is being resumed. */
  | { readonly type: "interrupted"; readonly detail: string }
  /** The hold was resumed at the sidecar. */
  | { readonly type: "resumed"; readonly remainingMs: number }
  /** The hold is over, though its holder did not end it. Nothing comes after this. */
  | { readonly type: "lost"; readonly loss: Loss };

/** Gets the events of a hold. */
export type HoldListener = (event: HoldEvent) => void;

/** Tells an event. A listener that throws does not harm the hold: its error is the process's, as with event targets. */
export function tell<E>(listener: ((event: E) => void) | undefined, event: E): void {
  if (listener === undefined) return;
  try {
    listener(event);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
