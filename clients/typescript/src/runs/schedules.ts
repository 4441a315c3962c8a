// What a client does with schedules: one method for each thing to be done.

import { NEWER_FIELDS } from "../constants.js";
import type { Occurrence, Schedule, UnderstoodSchedule } from "../../gen/leasehold/v1/schedule_service.js";
import { PreviewScheduleRequest, ScheduleServiceService } from "../../gen/leasehold/v1/schedule_service.js";
import { ProtocolError } from "../errors/errors.js";
import type { Holds } from "../hold/held.js";
import type { CallOptions, LockKey, LockSelector } from "../hold/spec.js";
import { lockKey, lockSelector, under, wholeNumber } from "../hold/spec.js";
import type { Rpc } from "../connect/rpc.js";
import { knowing, needs } from "../errors/unsupported.js";
import type { CompletedRun, Completion } from "./completion.js";
import { completeRun, completionRequest } from "./completion.js";
import type { EveryOptions, RunWork } from "./every.js";
import { every } from "./every.js";
import type { Run } from "./run.js";
import type { RunsOptions } from "./runs.js";
import { Runs, eachRun } from "./runs.js";
import type { Subscription, ScheduleSpec } from "./spec.js";
import { scheduleSpec } from "./spec.js";

/** Which schedules to list. */
export interface ListSchedulesOptions extends CallOptions {
  /** Those under this host id. Default: the sidecar's. Not with `prefix`. */
  readonly hostId?: string;
  /** Those whose lock path begins with this text, the container and a slash first. */
  readonly prefix?: string;
  /** How many schedules a page has at most: 1 to 200. Default: 100. */
  readonly pageSize?: number;
}

/** Which occurrences to preview. */
export interface PreviewOptions extends CallOptions {
  /** Those after this instant. Default: now, by the sidecar's wall clock. */
  readonly after?: Date;
  /** How many: 1 to 100. Default: 10. */
  readonly count?: number;
  /** The lock, if occurrences are to be shown with the offset that `spreadMs` gives them. */
  readonly name?: LockKey;
}

/** How a spec was understood, and its next occurrences. */
export interface SchedulePreview {
  /** How the spec was understood. */
  readonly understood: UnderstoodSchedule;
  /** The occurrences: fewer than asked for if there are no more. */
  readonly occurrences: readonly Occurrence[];
}

/** The part of a client that is about schedules. */
export abstract class ScheduleClient {
  // Private, so that nothing shows a bearer token (S20).
  readonly #rpc: Rpc;
  readonly #holds: Holds = new Set();

  /** @internal */
  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /** @internal */
  protected get rpc(): Rpc {
    return this.#rpc;
  }

  /** @internal */
  protected get holds(): Holds {
    return this.#holds;
  }

  /**
   * Takes part in a schedule, and runs `work` on each occurrence that falls to this caller, until `options.signal` aborts.
   *
   * When `work` ends well the run has succeeded, or ended as the {@link Completion} says that it gave. When it throws, the
   * run has failed, with the error's text as the detail, and is tried again if attempts are left; when it throws after
   * `options.signal` has aborted, the run is returned, for another replica to run. The signal of `work` aborts then, and
   * when the run is lost or its deadline comes. When the lock is broken or the sidecar shuts down `run.endingSignal`
   * aborts, and the run goes on: let `work` look at that if it can finish early.
   *
   * Each occurrence is granted until one run of it is recorded, never after, and never two at once. So a run whose process
   * dies is repeated: key its effect on `run.scheduledAt`, or let the resource check `run.fencingToken` (T2).
   *
   * Where the sidecar or its store cannot be reached this asks again, after 0.1 s to 1 s, a pause that grows to 10 s.
   *
   * @throws RefusedError if trying again does not help: with reason `UNSUPPORTED` if the sidecar is older than schedules,
   *   `INVALID_FIELD` for a spec that is not valid.
   */
  async every(request: Subscription, work: RunWork, options: EveryOptions = {}): Promise<void> {
    const runs = new Runs(this.rpc, this.holds, request, options);
    await every({ rpc: this.rpc, runs, work, signal: options.signal });
  }

  /**
   * Takes part in a schedule: `for await (const run of client.runs(…))`. Complete each run in the loop's body: one that is
   * not completed when the body ends, or leaves the loop, is returned, for another replica to run. `options.signal` ends
   * the waiting between runs with its reason, not a run. {@link ScheduleClient.every} is for work that is a function.
   *
   * Once the sidecar has been heard this subscribes again by itself where it restarts or the connection breaks.
   *
   * @throws as {@link ScheduleClient.every}, and where no sidecar answers at the beginning.
   */
  async *runs(request: Subscription, options: RunsOptions = {}): AsyncGenerator<Run, void, undefined> {
    yield* eachRun(new Runs(this.rpc, this.holds, request, options));
  }

  /**
   * A schedule: its definition, and what is known of its runs.
   *
   * @throws RefusedError with reason `UNKNOWN_SCHEDULE` if nobody ever subscribed to it, `UNSUPPORTED` if the sidecar knows
   *   no schedules.
   */
  async getSchedule(lock: LockSelector, options: CallOptions = {}): Promise<Schedule> {
    const request = { lock: lockSelector(lock) };
    const { schedule } = await knowing("schedules", () =>
      this.rpc.unary(ScheduleServiceService.getSchedule, request, options),
    );
    if (schedule === undefined) throw new ProtocolError("it has no schedule");
    return schedule;
  }

  /** Schedules in the order of their paths, page after page. One that nobody has run yet is not listed. */
  async *listSchedules(options: ListSchedulesOptions = {}): AsyncGenerator<Schedule, void, undefined> {
    const { pageSize = 0, signal } = options;
    let pageToken = "";
    do {
      const request = { under: under(options), pageSize, pageToken };
      const call = signal === undefined ? {} : { signal };
      const page = await knowing("schedules", () =>
        this.rpc.unary(ScheduleServiceService.listSchedules, request, call),
      );
      yield* page.schedules;
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
  }

  /**
   * Checks a spec, and gives its next occurrences. Asks no store and changes nothing.
   *
   * @throws RefusedError with reason `INVALID_FIELD` if the spec is not valid.
   */
  async previewSchedule(spec: ScheduleSpec, options: PreviewOptions = {}): Promise<SchedulePreview> {
    const { after, count = 0, name } = options;
    const asked = {
      spec: scheduleSpec(spec),
      after,
      count: wholeNumber("count", count, " from 1 to 100"),
      key: name === undefined ? undefined : lockKey(name),
    };
    const request = { ...asked, needs: needs(PreviewScheduleRequest, asked, NEWER_FIELDS.PreviewScheduleRequest) };
    const answer = await knowing("schedules", () =>
      this.rpc.unary(ScheduleServiceService.previewSchedule, request, options),
    );
    const { understood, occurrences } = answer;
    if (understood === undefined) throw new ProtocolError("a preview was answered without how the spec was understood");
    return { understood, occurrences };
  }

  /**
   * Pauses a schedule: a run that goes on may finish, and what falls due is skipped. May be repeated (T18). Gives the
   * schedule as it is now; `undefined` if the caller may not read it.
   *
   * @throws RefusedError as {@link ScheduleClient.getSchedule}; with reason `SCHEDULE_CHANGES_NOT_ENABLED` unless the
   *   operator enabled it.
   */
  async pauseSchedule(lock: LockSelector, options: CallOptions = {}): Promise<Schedule | undefined> {
    const request = { lock: lockSelector(lock) };
    return (await knowing("schedules", () => this.rpc.unary(ScheduleServiceService.pauseSchedule, request, options)))
      .schedule;
  }

  /**
   * Ends a pause: the schedule goes on after the store's time. May be repeated.
   *
   * @throws RefusedError as {@link ScheduleClient.pauseSchedule}.
   */
  async resumeSchedule(lock: LockSelector, options: CallOptions = {}): Promise<Schedule | undefined> {
    const request = { lock: lockSelector(lock) };
    return (await knowing("schedules", () => this.rpc.unary(ScheduleServiceService.resumeSchedule, request, options)))
      .schedule;
  }

  /**
   * Removes a schedule: its subscribers are told, and a new subscription begins it anew (T25). `reason` is kept; `force` also
   * where this sidecar has subscribers.
   *
   * @throws RefusedError as {@link ScheduleClient.pauseSchedule}; with reason `SCHEDULE_HAS_SUBSCRIBERS`.
   */
  async removeSchedule(
    lock: LockSelector,
    reason: string,
    { force = false, ...options }: CallOptions & { readonly force?: boolean } = {},
  ): Promise<Schedule | undefined> {
    const request = { lock: lockSelector(lock), reason, force };
    return (await knowing("schedules", () => this.rpc.unary(ScheduleServiceService.removeSchedule, request, options)))
      .schedule;
  }

  /**
   * Lets a schedule begin anew: after `watermark`, or after the store's time. Its definition has `revision` from then on, if
   * one is given (T25). `reason` is kept.
   *
   * @throws RefusedError as {@link ScheduleClient.pauseSchedule}.
   */
  async resetSchedule(
    lock: LockSelector,
    reason: string,
    { watermark, revision, ...options }: CallOptions & { readonly watermark?: Date; readonly revision?: number } = {},
  ): Promise<Schedule | undefined> {
    const request = { lock: lockSelector(lock), reason, watermark, revision };
    return (await knowing("schedules", () => this.rpc.unary(ScheduleServiceService.resetSchedule, request, options)))
      .schedule;
  }

  /**
   * Asks for a run by hand. `requestId` is the caller's, 1 to 64 of A-Z a-z 0-9 . _ -: a repeated call with the same one is
   * one run.
   *
   * @throws RefusedError as {@link ScheduleClient.pauseSchedule}; with reason `TOO_MANY_TRIGGERS` when 8 wait already.
   */
  async triggerSchedule(
    lock: LockSelector,
    requestId: string,
    options: CallOptions = {},
  ): Promise<Schedule | undefined> {
    const request = { lock: lockSelector(lock), requestId };
    return (await knowing("schedules", () => this.rpc.unary(ScheduleServiceService.triggerSchedule, request, options)))
      .schedule;
  }

  /**
   * Says how a run ended, by its id alone: for a process that wrote down the id of a run and was restarted. Else
   * `run.complete` is for that. May be repeated, at any sidecar (T8).
   */
  async completeRun(runId: string, completion: Completion, options: CallOptions = {}): Promise<CompletedRun> {
    const request = completionRequest(runId, { leaseId: "", generation: 0 }, completion);
    return await completeRun(this.rpc, request, options);
  }
}
