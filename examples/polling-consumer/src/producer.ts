/** Puts messages into the queue: `node dist/producer.js COUNT [EVERY_MS]`. */
import { setTimeout as sleep } from "node:timers/promises";

import { QueueClient } from "@azure/storage-queue";

const [, , count = "10", everyMs = "0"] = process.argv;
const { AZURE_STORAGE_CONNECTION_STRING: account = "", QUEUE: name = "work" } = process.env;
const queue = new QueueClient(account, name);
await queue.createIfNotExists();
for (let number = 0; number < Number(count); number += 1) {
    await queue.sendMessage(`message-${String(number)}`);
    await sleep(Number(everyMs));
}
