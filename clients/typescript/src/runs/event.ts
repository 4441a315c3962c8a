// What happens between the runs of a schedule, for those who want to know.

import type { DefinitionInForce, Standby, UnderstoodSchedule } from "../../gen/leasehold/v1/schedule_service.js";

/** What happens between the runs of a schedule. */
export type ScheduleEvent =
  /** The sidecar has understood the schedule: at the beginning, and after each time that it was away. */
  | { readonly type: "subscribed"; readonly understood: UnderstoodSchedule }
  /** An occurrence is waited for. Repeated when something of it changes, and at least every 30 s. */
  | { readonly type: "standby"; readonly standby: Standby }
  /** Another definition is in force than this caller's. */
  | { readonly type: "definitionInForce"; readonly definition: DefinitionInForce }
  /** The sidecar is shutting down: nothing new starts there. It still waits for runs that go on for so long. */
  | { readonly type: "draining"; readonly timeLeftMs: number }
  /** The stream to the sidecar broke, and is asked for anew. `detail` is for people. */
  | { readonly type: "interrupted"; readonly detail: string };

/** Gets the events of a schedule. */
export type ScheduleListener = (event: ScheduleEvent) => void;
