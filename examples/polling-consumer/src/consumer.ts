/**
 * Drains a queue and goes on polling it until shortly before the next occurrence, then ends by itself.
 *
 * `leasehold run` and `leasehold every` start it in one place at a time, and say when its hold ends.
 */
import { setTimeout as sleep } from "node:timers/promises";

import { type DequeuedMessageItem, QueueClient } from "@azure/storage-queue";

import { say } from "./events.js";
import { Pace } from "./pace.js";

/** Between two polls of an empty queue. */
const POLL_MS = 200;
/** For so long a message is hidden from others; a consumer that dies leaves it to the next one after that. */
const HIDDEN_SECONDS = 10;

/** When this consumer has to be gone, in milliseconds since 1970. */
function ends(): number {
    const { LEASEHOLD_HOLD_ENDS: hold, LEASEHOLD_DEADLINE: deadline } = process.env;
    if (hold !== undefined) return Number.parseInt(hold, 10) * 1_000;
    if (deadline !== undefined) return Date.parse(deadline);
    throw new Error("start it with `leasehold run --max-hold` or `leasehold every`: neither says when to end");
}

async function handle(message: DequeuedMessageItem): Promise<void> {
    await sleep(Number(process.env["WORK_MS"] ?? "20"));
    say("handled", { message: message.messageText });
}

async function consume(queue: QueueClient): Promise<void> {
    const file = process.env["LEASEHOLD_CHECKPOINT_FILE"];
    const pace = await Pace.read(file);
    const asked = new AbortController();
    process.once("SIGTERM", () => {
        asked.abort();
    });
    say("begins", { marginMs: pace.marginMs });
    const until = ends();
    while (!asked.signal.aborted && Date.now() + pace.marginMs < until) {
        const { receivedMessageItems: messages } = await queue.receiveMessages({ visibilityTimeout: HIDDEN_SECONDS });
        for (const message of messages) {
            const begun = performance.now();
            await handle(message);
            await queue.deleteMessage(message.messageId, message.popReceipt);
            pace.took(performance.now() - begun);
        }
        if (messages.length === 0) await sleep(POLL_MS);
    }
    await pace.write(file);
    say("ends", { asked: asked.signal.aborted });
}

const { AZURE_STORAGE_CONNECTION_STRING: account = "", QUEUE: name = "work" } = process.env;
await consume(new QueueClient(account, name));
