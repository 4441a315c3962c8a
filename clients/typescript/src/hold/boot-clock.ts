// The clock that counts from boot and goes on counting while the machine sleeps (S3); the only file that reads one.

import { openSync, readFileSync, readSync, readlinkSync } from "node:fs";

import { PlatformError } from "../errors/errors.js";

/** A reading of the boot clock in milliseconds since boot: the moment lies between the two, both included. */
export interface BootReading {
  /** Not later than the moment of the reading. What is counted from a request counts from here. */
  readonly earliest: number;
  /** Not earlier than the moment of the reading. What must not be over is compared with this. */
  readonly latest: number;
}

/** Where the time comes from: the machine, or a test. */
export interface Clock {
  /** The present moment. */
  read(): BootReading;
  /** Whose boot it counts from; empty if the kernel does not tell, or a time namespace shifts the clock. */
  readonly bootId: string;
}

const UPTIME = "/proc/uptime";
const BOOT_ID = "/proc/sys/kernel/random/boot_id";

/** The kernel tells its boot clock in hundredths of a second, rounded down. */
const UPTIME_STEP_MS = 10;

/** Linux's boot clock (CLOCK_BOOTTIME), read from /proc/uptime because Node.js has no call for it. */
export class BootClock implements Clock {
  readonly bootId = bootId();
  /** Stays open as long as the process: the kernel makes the text anew for each reading. */
  readonly #file = openUptime();
  readonly #text = Buffer.alloc(64);

  read(): BootReading {
    const length = readSync(this.#file, this.#text, 0, this.#text.length, 0);
    const seconds = Number.parseFloat(this.#text.toString("latin1", 0, length));
    if (!Number.isFinite(seconds)) throw new PlatformError(`${UPTIME} does not begin with a number`);
    const earliest = Math.round(seconds * 1_000);
    return { earliest, latest: earliest + UPTIME_STEP_MS };
  }
}

/** macOS's: `process.hrtime` reads mach_continuous_time there, which goes on counting while the machine sleeps. */
export class MacClock implements Clock {
  /** No sidecar runs there, so there is none to compare with (S21). */
  readonly bootId = "";

  read(): BootReading {
    const now = Number(process.hrtime.bigint()) / 1_000_000;
    return { earliest: now, latest: now };
  }
}

/** The one clock of this process; made when it is first asked for. */
export function machineClock(): Clock {
  machine ??= clockOf(process.platform);
  return machine;
}

/** @throws PlatformError where there is none that counts while the machine sleeps. */
export function clockOf(platform: NodeJS.Platform): Clock {
  if (platform === "linux") return new BootClock();
  if (platform === "darwin") return new MacClock();
  throw new PlatformError(
    `Leasehold's client needs Linux or macOS: Node.js on ${platform} has no clock that counts while the machine sleeps, ` +
      "without which nobody knows whether a lock is still held",
  );
}

let machine: Clock | undefined;

function openUptime(): number {
  try {
    return openSync(UPTIME, "r");
  } catch (cause) {
    throw new PlatformError(`${UPTIME} cannot be read`, { cause });
  }
}

function bootId(): string {
  // Where it is not told no clock is known to be the sidecar's, and the sidecar is asked instead (S21).
  return isShifted("/proc/self") ? "" : (told(() => readFileSync(BOOT_ID, "latin1").trim()) ?? "");
}

/**
 * Whether a time namespace shifts the clock of this process, or may: processes of other namespaces then read another clock
 * under the same boot id (S21).
 */
export function isShifted(process: string): boolean {
  const offsets = told(() => readFileSync(`${process}/timens_offsets`, "latin1"));
  const ours = told(() => readlinkSync(`${process}/ns/time`));
  // A kernel without time namespaces.
  if (offsets === undefined && ours === undefined) return false;
  // The kernel tells the shift of the namespace that children get.
  const ofChildren = told(() => readlinkSync(`${process}/ns/time_for_children`));
  if (offsets === undefined || ours === undefined || ours !== ofChildren) return true;
  return !offsets.split("\n").some((line) => /^\s*boottime\s+0\s+0\s*$/.test(line));
}

function told(read: () => string): string | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
