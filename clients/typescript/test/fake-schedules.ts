// For tests: the schedules of a sidecar that does what a test says.

import type { ServerWritableStream } from "@grpc/grpc-js";

import {
  CompleteRunResponse,
  CompletionResult,
  ListSchedulesResponse,
  PreviewScheduleResponse,
  Run as WireRun,
  RunKind,
  Schedule,
  Standby,
  SubscribeScheduleResponse,
} from "../src/proto.js";
import type {
  CompleteRunRequest,
  ScheduleServiceServer,
  SubscribeScheduleRequest,
  LockSelector,
} from "../src/proto.js";
import { OURS, grant, validity } from "./fake-sidecar.js";
import type { Refused } from "./tools.js";
import { Inbox, eventually } from "./tools.js";

export type ScheduleEvent = NonNullable<SubscribeScheduleResponse["event"]>;

/** A SubscribeSchedule call that the test answers. */
export class SubscribeCall {
  readonly request: SubscribeScheduleRequest;
  readonly #stream: ServerWritableStream<SubscribeScheduleRequest, SubscribeScheduleResponse>;
  isOpen = true;

  constructor(stream: ServerWritableStream<SubscribeScheduleRequest, SubscribeScheduleResponse>) {
    this.#stream = stream;
    this.request = stream.request;
    stream.on("cancelled", () => {
      this.isOpen = false;
    });
  }

  tell(...events: ScheduleEvent[]): void {
    for (const event of events) this.#stream.write(SubscribeScheduleResponse.create({ event }));
  }

  fail(refused: Refused): void {
    this.#stream.emit("error", refused);
  }

  /** Waits until the client has ended the stream. */
  async ended(): Promise<void> {
    await eventually("the client ends the stream", () => !this.isOpen);
  }
}

/** What the calls about schedules are answered with, and what was asked. */
export class FakeSchedules {
  readonly subscriptions = new Inbox<SubscribeCall>();
  /** How the next runs' completions are answered. Default: recorded. */
  readonly completions: (CompletionResult | Refused)[] = [];
  readonly completed: CompleteRunRequest[] = [];
  readonly asked: string[] = [];

  /** The outcomes that were told, with their details. */
  get outcomes(): string[] {
    return this.completed.map(({ outcome, detail }) => `${outcome.replace("RUN_OUTCOME_", "")} ${detail}`.trim());
  }

  /** The next SubscribeSchedule call. */
  async subscription(): Promise<SubscribeCall> {
    return await this.subscriptions.next("SubscribeSchedule is called");
  }
}

export const UNDERSTOOD = {
  expression: "30 2 * * *",
  timeZone: "Europe/Copenhagen",
  description: "every day at 02:30",
  zoneData: "2026b",
};

export const STANDBY: ScheduleEvent = {
  $case: "standby",
  value: Standby.create({ understood: UNDERSTOOD, nextAt: new Date(1_800) }),
};

/** A run of the occurrence at 1.8 s, valid until 1,058 s on our boot clock. */
export function granted(more: Partial<WireRun> = {}, until = 1_058): ScheduleEvent {
  const value = WireRun.create({
    grant: grant(validity(OURS, until, 58)).value,
    runId: "run-1",
    kind: RunKind.SCHEDULED,
    scheduledAt: new Date(1_800),
    localTime: "1970-01-01T01:00:01+01:00[Europe/Copenhagen]",
    attempt: 2,
    maxAttempts: 3,
    lateness: { seconds: 4, nanos: 0 },
    missedCount: 7,
    ...more,
  });
  return { $case: "run", value };
}

function schedule(lock: LockSelector | undefined, more: Partial<Schedule> = {}): Schedule {
  const path = lock?.lock?.$case === "lockPath" ? lock.lock.value : (lock?.lock?.value.function ?? "");
  return Schedule.create({ lockPath: path, ...more });
}

/** The service of these schedules. */
export function scheduleService(schedules: FakeSchedules): ScheduleServiceServer {
  return {
    subscribeSchedule: (call) => {
      schedules.subscriptions.items.push(new SubscribeCall(call));
    },
    completeRun: ({ request }, answer) => {
      schedules.completed.push(request);
      const told = schedules.completions.shift() ?? CompletionResult.RECORDED;
      if (typeof told === "string") answer(null, CompleteRunResponse.create({ result: told, nextAt: new Date(3_600) }));
      else answer(told);
    },
    getSchedule: ({ request }, answer) => {
      answer(null, { schedule: schedule(request.lock) });
    },
    listSchedules: ({ request }, answer) => {
      schedules.asked.push(`list ${String(request.pageSize)} ${request.pageToken}`);
      const lockPath = `${request.under?.value ?? ""}/${request.pageToken}`;
      const nextPageToken = request.pageToken === "" ? "second" : "";
      answer(null, ListSchedulesResponse.create({ schedules: [{ lockPath }], nextPageToken }));
    },
    previewSchedule: ({ request }, answer) => {
      const occurrences = Array.from({ length: request.count }, () => ({ at: request.after }));
      answer(null, PreviewScheduleResponse.create({ understood: UNDERSTOOD, occurrences }));
    },
    pauseSchedule: ({ request }, answer) => {
      answer(null, { schedule: schedule(request.lock, { paused: true }) });
    },
    resumeSchedule: ({ request }, answer) => {
      answer(null, { schedule: schedule(request.lock) });
    },
    removeSchedule: ({ request }, answer) => {
      schedules.asked.push(`remove ${request.reason} ${String(request.force)}`);
      answer(null, { schedule: schedule(request.lock) });
    },
    resetSchedule: ({ request }, answer) => {
      schedules.asked.push(`reset ${request.reason} ${String(request.revision)}`);
      answer(null, { schedule: schedule(request.lock) });
    },
    triggerSchedule: ({ request }, answer) => {
      answer(null, { schedule: schedule(request.lock, { waitingRequestIds: [request.requestId] }) });
    },
  };
}
