// A schedule in this language's words, and the same for the wire.

import { CatchUp, FirstRun, Overlap, ScheduleSpec as WireSpec } from "../../gen/leasehold/v1/schedule.js";
import { SubscribeScheduleRequest } from "../../gen/leasehold/v1/schedule_service.js";
import { duration, optionalDuration } from "../duration.js";
import { holderOrThis } from "../hold/holder.js";
import type { LockKey } from "../hold/spec.js";
import { lockKey, wholeNumber } from "../hold/spec.js";

/** When a schedule is due: by an expression, or again and again after the same span. */
export type Timetable =
  | {
      /**
       * Five fields as cron has them, six fields with seconds first as WebJobs has them, a nickname such as `@daily`, or
       * `@every 90s`. At most 256 bytes (T15).
       */
      readonly cron: string;
      readonly everyMs?: never;
    }
  | {
      /** The same span again and again, counted from the Unix epoch: whole seconds, 10 s to 366 days. */
      readonly everyMs: number;
      readonly cron?: never;
    };

/** When a schedule is due, and how its runs are handled. Durations are milliseconds, of whole seconds. */
export type ScheduleSpec = Timetable & {
  /** The IANA name of the zone whose clocks the expression is about, such as `Europe/Copenhagen`. Default: UTC (T14). */
  readonly timeZone?: string;
  /**
   * Which of two different definitions is in force: the one with the higher revision. Give each deployment a higher one.
   * Default: 0, which never replaces a positive one (T16).
   */
  readonly revision?: number;
  /**
   * What becomes of missed occurrences that are older than the newest one: they are skipped (`"latest"`), the newest one
   * too if it is later than `graceMs` (`"none"`), or the newest `catchUpMax` of them run (`"all"`). Default: `"latest"` (T9).
   */
  readonly catchUp?: "latest" | "none" | "all";
  /** How many occurrences before the newest one are run: 1 to 100. With `"all"` only, which needs it. */
  readonly catchUpMax?: number;
  /** Occurrences older than this are never run: 1 min to 366 days. Default: as `catchUp` may run, and 25 h at least. */
  readonly catchUpWindowMs?: number;
  /** How late the newest occurrence still counts as on time: up to 7 days. Default, and least: two leases and 10 s. */
  readonly graceMs?: number;
  /**
   * What becomes of occurrences that fall due during a run: they are handled as missed ones when it is over (`"follow"`),
   * or skipped. Default: `"follow"` (T10).
   */
  readonly overlap?: "follow" | "skip";
  /** How many attempts an occurrence has that fail or are abandoned: 1 to 100. Default: 3 (T11). */
  readonly maxAttempts?: number;
  /** The wait before the second attempt; doubled with each further one up to 10 min: 1 s to 10 min. Default: 10 s. */
  readonly backoffMs?: number;
  /**
   * How long a run may take: 1 s to 366 days, or `Infinity`. At its deadline it has failed, and is not tried again. Default:
   * until the next occurrence is due, but at least as long as the gap between the two (T12).
   */
  readonly runTimeoutMs?: number;
  /** How long a run may take to end after its deadline, and still say how it ended: up to 1 h. Default: 10 s (T12). */
  readonly stopGraceMs?: number;
  /** A run is lost unless it reports progress at least this often: 1 s to 24 h. Default: none (S11). */
  readonly progressTimeoutMs?: number;
  /** Each schedule starts later by an offset of its own, up to this: 0 to 24 h. Default: 0 (T13). */
  readonly spreadMs?: number;
  /** The longest time until it is looked whether a run elsewhere was abandoned: 1 s to 10 min (T17). */
  readonly takeoverCheckMs?: number;
  /** The duration of the lease in the store: 15 s to 60 s. Default: the sidecar's. */
  readonly leaseDurationMs?: number;
};

/** Takes part in a schedule. It is attached to the lock of this name: all that give the same one share it. */
export type Subscription = LockKey &
  ScheduleSpec & {
    /** Who is asking, for people to read: at most 256 bytes. Default: this pod or host, and the process id. */
    readonly holder?: string;
    /** Whether a schedule that nobody has subscribed to before runs at once, in one replica (T25). Default: `false`. */
    readonly firstNow?: boolean;
    /** Free pairs, shown in the lock's record: at most 16, 1,024 bytes in all. Not for secrets. */
    readonly labels?: Readonly<Record<string, string>>;
  };

const CATCH_UP = { latest: CatchUp.LATEST, none: CatchUp.NONE, all: CatchUp.ALL } as const;
const OVERLAP = { follow: Overlap.FOLLOW, skip: Overlap.SKIP } as const;

/** The spec for the wire. */
export function scheduleSpec(spec: ScheduleSpec): WireSpec {
  const { catchUp, overlap, revision = 0, catchUpMax = 0, maxAttempts = 0 } = spec;
  return WireSpec.create({
    timetable: timetable(spec),
    timeZone: spec.timeZone ?? "",
    revision: wholeNumber("revision", revision, "", Number.MAX_SAFE_INTEGER),
    catchUp: catchUp === undefined ? CatchUp.UNSPECIFIED : CATCH_UP[catchUp],
    catchUpMax: wholeNumber("catchUpMax", catchUpMax, " from 1 to 100"),
    catchUpWindow: optionalDuration("catchUpWindowMs", spec.catchUpWindowMs),
    grace: optionalDuration("graceMs", spec.graceMs),
    overlap: overlap === undefined ? Overlap.UNSPECIFIED : OVERLAP[overlap],
    maxAttempts: wholeNumber("maxAttempts", maxAttempts, " from 1 to 100"),
    backoff: optionalDuration("backoffMs", spec.backoffMs),
    timeout: timeout(spec.runTimeoutMs),
    spread: optionalDuration("spreadMs", spec.spreadMs),
    takeoverCheck: optionalDuration("takeoverCheckMs", spec.takeoverCheckMs),
    leaseDuration: optionalDuration("leaseDurationMs", spec.leaseDurationMs),
    stopGrace: optionalDuration("stopGraceMs", spec.stopGraceMs),
    progressTimeout: optionalDuration("progressTimeoutMs", spec.progressTimeoutMs),
  });
}

function timetable({ cron, everyMs }: Timetable): WireSpec["timetable"] {
  if (cron !== undefined) return { $case: "cron", value: cron };
  return { $case: "every", value: duration("everyMs", everyMs) };
}

function timeout(runTimeoutMs: number | undefined): WireSpec["timeout"] {
  if (runTimeoutMs === undefined) return undefined;
  if (runTimeoutMs === Infinity) return { $case: "noRunTimeout", value: true };
  return { $case: "runTimeout", value: duration("runTimeoutMs", runTimeoutMs) };
}

/** The request for the wire. */
export function subscription(request: Subscription): SubscribeScheduleRequest {
  return SubscribeScheduleRequest.create({
    key: lockKey(request),
    spec: scheduleSpec(request),
    holder: holderOrThis(request.holder),
    labels: { ...request.labels },
    first: request.firstNow === true ? FirstRun.NOW : FirstRun.UNSPECIFIED,
  });
}
