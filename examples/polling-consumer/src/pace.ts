import { readFile, writeFile } from "node:fs/promises";

/** How much a new message weighs in the mean. */
const WEIGHT = 0.1;
/** Ending itself takes time, however fast messages are, and `leasehold` asks to end a second before the hold does. */
const LEAST_MS = 1_500;
/** What is taken for the mean time before any message was handled. */
const FIRST_MS = 500;
const TIMES = 3;

/** The mean time of a message, kept in the lock's checkpoint from one consumer to the next. */
export class Pace {
    private constructor(private meanMs: number) {}

    /** What the last consumer has learned; a guess for the first one. */
    static async read(file: string | undefined): Promise<Pace> {
        const text = file === undefined ? "" : await readFile(file, "utf8").catch(() => "");
        const meanMs = Number.parseFloat(text);
        return new Pace(Number.isFinite(meanMs) ? meanMs : FIRST_MS);
    }

    /** `leasehold` saves the file as the lock's checkpoint when the consumer ends with 0. */
    async write(file: string | undefined): Promise<void> {
        if (file !== undefined) await writeFile(file, this.meanMs.toFixed(1));
    }

    /** A message took so long. */
    took(ms: number): void {
        this.meanMs += WEIGHT * (ms - this.meanMs);
    }

    /** How long before the end no message is begun any more. */
    get marginMs(): number {
        return Math.max(LEAST_MS, TIMES * this.meanMs);
    }
}
