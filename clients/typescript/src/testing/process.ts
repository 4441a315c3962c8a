// The process of a sidecar that a test has started.

import type { ChildProcess } from "node:child_process";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";

/** How often a condition is looked at, in milliseconds. */
export const LOOK_MS = 10;

/** Linux takes 107 bytes, macOS 103. */
const LONGEST_SOCKET_PATH = 100;

/** Stops a process until its own standard input is closed, which it is also when the test process dies. */
const PAUSE = `
kill -STOP "$1" || exit 1
while :; do
    case $(cat "/proc/$1/stat" 2>/dev/null || ps -o stat= -p "$1") in
    *') T '* | T*) break ;;
    '' | *') Z '* | Z*) exit 1 ;;
    esac
done
echo paused
read -r _
kill -CONT "$1" 2>/dev/null
`;

const DEFAULTS = {
  "store.kind": "memory",
  "listen.tcp": "",
  "admin.listen": "",
  "admin.allow_break": "true",
  "host_id.host_type": "test",
  "locks.lease_duration": "15s",
};

/** A `leasehold serve` in a folder of its own. It ends with the test process, however that ends. */
export class SidecarProcess {
  readonly socket: string;
  readonly #folder: string;
  readonly #words: readonly string[];
  #running: ChildProcess | undefined;
  #pausing: ChildProcess | undefined;

  constructor(
    private readonly program: string,
    settings: Readonly<Record<string, string>>,
  ) {
    const fits = path.join(tmpdir(), "lh-123456", "s").length <= LONGEST_SOCKET_PATH;
    this.#folder = mkdtempSync(path.join(fits ? tmpdir() : "/tmp", "lh-"));
    this.socket = path.join(this.#folder, "s");
    const all = { ...DEFAULTS, "listen.unix": this.socket, ...settings };
    const sets = Object.entries(all).flatMap(([key, value]) => ["--set", `${key}=${value}`]);
    this.#words = ["serve", "--exit-on-stdin-close", ...sets];
  }

  log(): string {
    const file = path.join(this.#folder, "log");
    return existsSync(file) ? readFileSync(file, "utf8") : "";
  }

  get isPaused(): boolean {
    return this.#pausing !== undefined;
  }

  running(): ChildProcess {
    if (this.#running === undefined) throw new Error("the sidecar does not run: start() it first");
    return this.#running;
  }

  /** Starts it, and waits until it listens. */
  async start(timeoutMs: number): Promise<void> {
    if (this.#running !== undefined) throw new Error("the sidecar runs already: kill() or stop() it before start()");
    // Settings come from the test alone, whatever the environment has for the code under test.
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("LEASEHOLD_")));
    const log = openSync(path.join(this.#folder, "log"), "a");
    const child = spawn(this.program, this.#words, {
      cwd: this.#folder,
      env,
      stdio: ["pipe", log, log],
      // Ctrl-C at a terminal, which ends the tests, is not for the sidecar: it ends after them.
      detached: true,
    });
    closeSync(log);
    try {
      await once(child, "spawn");
    } catch (cause) {
      throw new Error(`cannot start ${this.program}`, { cause });
    }
    leaveUnwaited(child);
    this.#running = child;
    await this.#listening(child, timeoutMs);
  }

  async #listening(child: ChildProcess, timeoutMs: number): Promise<void> {
    const late = AbortSignal.timeout(timeoutMs);
    while (!(await accepts(this.socket))) {
      if (hasEnded(child)) {
        this.#forget();
        const how = child.signalCode ?? String(child.exitCode);
        throw new Error(`${this.program} ${this.#words.join(" ")} ended with ${how} as it started:\n${this.log()}`);
      }
      if (late.aborted) {
        throw new Error(`the sidecar does not listen after ${String(timeoutMs)} ms. Its log:\n${this.log()}`);
      }
      await delay(LOOK_MS);
    }
  }

  /** Stops it (SIGSTOP) until {@link resume}. */
  async pause(): Promise<void> {
    const pid = String(this.running().pid);
    if (this.#pausing !== undefined) throw new Error("the sidecar is paused already");
    const pausing = spawn("/bin/sh", ["-c", PAUSE, "sh", pid], { stdio: ["pipe", "pipe", "inherit"], detached: true });
    this.#pausing = pausing;
    const paused = once(pausing.stdout, "data").then(() => true);
    const ended = once(pausing, "exit").then(() => false);
    if (!(await Promise.race([paused, ended]))) {
      this.#pausing = undefined;
      throw new Error(`the sidecar, process ${pid}, cannot be stopped: it has ended. Its log:\n${this.log()}`);
    }
    leaveUnwaited(pausing);
  }

  /** Lets it go on. */
  async resume(): Promise<void> {
    const pausing = this.#pausing;
    if (pausing === undefined) return;
    this.#pausing = undefined;
    const ended = exit(pausing);
    pausing.stdin?.end();
    await ended;
  }

  /** Has it shut down, as at SIGTERM, and waits for that. */
  async stop(timeoutMs: number): Promise<void> {
    const child = this.running();
    child.kill("SIGTERM");
    await this.resume();
    const late = new AbortController();
    const isLate = delay(timeoutMs, true, { signal: late.signal }).catch(() => true);
    if (await Promise.race([exit(child).then(() => false), isLate])) {
      throw new Error(
        `the sidecar has not shut down after ${String(timeoutMs)} ms: it waits for holders, up to drain.period. ` +
          `Its log:\n${this.log()}`,
      );
    }
    late.abort();
    this.#forget();
  }

  /** Ends it as a crash does. */
  async kill(): Promise<void> {
    const child = this.#running;
    if (child === undefined) return;
    child.kill("SIGKILL");
    await this.resume();
    await exit(child);
    this.#forget();
  }

  #forget(): void {
    this.#running?.stdin?.destroy();
    this.#running = undefined;
    // What is left of a sidecar that was killed would be taken for one that listens.
    rmSync(this.socket, { force: true });
  }

  /** Ends it, and removes its folder. */
  async close(): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** A sidecar that nobody has closed does not keep the test process from ending, and ends with it. */
function leaveUnwaited(child: ChildProcess): void {
  child.unref();
  for (const stream of [child.stdin, child.stdout]) {
    // Pipes are sockets, of which the types know nothing.
    (stream as { unref?: () => void } | null)?.unref?.();
    // It has ended; who waits for it finds that.
    stream?.on("error", () => undefined);
  }
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

async function exit(child: ChildProcess): Promise<void> {
  child.ref();
  if (!hasEnded(child)) await once(child, "exit");
}

function accepts(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const connection = connect(socket);
    connection.once("connect", () => {
      connection.destroy();
      resolve(true);
    });
    connection.once("error", () => {
      resolve(false);
    });
  });
}
