// Does what the shared scenarios say: a JSON command a line on standard input, a JSON event a line on standard output.

import { createInterface } from "node:readline";

import {
  BusyError,
  Client,
  Code,
  EndpointError,
  HoldLostError,
  NotReleasedError,
  RefusedError,
  UnreachableError,
  lossReasonName,
} from "leasehold-client";
import type { Hold, HoldEvent, HoldOptions, HoldRequest } from "leasehold-client";

import { increment } from "../samples/increment.js";
import { measure } from "./measure.js";

interface Command {
  readonly id: string;
  readonly do: string;
  readonly function?: string;
  readonly scope?: string;
  readonly wait_ms?: number | null;
  readonly lease_ms?: number | null;
  readonly max_hold_ms?: number | null;
  readonly min_hold_ms?: number | null;
  readonly progress_timeout_ms?: number | null;
  readonly labels?: Record<string, string> | null;
  readonly lease_id?: string;
  readonly token?: number;
  readonly reason?: string;
  readonly now?: boolean;
  readonly permits?: number | null;
  readonly wait_forever?: boolean;
  readonly value?: string;
  readonly checkpoint?: string;
  readonly times?: number;
  readonly file?: string;
  /** `scope`: the hold is left by the end of an `await using` block. */
  readonly form?: string;
}

/** What the commands on a hold, or on a watch, act upon. */
interface Running {
  readonly abort: AbortController;
  hold?: Hold;
  /** The abort comes from outside, when the lock is held. */
  interrupted?: boolean;
  /** Ends the block; with an error, by throwing it. */
  leave?: (error?: Error) => void;
}

type Fields = Record<string, unknown>;

const running = new Map<string, Running>();
let connecting: Promise<Client> | undefined;

function say(id: string, event: string, fields: Fields = {}): void {
  process.stdout.write(`${JSON.stringify({ id, event, ...fields })}\n`);
}

async function connected(): Promise<Client> {
  const options: { keepAliveMs?: number; releaseTimeoutMs?: number } = {};
  const { LEASEHOLD_DRIVER_KEEP_ALIVE_MS: keepAlive, LEASEHOLD_DRIVER_RELEASE_TIMEOUT_MS: releaseTimeout } =
    process.env;
  if (keepAlive !== undefined) options.keepAliveMs = Number(keepAlive);
  if (releaseTimeout !== undefined) options.releaseTimeoutMs = Number(releaseTimeout);
  connecting ??= Client.connect(options);
  try {
    return await connecting;
  } catch (error) {
    connecting = undefined;
    throw error;
  }
}

function holdRequest(command: Command): HoldRequest {
  const request: Record<string, unknown> = { ...lockName(command) };
  const set = (name: keyof HoldRequest, value: unknown): void => {
    if (value !== undefined && value !== null) request[name] = value;
  };
  set("waitMs", command.wait_ms === -1 || command.wait_forever === true ? Infinity : command.wait_ms);
  set("permits", command.permits);
  set("leaseDurationMs", command.lease_ms);
  set("maxHoldMs", command.max_hold_ms);
  set("minHoldMs", command.min_hold_ms);
  set("progressTimeoutMs", command.progress_timeout_ms);
  set("labels", command.labels);
  return request;
}

function lockName(command: Command): { function: string; scope: string } {
  return { function: command.function ?? "", scope: command.scope ?? "" };
}

function sayGrant(id: string, grant: { fencingToken: number; leaseId: string; lockPath: string }): void {
  say(id, "granted", { token: grant.fencingToken, lease_id: grant.leaseId, lock_path: grant.lockPath });
}

function sayEvent(id: string, event: HoldEvent): void {
  switch (event.type) {
    case "waiting":
      say(id, "waiting", { place: event.position });
      break;
    case "atRisk":
      say(id, "at_risk", { remaining_ms: Math.floor(event.remainingMs), cause: event.cause });
      break;
    case "recovered":
    case "draining":
    case "interrupted":
    case "resumed":
      say(id, event.type);
      break;
    case "revoked":
      say(id, "revoked", { reason: event.notice.reason });
      break;
    // Said where the block begins and ends, or not at all.
    case "granted":
    case "renewed":
    case "lost":
  }
}

/** Says how a command failed. */
function sayFailure(id: string, error: unknown, abort?: AbortController): void {
  if (error instanceof BusyError) {
    say(id, "busy", { holder: error.holder, token: error.record?.fencingToken ?? null });
  } else if (error instanceof HoldLostError) {
    say(id, "lost", { reason: lossReasonName(error.loss.reason), detail: error.loss.detail });
  } else if (error instanceof NotReleasedError) {
    say(id, "release_unconfirmed");
  } else if (error instanceof RefusedError) {
    const fields = error.violations.map(({ field }) => field);
    const { reason = null, message } = error;
    say(id, "error", { code: Code[error.code], reason, message, fields });
  } else if (abort?.signal.aborted === true && error === abort.signal.reason) {
    say(id, "aborted");
  } else if (error instanceof Error && error.message === "boom") {
    say(id, "failed", { error: error.message });
  } else {
    const code =
      error instanceof UnreachableError ? "UNAVAILABLE" : error instanceof EndpointError ? "ENDPOINT" : "CLIENT";
    say(id, "error", { code, reason: null, message: String(error), fields: [] });
  }
}

async function hold(command: Command): Promise<void> {
  const { id } = command;
  const entry: Running = { abort: new AbortController() };
  running.set(id, entry);
  const work = async (signal: AbortSignal, held: Hold): Promise<void> => {
    entry.hold = held;
    const told = new Promise<void>((resolve, reject) => {
      entry.leave = (error): void => {
        if (error === undefined) resolve();
        else reject(error);
      };
    });
    const aborted = new Promise<never>((_resolve, reject) => {
      signal.addEventListener("abort", () => {
        if (held.loss !== undefined) say(id, "cancelled");
        reject(signal.reason as Error);
      });
    });
    sayGrant(id, held);
    await Promise.race([told, aborted]);
  };
  const onEvent = (event: HoldEvent): void => {
    sayEvent(id, event);
  };
  try {
    const client = await connected();
    const options = { signal: entry.abort.signal, onEvent };
    if (command.form === "scope") await holdInScope(client, command, work, options);
    else await client.whileHolding(holdRequest(command), work, options);
    say(id, "released");
  } catch (error) {
    if (entry.interrupted === true && error === entry.abort.signal.reason) say(id, "interrupted_outside");
    else sayFailure(id, error, entry.abort);
  }
}

async function holdInScope(
  client: Client,
  command: Command,
  work: (signal: AbortSignal, held: Hold) => Promise<void>,
  options: HoldOptions,
): Promise<void> {
  await using held = await client.hold(holdRequest(command), options);
  await work(held.signal, held);
}

/** Leaves a watch open. An open socket keeps Node.js alive, so the client is closed. */
async function openWatch({ id, ...command }: Command): Promise<void> {
  const client = await connected();
  const { value } = await client.watchLock(lockName({ id, ...command })).next();
  if (value !== undefined) say(id, "watched", { state: nameOf("LOCK_STATE_", value.state) });
  client.close();
}

async function watch(command: Command): Promise<void> {
  const abort = new AbortController();
  running.set(command.id, { abort });
  try {
    const client = await connected();
    for await (const { state } of client.watchLock(lockName(command), { signal: abort.signal })) {
      say(command.id, "watched", { state: nameOf("LOCK_STATE_", state) });
    }
  } catch (error) {
    sayFailure(command.id, error, abort);
  }
}

/** An enum's value without the enum's own name. */
function nameOf(prefix: string, value: string): string {
  return value.startsWith(prefix) ? value.slice(prefix.length) : value;
}

function holdOf(id: string): { hold: Hold; leave: (error?: Error) => void } {
  const { hold: held, leave } = running.get(id) ?? {};
  if (held === undefined || leave === undefined) throw new Error(`there is no hold ${id}`);
  return { hold: held, leave };
}

async function quick(client: Client, { function: name = "", times = 1 }: Command): Promise<number[]> {
  const tokens: number[] = [];
  for (let turn = 0; turn < times; turn += 1) {
    await using held = await client.hold({ function: name, waitMs: Infinity });
    tokens.push(held.fencingToken);
  }
  return tokens;
}

const COMMANDS: Record<string, (command: Command) => Promise<void> | void> = {
  hold,
  watch,
  release: ({ id }) => {
    holdOf(id).leave();
  },
  fail: ({ id }) => {
    holdOf(id).leave(new Error("boom"));
  },
  cancel: ({ id }) => {
    running.get(id)?.abort.abort();
  },
  interrupt: ({ id }) => {
    const entry = running.get(id);
    if (entry === undefined) throw new Error(`there is no hold ${id}`);
    entry.interrupted = true;
    entry.abort.abort();
  },
  progress: async ({ id }) => {
    await holdOf(id).hold.reportProgress();
    say(id, "progressed");
  },
  validity: ({ id }) => {
    const { hold: held } = holdOf(id);
    const remaining = held.remainingMs();
    say(id, "validity", { valid: held.isValid(), remaining_ms: Math.floor(remaining) });
  },
  acquire: async (command) => {
    sayGrant(command.id, await (await connected()).acquire(holdRequest(command)));
  },
  release_lease: async ({ id, lease_id: leaseId = "" }) => {
    const { outcome } = await (await connected()).release(leaseId);
    say(id, "released", { outcome: nameOf("RELEASE_OUTCOME_", outcome) });
  },
  extend: async ({ id, lease_id: leaseId = "", max_hold_ms: maxHoldMs }) => {
    await (await connected()).extend(leaseId, maxHoldMs ?? 0);
    say(id, "extended");
  },
  resolve: async (command) => {
    const { lockPath } = await (await connected()).resolvePath(lockName(command));
    say(command.id, "resolved", { lock_path: lockPath });
  },
  list: async ({ id }) => {
    const paths: string[] = [];
    for await (const { lockPath } of (await connected()).listLocks()) paths.push(lockPath);
    say(id, "listed", { paths });
  },
  check: async (command) => {
    const { status } = await (await connected()).checkToken(lockName(command), command.token ?? 0);
    say(command.id, "checked", { status: nameOf("TOKEN_STATUS_", status) });
  },
  break: async (command) => {
    const { now = false, reason = "" } = command;
    const { outcome } = await (await connected()).breakLock(lockName(command), reason, { now });
    say(command.id, "broken", { outcome: nameOf("BREAK_OUTCOME_", outcome) });
  },
  quick: async (command) => {
    say(command.id, "done", { tokens: await quick(await connected(), command) });
  },
  contend: async ({ id, file = "", times = 1 }) => {
    say(id, "done", { tokens: await increment(await connected(), file, times) });
  },
  measure: async ({ id, function: name = "", times = 500 }) => {
    const { client, stub } = await measure(await connected(), name, times);
    say(id, "measured", { client_per_second: client, stub_per_second: stub });
  },
};

async function obey(command: Command): Promise<void> {
  try {
    const action = COMMANDS[command.do];
    if (action === undefined) throw new Error(`no command is called ${command.do}`);
    await action(command);
  } catch (error) {
    sayFailure(command.id, error);
  }
}

/** Whether the process is to end in the ordinary way, with a watch left open. */
async function readCommands(): Promise<boolean> {
  for await (const line of createInterface({ input: process.stdin })) {
    if (line.trim() === "") continue;
    const command = JSON.parse(line) as Command;
    if (command.do === "exit_with_open_watch") {
      await openWatch(command);
      // What still waits for commands would keep the process alive, too.
      process.stdin.destroy();
      return true;
    }
    void obey(command);
  }
  return false;
}

if (!(await readCommands())) {
  const client = await connecting?.catch(() => undefined);
  client?.close();
  process.stdout.write("", () => process.exit(0));
}
