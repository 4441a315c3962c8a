import { appendFileSync } from "node:fs";
import { hrtime, pid } from "node:process";

/** Prints what happens, and writes it to the file that EVENTS names: one line of JSON, with one write. */
export function say(what: string, values: Record<string, unknown> = {}): void {
    const line = JSON.stringify({ at: Number(hrtime.bigint()), what, pid, ...values });
    console.log(line);
    const file = process.env["EVENTS"];
    if (file !== undefined) appendFileSync(file, `${line}\n`);
}
