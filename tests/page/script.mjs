// The page's scripts over a document without a browser: what they make of what a real sidecar says, and of what it may
// come to say. How it looks, and whether it can be used by keyboard, needs a browser.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { folder, PATIENCE, program, root, run, said, sidecar, start } from "./processes.mjs";

const { JSDOM } = createRequire(join(root, ".tools/package.json"))("jsdom");
const shop = await sidecar("shop", null, "locks.lease_duration=15s");
const at = ["--endpoint", shop.endpoint];

// What the page asks for; it changes nothing.
const asked = [];

/** Server-sent events, read from the real stream; the test can add some of its own. */
class Stream extends EventTarget {
  constructor(path) {
    super();
    this.ended = new AbortController();
    Stream.last = this;
    this.read(path).catch(() => this.onerror?.());
  }

  async read(path) {
    asked.push(`GET ${path}`);
    const answer = await fetch(new URL(path, shop.page), { signal: this.ended.signal });
    this.onopen();
    let text = "";
    for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
      text += part;
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const lines = text.slice(0, end).split("\n");
        text = text.slice(end + 2);
        const field = (name) => lines.find((line) => line.startsWith(`${name}:`))?.slice(name.length + 1).trim();
        if (field("event")) this.tell(field("event"), field("data"));
      }
    }
    this.onerror?.();
  }

  tell(kind, data) {
    this.dispatchEvent(Object.assign(new Event(kind), { data }));
  }
}

/** The page at the sidecar's address, with its own scripts. */
async function open() {
  const get = async (path) => (await fetch(new URL(path, shop.page))).text();
  const { window } = new JSDOM(await get("/"), { url: `${shop.page}/`, pretendToBeVisual: true });
  for (const name of ["document", "location", "localStorage"]) globalThis[name] = window[name];
  globalThis.addEventListener = window.addEventListener.bind(window);
  globalThis.EventSource = Object.assign(Stream, { CLOSED: 2 });
  const real = globalThis.fetch;
  globalThis.fetch = (path, options) => {
    if (!(path instanceof URL)) asked.push(`${options?.method ?? "GET"} ${path}`);
    return real(new URL(path, shop.page), options);
  };
  const scripts = join(folder, "page");
  mkdirSync(scripts);
  writeFileSync(join(scripts, "package.json"), '{ "type": "module" }');
  for (const name of ["page.js", "known.js", "parts.js"]) writeFileSync(join(scripts, name), await get(`/${name}`));
  await import(pathToFileURL(join(scripts, "page.js")));
  return window;
}

/** Waits until the document shows it. */
async function shows(what, found) {
  for (const begun = Date.now(); !found(); await new Promise((resolve) => setTimeout(resolve, 20))) {
    if (Date.now() - begun > PATIENCE) throw new Error(`${what} is not shown:\n${document.body.textContent}`);
  }
}

const window = await open();
const byId = (id) => document.getElementById(id);
const rows = (id) => [...document.querySelectorAll(`#${id} tr[data-path], #${id} tr[data-kind]`)];
const row = (id, name) => rows(id).find((one) => one.querySelector("a")?.textContent === name);
const cell = (of, label) => of?.querySelector(`[data-label="${label}"]`)?.textContent ?? "";
const names = () => rows("locks").map((one) => one.querySelector("a").textContent);
const tell = (kind, data) => Stream.last.tell(kind, JSON.stringify(data));
function choose(id, value) {
  byId(id).value = value;
  byId(id).dispatchEvent(new window.Event("input", { bubbles: true }));
}

async function view(hash) {
  window.location.hash = hash;
  await shows(hash, () => !byId(`view-${hash.slice(1).split("/")[0]}`).hidden);
}

function order(by) {
  byId("order").value = by;
  byId("order").dispatchEvent(new window.Event("change", { bubbles: true }));
}

// What real jobs do: hold with a label, wait, be refused, hold a permit and a lock of a share.
await shows("readiness", () => byId("health").textContent === "ready");
const attack = '<img src=x onerror="globalThis.isAttacked = true">';
const holding = ["--", "sh", "-c", "echo working; exec sleep 600"];
const nightly = start(program, "run", "nightly", ...at, "--label", "team=billing", "--holder", attack, ...holding);
await said(nightly, /working/);
for (const [name, ...flags] of [["render", "--permits", "3"], ["queue-1", "--share", "queues", "--yields"]]) {
  await said(start(program, "run", name, ...at, ...flags, ...holding), /working/);
}
start(program, "run", "nightly", ...at, "--holder", "reporter", "--wait", "10m", ...holding);
for (let times = 0; times < 2; times += 1) assert.equal((await run("run", "nightly", ...at, "--", "true")).code, 75);
await shows("the hold", () => cell(row("locks", "nightly"), "State") === "held");
await shows("who waits", () => cell(row("locks", "nightly"), "Waiting here") === "1reporter");
await shows("the permit", () => /permit [012]; 1 of 3 held/.test(cell(row("locks", "render"), "More")));
await shows("the share", () => cell(row("locks", "queue-1"), "More").includes("share queues"));
const shown = row("locks", "nightly");
assert.match(cell(shown, "Token"), /^\d+$/);
assert.match(cell(shown, "Valid for"), /^ \d+s$/);
assert.equal(shown.querySelector("progress").max, 15);
assert.match(cell(shown, "More"), /team=billing/);

// S20: texts of others are texts.
assert.ok(cell(shown, "Holder").startsWith(attack));
assert.equal(document.querySelectorAll("td img").length, 0);
assert.equal(globalThis.isAttacked, undefined);

// Filters, and the order.
choose("text", "team=bill");
await shows("the filter by text", () => names().join() === "nightly");
choose("text", "");
choose("state", "resting");
await shows("the filter by state", () => names().length === 0);
choose("state", "here");
await shows("what is held here", () => names().length === 3);
choose("state", "");
await shows("all", () => names().length === 3);
order("name");
assert.deepEqual(names(), ["nightly", "queue-1", "render"], "by name");

// Events: what is refused again and again is one of them.
await view("#events");
await shows("the refusals", () => rows("events").filter((one) => one.dataset.kind === "refused").map((one) => cell(one, "More")).join() === `${attack} has it; 2 times`);
assert.ok(rows("events").some((one) => one.dataset.kind === "granted" && cell(one, "Lock") === "nightly"));

// One lock, by its path, with its history.
const path = row("locks", "nightly")?.dataset.path ?? rows("locks").map((one) => one.dataset.path).find((one) => one.includes("nightly"));
await view(`#lock/${encodeURIComponent(path)}`);
await shows("the history", () => [...document.querySelectorAll("#history tr")].some((one) => one.dataset.kind === "granted"));
await shows("the facts", () => /Fencing token\d+/.test(byId("lock").textContent));

// A schedule whose run has failed comes first, and says why.
const every = (name, command) => start(program, "every", "*/10 * * * * *", "-f", name, ...at, "--", "sh", "-c", command);
every("report", "true");
every("zone-export", "exit 3");
await view("#schedules");
await shows("the failure", () => cell(row("schedules", "zone-export"), "Last").includes("exit code 3"));
await shows("the success", () => cell(row("schedules", "report"), "Last").startsWith("succeeded"));
assert.equal(rows("schedules")[0], row("schedules", "zone-export"), "what failed comes first");

// At risk, lost, and an outage, as the sidecar would say so.
await view("#locks");
order("");
const queue = rows("locks").map((one) => one.dataset.path).find((one) => one.includes("queue-1"));
// The sidecar says how it is besides: what is told counts until then.
const told = (kind, data, found) => () => (tell(kind, data), found());
const risk = [{ lock_path: queue, valid_for_seconds: 30, at_risk: true }];
await shows("the risk", told("holds", risk, () => cell(row("locks", "queue-1"), "State") === "at risk"));
assert.equal(names()[0], "queue-1", "what is at risk comes first");
const loss = [{ lock_path: queue, valid_for_seconds: 0, at_risk: true }];
await shows("the loss", told("holds", loss, () => cell(row("locks", "queue-1"), "State") === "lost"));
const outage = "The store cannot be listed: it does not answer.";
const isOut = () => byId("note-locks").textContent.startsWith(outage);
await shows("the outage", told("failure", { message: "it does not answer" }, isOut));
assert.match(byId("link").textContent, /^not live: locks as of /);

// The sidecar is gone: what is shown is old, and says so.
shop.child.kill("SIGKILL");
await shows("the silence", () => /^not connected: what is shown is as of /.test(byId("link").textContent));
assert.equal(byId("health").textContent, "no answer");
assert.deepEqual(asked.filter((one) => !one.startsWith("GET ")), [], "nothing is changed");
process.exit(0);
