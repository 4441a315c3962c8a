// What the page's tests have in common: processes, and waiting for what they say.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, get } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

export const root = process.env.LEASEHOLD_TEST_ROOT;
export const program = process.env.LEASEHOLD_TEST_PROGRAM;

/** How long anything may take that a person waits for. Generous: the machine may be busy. */
export const PATIENCE = 90_000;
// The account and the key of every emulator.
const KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

export const folder = mkdtempSync(join(tmpdir(), "lh-page-"));
const processes = new Set();

process.on("exit", () => {
  for (const one of processes) {
    one.kill("SIGCONT");
    one.kill("SIGKILL");
  }
  rmSync(folder, { recursive: true, force: true });
});

/** Starts a program; its lines are kept. */
export function start(command, ...args) {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
  processes.add(child);
  child.lines = [];
  child.ended = new Promise((resolve) => child.on("close", (code, signal) => resolve({ code, signal })));
  child.ended.then(() => processes.delete(child));
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on("line", (line) => {
      child.lines.push(line);
      child.emit("said", line);
    });
  }
  return child;
}

/** Waits until a program has said a line that matches. */
export function said(child, pattern) {
  return new Promise((resolve, reject) => {
    const fail = (why) => reject(new Error(`${why} before it said ${pattern}:\n${child.lines.join("\n")}`));
    const timer = setTimeout(() => fail("time was over"), PATIENCE);
    const look = (line) => {
      const found = pattern.exec(line);
      if (!found) return;
      clearTimeout(timer);
      resolve(found);
    };
    child.lines.forEach(look);
    child.on("said", look);
    child.ended.then(() => fail("it ended"));
  });
}

/** Runs a command of the program to its end; answers with its exit code. */
export async function run(...args) {
  const child = start(program, ...args);
  const { code } = await child.ended;
  return { code, text: child.lines.join("\n") };
}

/** The storage emulator. */
export async function azurite() {
  const child = start("node", join(root, ".tools/node_modules/azurite/dist/src/blob/main.js"), "--blobHost", "127.0.0.1",
    "--blobPort", "0", "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry");
  const [, endpoint] = await said(child, /successfully listens on (\S+)/);
  child.connection = `AccountName=devstoreaccount1;AccountKey=${KEY};BlobEndpoint=${endpoint}/devstoreaccount1`;
  return child;
}

/** A sidecar of that account, or with a store in memory. */
export async function sidecar(name, account, ...settings) {
  const store = account ? ["--store", "azure", "--set", "store.azure.create_container=true"] : ["--store", "memory"];
  // A secret is not taken from a flag.
  if (account) process.env.LEASEHOLD_STORE_AZURE_CONNECTION_STRING = account.connection;
  else delete process.env.LEASEHOLD_STORE_AZURE_CONNECTION_STRING;
  const socket = join(folder, `${name}.sock`);
  const all = [`listen.unix=${socket}`, "listen.tcp=", "admin.listen=127.0.0.1:0", "admin.allow_break=true", "locks.poll_cap=1s",
    "host_id.host_type=Shop", "log.format=json", ...settings];
  const child = start(program, "serve", ...store, ...all.flatMap((setting) => ["--set", setting]));
  const [, page] = await said(child, /"admin":"(http:[^"]+)"/);
  return { child, page, endpoint: `unix://${socket}` };
}

/** The page of a real sidecar, over a stream that tells what the test says; it stays open until it is cut. */
export async function standIn(real) {
  const streams = new Set();
  const told = [];
  const text = ([kind, data]) => `event: ${kind}\ndata: ${JSON.stringify(data)}\n\n`;
  const server = createServer((request, response) => {
    if (request.url !== "/api/live") {
      get(real + request.url, (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
      });
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(`retry: 3600000\n\n${told.map(text).join("")}`);
    streams.add(response);
    response.on("close", () => streams.delete(response));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    page: `http://127.0.0.1:${server.address().port}`,
    tell(kind, data) {
      told.push([kind, data]);
      for (const stream of streams) stream.write(text([kind, data]));
    },
    cut: () => streams.forEach((stream) => stream.end()),
  };
}
