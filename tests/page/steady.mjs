// The page stays what a person can use: by keyboard while rows change, with an address that was written by hand, while others
// read all streams, and when the store cannot be listed. At a real sidecar; what one does not say on demand is said for it.

import assert from "node:assert/strict";
import { close, open, program, run, said, sidecar, start } from "./browser.mjs";

const shop = await sidecar("steady");
const at = ["--endpoint", shop.endpoint];

/** A job that holds a lock, or waits for it. */
const job = (name, ...flags) => start(program, "run", name, ...at, ...flags, "--", "sh", "-c", "echo working; exec sleep 600");

/** One that holds it. */
async function held(name) {
  const holder = job(name);
  await said(holder, /working/);
  return holder;
}

const focused = (page) => page.evaluate(() => document.activeElement.textContent);

// An address that was written by hand is no reason to show nothing.
const page = await open(`${shop.page}/#lock/%`);
await page.getByText("live", { exact: true }).waitFor();

// Where nothing is yet, each view says what to do next, and that does what it says.
for (const [view, filled] of [["locks", "#locks tr[data-path]"], ["schedules", "#schedules tr"], ["shares", "#shares tr"], ["events", "#events tr"]]) {
  const fresh = await sidecar(`fresh-${view}`);
  const window = await open(`${fresh.page}/#${view}`);
  // Where it is to be sent is known once the sidecar has said so.
  const next = window.locator(`#note-${view} code`).filter({ hasText: fresh.endpoint });
  await next.waitFor();
  const text = await next.innerText();
  assert.equal(await window.locator(`#view-${view} table:visible`).count(), 0, "no heads over nothing");
  start("sh", "-c", text.replace(/^leasehold/, 'exec "$0"'), program);
  await window.locator(filled).first().waitFor();
  assert.equal(await window.locator(`#note-${view} code`).count(), 0);
}
await page.goto(`${shop.page}/#lock/leasehold/locks/none/such`);
await page.locator("#note-lock code").getByText("leasehold ls").waitFor();
await page.locator("#note-history code").getByText("leasehold watch").waitFor();

// Who is in a row by keyboard stays there, whatever changes: before it, in it, and after it.
const middle = await held("middle");
await page.goto(`${shop.page}/#locks`);
const row = (name) => page.locator("#locks tr").filter({ has: page.getByRole("link", { name, exact: true }) });
await row("middle").getByRole("link").focus();
await held("first");
await row("first").waitFor();
assert.equal(await focused(page), "middle", "a row came before it");
job("middle", "--wait", "10m");
await row("middle").locator('td[data-label="Waiting here"]').filter({ hasText: /^1\D/ }).waitFor();
assert.equal(await focused(page), "middle", "the row itself has changed");
await page.locator('nav a[href="#events"]').click();
await page.locator("#events a").last().focus();
assert.equal((await run("run", "last", ...at, "--", "true")).code, 0);
await page.locator('#events tr[data-kind="released"]').waitFor();
assert.equal(await focused(page), "middle", "an event came before it");

// Events are found by the words that are shown.
middle.kill("SIGTERM");
await page.locator("#text").fill("handed on");
await page.locator('#events tr[data-kind="handed_on"]').waitFor();

// A lock's own view changes with the lock.
await page.locator("#text").fill("");
await page.locator('nav a[href="#locks"]').click();
await row("middle").getByRole("link").click();
const waits = job("middle", "--wait", "10m");
const fact = (term, text) => page.locator("#lock div").filter({ hasText: term }).filter({ hasText: text });
await fact("Waiting here", "1").waitFor();
waits.kill("SIGKILL");
await fact("Waiting here", "0").waitFor();

// Nor does it keep what was true only between two looks of the sidecar at all locks.
await page.route("**/api/locks/**", async (route) => {
  const response = await route.fetch();
  const read = await response.json();
  read.lock.waiters_here = 7;
  await route.fulfill({ response, json: read });
}, { times: 1 });
await page.locator('nav a[href="#locks"]').click();
await row("middle").getByRole("link").click();
await fact("Waiting here", "7").waitFor();
await fact("Waiting here", "0").waitFor();

// Others read all streams: the page comes when one of them has gone.
const others = new AbortController();
await page.goto("about:blank");
const streams = Array.from({ length: 8 }, () => fetch(`${shop.page}/api/live`, { signal: others.signal }));
for (const stream of await Promise.all(streams)) assert.equal(stream.status, 200);
const ninth = await open(shop.page);
await ninth.getByText("not connected").waitFor();
others.abort();
await ninth.getByText("live", { exact: true }).waitFor();

// What a sidecar says whose store cannot be listed for a while.
const { locks, listed_at: listed } = await (await fetch(`${shop.page}/api/locks`)).json();
const [first, second] = locks;
const refused = [
  ["locks", { changed: [first, second], gone: [], listed_at: listed }],
  ["failure", { message: "the store is unavailable" }],
];
async function told(events) {
  const window = await open("about:blank");
  const body = events.map(([kind, data]) => `event: ${kind}\ndata: ${JSON.stringify(data)}\n\n`).join("");
  await window.route("**/api/live", (route) => route.fulfill({ contentType: "text/event-stream", body: `retry: 3600000\n\n${body}` }));
  await window.goto(shop.page);
  return window;
}
const cannot = await told(refused);
await cannot.getByText("The store cannot be listed").waitFor();
assert.equal(await cannot.locator("#locks tr[data-path]").count(), 2, "what was known stays");
const again = await told([...refused, ["locks", { changed: [first], gone: [], listed_at: listed }]]);
await again.getByText("1 lock; listed at").waitFor();
assert.equal(await again.locator("#locks tr[data-path]").count(), 1, "one was deleted while the store could not be listed");

assert.deepEqual(page.complaints.filter((text) => !/Failed to load resource/.test(text)), []);
await close();
process.exit(0);
