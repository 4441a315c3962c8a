// What happens, told to the checker: a line of JSON each, on the machine's monotonic clock.

import { appendFileSync } from "node:fs";

/** Writes a line to the file that `EVENTS` names, at once and whole; nothing without one. */
export function event(what: string, values: object): void {
  const path = process.env["EVENTS"];
  if (path === undefined) return;
  const line = { at: Number(process.hrtime.bigint()), what, pid: process.pid, ...values };
  appendFileSync(path, `${JSON.stringify(line)}\n`);
}
