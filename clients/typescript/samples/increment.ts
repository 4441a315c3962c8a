import { readFile, writeFile } from "node:fs/promises";

import type { Client } from "leasehold-client";

/**
 * Adds one to the number in `file` so many times, under the lock `contend`, and gives the tokens. `FILE.token` keeps the
 * greatest token that the file has seen, as every resource that a lock protects should.
 */
export async function increment(client: Client, file: string, times: number): Promise<number[]> {
  const tokens: number[] = [];
  for (let turn = 0; turn < times; turn += 1) {
    await using hold = await client.hold({ function: "contend", waitMs: Infinity });
    const number = await readNumber(file);
    if (hold.fencingToken <= (await readNumber(`${file}.token`))) {
      throw new Error(`the token ${String(hold.fencingToken)} is not greater than those before`);
    }
    hold.throwIfLost();
    await writeFile(file, `${String(number + 1)}\n`);
    await writeFile(`${file}.token`, `${String(hold.fencingToken)}\n`);
    tokens.push(hold.fencingToken);
  }
  return tokens;
}

async function readNumber(file: string): Promise<number> {
  const text = await readFile(file, "utf8").catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return "";
    throw error;
  });
  const number = Number(text.trim());
  if (!Number.isSafeInteger(number)) throw new Error(`${file} has no number in it`);
  return number;
}
