// Adds one to the number in a file many times, under a lock, among others that do the same:
// `node dist/samples/contend.js FILE TIMES`. No increment may be lost.

import { Client } from "leasehold-client";

import { increment } from "./increment.js";

const [file, times] = process.argv.slice(2);
if (file === undefined || !/^[0-9]+$/.test(times ?? "")) throw new Error("say which file, and how many times");

await using client = await Client.connect();
await increment(client, file, Number(times));
