// Does what the shared scenarios say: a JSON command a line on standard input, a JSON event a line on standard output.

import { once } from "node:events";
import { createInterface } from "node:readline";

import { Checkpoint, CheckpointUnknownError, Reason, LostError, RefusedError } from "leasehold-client";
import type { Client, Hold, HoldEvent, HoldOptions } from "leasehold-client";

import { increment } from "../samples/increment.js";
import { measure } from "./measure.js";
import { every, occurrence, runs } from "./schedules.js";
import type { Command, Running } from "./talk.js";
import { checkpointFields, connected, connectedBefore, holdRequest, lockName, nameOf, running } from "./talk.js";
import { placeFields, say, sayEvent, sayFailure, sayGrant } from "./talk.js";

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
    sayGrant(id, held, held.checkpoint);
    await Promise.race([told, aborted]);
  };
  const onEvent = (event: HoldEvent): void => {
    sayEvent(id, event);
  };
  try {
    const client = await connected();
    const options = { signal: entry.abort.signal, onEvent };
    if (command.form === "scope") await holdInScope(client, command, work, options);
    else await client.withHold(holdRequest(command), work, options);
    // The same answer that the end of the block has got.
    const result = await entry.hold?.release();
    say(id, "released", result === undefined ? {} : checkpointFields(result));
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
  await client.close();
}

async function watch(command: Command): Promise<void> {
  const abort = new AbortController();
  running.set(command.id, { abort });
  try {
    const client = await connected();
    for await (const record of client.watchLock(lockName(command), { signal: abort.signal })) {
      say(command.id, "watched", { state: nameOf("LOCK_STATE_", record.state), ...placeFields(record) });
    }
  } catch (error) {
    sayFailure(command.id, error, abort);
  }
}

async function watchLocks({ id, prefix, share }: Command): Promise<void> {
  const abort = new AbortController();
  running.set(id, { abort });
  try {
    const options = { ...(prefix === undefined ? {} : { prefix }), share: share ?? "" };
    for await (const event of (await connected()).watchLocks({ ...options, signal: abort.signal })) {
      if (event.type === "changed") {
        const { lockPath: path, state } = event.record;
        say(id, "lock_changed", { path, state: nameOf("LOCK_STATE_", state), ...placeFields(event.record) });
      } else if (event.type === "gone") say(id, "lock_gone", { path: event.lockPath });
      else say(id, "listed", { locks: event.locks });
    }
  } catch (error) {
    sayFailure(id, error, abort);
  }
}

/** Leads until it is told to stop. */
async function lead(command: Command): Promise<void> {
  const { id } = command;
  const abort = new AbortController();
  running.set(id, { abort });
  try {
    const client = await connected();
    const terms = client.lead(holdRequest(command), {
      signal: abort.signal,
      onEvent: (event) => {
        sayEvent(id, event);
      },
    });
    for await (const { fencingToken, signal } of terms) {
      say(id, "leading", { token: fencingToken });
      await aborted(AbortSignal.any([signal, abort.signal]));
      if (abort.signal.aborted) break;
      say(id, "term_ended");
    }
  } catch (error) {
    if (error !== abort.signal.reason) {
      sayFailure(id, error, abort);
      return;
    }
  }
  say(id, "stopped_leading");
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, "abort");
}

/** Saves the checkpoint of a hold, and says the outcome. */
async function save(id: string, value: string): Promise<void> {
  try {
    say(id, "saved", { version: await holdOf(id).hold.save(value) });
  } catch (error) {
    let reason: string | undefined;
    if (error instanceof LostError) reason = Reason.HOLD_LOST;
    else if (error instanceof RefusedError || error instanceof CheckpointUnknownError) reason = error.reason;
    if (reason === undefined) throw error;
    say(id, "save_failed", { reason });
  }
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
  release: async ({ id, checkpoint }) => {
    const { hold: held, leave } = holdOf(id);
    // What this throws, the end of the block throws, too.
    if (checkpoint !== undefined) await held.release({ checkpoint }).catch(() => undefined);
    leave();
  },
  save: async ({ id, value = "" }) => {
    await save(id, value);
  },
  info: async ({ id }) => {
    const { state, fencingToken } = await holdOf(id).hold.info();
    say(id, "info", { state: nameOf("HOLD_STATE_", state), token: fencingToken });
  },
  lead: async (command) => {
    await lead(command);
  },
  runs,
  every,
  occurrence,
  complete: ({ id, outcome }) => {
    running.get(id)?.complete?.(outcome ?? "");
  },
  stop_leading: ({ id }) => {
    running.get(id)?.abort.abort();
  },
  watch_locks: async (command) => {
    await watchLocks(command);
  },
  server_info: async ({ id }) => {
    const { version, features } = await (await connected()).getServerInfo();
    say(id, "server_info", { version, features: [...features] });
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
    const grant = await (await connected()).acquire(holdRequest(command));
    sayGrant(command.id, grant, Checkpoint.from(grant.checkpoint));
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
  list: async ({ id, share }) => {
    const paths: string[] = [];
    const locks = (await connected()).listLocks({ share: share ?? "" });
    for await (const { lockPath } of locks) paths.push(lockPath);
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
  const client = await connectedBefore();
  await client?.close();
  process.stdout.write("", () => process.exit(0));
}
