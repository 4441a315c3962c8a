// For tests: a time of its own for all timers of this process, which goes on only when it is told to.

import { syncBuiltinESMExports } from "node:module";
import { mock } from "node:test";
import promises from "node:timers/promises";

interface Timer {
  at: number;
  readonly after: number;
  readonly run: () => void;
}

/** Takes the place of `setTimeout` and `Date.now` until it is disposed of. */
export class VirtualTime implements Disposable {
  /** Milliseconds since it began. */
  now = 0;
  readonly #timers = new Map<unknown, Timer>();

  constructor() {
    const began = Date.now();
    const set = (run: (...more: unknown[]) => void, after = 0, ...more: unknown[]): unknown => {
      const timer: Timer = {
        at: this.now + after,
        after,
        run: () => {
          run(...more);
        },
      };
      const handle = {
        ref: () => handle,
        unref: () => handle,
        refresh: () => {
          timer.at = this.now + after;
          this.#timers.set(handle, timer);
          return handle;
        },
      };
      this.#timers.set(handle, timer);
      return handle;
    };
    mock.method(globalThis, "setTimeout", set);
    mock.method(globalThis, "clearTimeout", (handle: unknown) => this.#timers.delete(handle));
    mock.method(Date, "now", () => began + this.now);
    mock.method(promises, "setTimeout", async (after: number) => {
      await new Promise((resolve) => set(resolve, after));
    });
    syncBuiltinESMExports();
  }

  /** Lets the time go to a moment. */
  async pass(to: number): Promise<void> {
    await settled();
    for (;;) {
      const [next] = [...this.#timers].filter(([, { at }]) => at <= to).sort(([, a], [, b]) => a.at - b.at);
      if (next === undefined) break;
      const [handle, timer] = next;
      this.#timers.delete(handle);
      this.now = Math.max(this.now, timer.at);
      timer.run();
      await settled();
    }
    this.now = to;
  }

  [Symbol.dispose](): void {
    mock.restoreAll();
    syncBuiltinESMExports();
  }
}

/** Waits until nothing but timers goes on. */
export async function settled(): Promise<void> {
  for (let round = 0; round < 3; round += 1) await new Promise((resolve) => setImmediate(resolve));
}
