// Plays proto/vectors/client.jsonl and runs.jsonl; docs/clients.md says what they mean.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import type { Completion, Hold, HoldEvent, LeaseSpec, Run, ScheduleEvent } from "../src/index.js";
import { BusyError, LostError, RefusedError } from "../src/index.js";
import type { Refusing, Said } from "./messages.js";
import type { Runs } from "./stage.js";
import { Stage, next, settled } from "./stage.js";

/** What the holder does, with all that it may say. */
interface Deed extends Pick<LeaseSpec, "permits" | "priority" | "yields" | "share"> {
  wait?: number;
  max_hold?: number;
  value?: string;
  outcome?: string;
  fails?: boolean;
}

interface Step {
  at: number;
  sleep?: number;
  within?: number;
  do?: Record<string, Deed>;
  tell?: Record<string, Said> | Record<string, Said>[];
  on?: number;
  break?: Refusing;
  answer?: Record<string, Said>;
  refuse?: Record<string, Refusing>;
  sent?: string[];
  told?: string[];
  returned?: string[];
  until?: number | null;
  max_hold?: number;
  open?: number[];
}

interface Vector {
  vector: string;
  kernel?: string;
  steps: Step[];
}

/** The stories of all clients, and what this one does besides. */
const FILES = [
  "../../../../proto/vectors/client.jsonl",
  "../../../../proto/vectors/runs.jsonl",
  "../../test/own.jsonl",
];

function readVectors(file: string): Vector[] {
  const vectors: Vector[] = [];
  const text = readFileSync(new URL(file, import.meta.url), "utf8");
  for (const line of text.split("\n").filter((it) => it !== "")) {
    const read = JSON.parse(line) as Omit<Vector, "steps"> | Step;
    if ("vector" in read) vectors.push({ ...read, steps: [] });
    else vectors.at(-1)?.steps.push(read);
  }
  return vectors;
}

/** What a subscription is closed with. */
const CLOSED = new Error("closed");

/** What work fails with: without a text, for which a vector has no words. */
const FAILED = new Error("");

/** Does what a vector says, and compares what comes of it. */
class Player extends Stage {
  readonly #stop = new AbortController();
  readonly #runs: Runs;
  #until: number | null = null;
  #told: string[] = [];
  #returned: string[] = [];
  #finish: (fails: boolean) => void = () => undefined;

  constructor(kernel: string) {
    super(kernel);
    // The pauses of who leads are the longest.
    this.replace(Math, "random", () => 1);
    const listeners = { onEvent: this.#hear, onHoldEvent: this.#hear };
    this.#runs = this.client.runs({ function: "f", cron: "30 2 * * *" }, { signal: this.#stop.signal, ...listeners });
  }

  /** Does what a step says, and compares what came of it. */
  async play(step: Step): Promise<void> {
    await this.#reach(step.at);
    this.sleep(step.sleep ?? 0);
    for (const [name, said] of Object.entries(step.answer ?? {})) this.sidecar.answer(name, said);
    for (const [name, refusing] of Object.entries(step.refuse ?? {})) this.sidecar.refuse(name, refusing);
    for (const [name, deed] of Object.entries(step.do ?? {})) void this.#do(name, deed);
    await settled();
    for (const event of [step.tell ?? []].flat()) this.sidecar.tell(step.on, event);
    if (step.break !== undefined) this.sidecar.break(step.on, step.break);
    await this.reach(step.at + (step.sleep ?? 0) + (step.within ?? 0));
    this.#compare(step);
  }

  /** Lets the time go on to a step. The validity ends at its end, neither sooner nor later. */
  async #reach(at: number): Promise<void> {
    const until = this.#until;
    if (until !== null && this.now < until && until < at) {
      await this.reach(until - 1);
      assert.ok(this.hold?.isValid(), `before ${String(at)}: the hold is over already`);
      await this.reach(until);
      assert.ok(!this.hold?.isValid(), `before ${String(at)}: the hold is not over`);
    }
    await this.reach(at);
  }

  #compare(step: Step): void {
    if (step.until !== undefined) this.#until = step.until;
    const { sent = [], told = [], returned = [], open, max_hold } = step;
    const { hold } = this;
    const until = hold?.isValid() === true ? hold.remainingMs() + this.now : null;
    const seen = { ...this.sidecar.taken(), told: this.#told, returned: this.#returned, until };
    const wanted = { sent, faults: [], told, returned, until: this.#until };
    [this.#told, this.#returned] = [[], []];
    const at = `at ${String(step.at)}`;
    assert.deepEqual(seen, wanted, at);
    if (open !== undefined) assert.deepEqual(this.sidecar.open, open, at);
    const limit = hold !== undefined && "deadlineAt" in hold ? hold.deadlineRemainingMs() : hold?.maxHoldRemainingMs();
    if (max_hold !== undefined) assert.equal((limit ?? NaN) + this.now, max_hold, at);
  }

  readonly #hear = (event: HoldEvent | ScheduleEvent): void => {
    if (event.type !== "granted") this.#told.push(inWords(event));
  };

  /** Goes on until the holder finishes it, or it is to end. */
  async #work(hold: Hold | Run, begun: string, signal: AbortSignal): Promise<void> {
    this.hold = hold;
    this.#told.push(begun);
    await new Promise<void>((resolve, reject) => {
      this.#finish = (fails) => {
        if (fails) reject(FAILED);
        else resolve();
      };
      signal.addEventListener("abort", () => {
        reject(signal.reason as Error);
      });
    });
  }

  async #do(name: string, deed: Deed): Promise<void> {
    if (name === "finish") {
      this.#finish(deed.fails === true);
      return;
    }
    const done = await this.#done(name, deed).catch((error: unknown) => nameOf(error, name));
    this.#returned.push(`${name} ${done}`);
  }

  /** What the holder does, and what comes of it. */
  async #done(
    name: string,
    { wait: waitMs = 0, max_hold = 0, value = "", outcome = "", ...more }: Deed,
  ): Promise<string> {
    const { hold } = this;
    switch (name) {
      case "hold":
        this.hold = await this.client.hold({ function: "f", waitMs, ...more }, { onEvent: this.#hear });
        return "held";
      case "lead":
        await this.client.withTerms(
          { function: "f" },
          (signal, term) => this.#work(term, `term ${String(term.fencingToken)}`, signal),
          { onEvent: this.#hear },
        );
        return "done";
      case "every":
        await this.client.every(
          { function: "f", cron: "30 2 * * *" },
          (run, signal) => this.#work(run, `run ${String(run.attempt)}`, signal),
          { onEvent: this.#hear, onHoldEvent: this.#hear },
        );
        return "done";
      case "next_run":
        this.hold = await next(this.#runs);
        return `run ${String(this.hold.attempt)}`;
      case "close_client":
        await this.client.close();
        return "done";
      case "close":
        this.#stop.abort(CLOSED);
        return "done";
      case "report_progress":
        await hold?.reportProgress();
        return "done";
      case "save_checkpoint":
        return String(await hold?.save(value));
    }
    assert.ok(hold !== undefined);
    if ("complete" in hold) {
      const completion = { outcome: outcome.toLowerCase() as Completion["outcome"] };
      return bare((await hold.complete(completion)).result);
    }
    if (name === "release") return bare((await hold.release()).outcome);
    await hold.extend(max_hold);
    return "done";
  }
}

/** What the holder is told, as a vector has it. */
function inWords(event: HoldEvent | ScheduleEvent): string {
  if (event.type === "definitionInForce") return event.definition.conflict ? "definition conflict" : "definition";
  if (event.type === "waiting") return `waiting ${String(event.position)}`;
  if (event.type === "atRisk") return `at_risk ${event.cause}`;
  if (event.type === "draining") return `draining ${String(event.timeLeftMs)}`;
  if (event.type === "revoked") return `revoked by ${event.notice.brokenBy}`;
  return event.type === "lost" ? `lost ${bare(event.loss.reason)}` : event.type;
}

/** The name of a value, without that of its enum. */
function bare(value: string): string {
  return value.replace(/^(RELEASE_OUTCOME|LOSS_REASON|BUSY_REASON|COMPLETION_RESULT)_/, "");
}

function nameOf(error: unknown, deed: string): string {
  if (error === CLOSED) return "closed";
  if (error === FAILED) return "failed";
  if (error instanceof BusyError) return `busy ${bare(error.reason)}`;
  if (error instanceof LostError) return `lost ${bare(error.loss.reason)}`;
  if (deed === "release") return "unconfirmed";
  return error instanceof RefusedError ? `refused ${error.reason ?? ""}` : String(error);
}

for (const { vector, kernel, steps } of FILES.flatMap(readVectors)) {
  test(vector, async () => {
    using player = new Player(kernel ?? "ours");
    for (const step of steps) await player.play(step);
  });
}
