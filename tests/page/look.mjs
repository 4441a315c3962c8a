// What a person sees on the page while locks are acquired, refused, at risk, lost and broken, and a schedule misses an
// occurrence; in a real browser, at real sidecars, over the storage emulator. With a folder as its argument, it takes the
// pictures of docs/page.md.

import assert from "node:assert/strict";
import { join } from "node:path";
import { axeFinds, azurite, close, open, PATIENCE, run, said, sidecar, start, program } from "./browser.mjs";

const pictures = process.argv[2];
const account = await azurite();
const shop = await sidecar("shop", account, "locks.lease_duration=15s");
const other = await sidecar("other", account, "host_id.host_type=Warehouse");
const at = (one) => ["--endpoint", one.endpoint];

const page = await open(shop.page);
const dark = await open(shop.page, { colorScheme: "dark" });
const phone = await open(shop.page, { viewport: { width: 390, height: 844 } });

const rowOf = (name) => page.locator("#locks tr").filter({ has: page.getByRole("link", { name, exact: true }) });
const eventOf = (kind) => page.locator(`#events tr[data-kind="${kind}"]`);

/** Waits until a person can read this in a row. */
const reads = (row, text) => row.filter({ hasText: text }).first().waitFor({ timeout: PATIENCE });

async function picture(name) {
  if (!pictures) return;
  for (const [theme, window] of [["light", page], ["dark", dark]]) {
    await window.screenshot({ path: join(pictures, `${name}-${theme}.png`) });
  }
}

const view = (name) => Promise.all([page, dark, phone].map((window) => window.locator(`nav a[href="#${name}"]`).click()));

/** A job that holds a lock until it is told to end. */
async function holds(name, ...flags) {
  const job = start(program, "run", name, ...at(shop), ...flags, "--", "sh", "-c", "echo working; exec sleep 600");
  await said(job, /working/);
  return job;
}

// Who and how the sidecar is.
await page.locator("#health").getByText("ready", { exact: true }).waitFor();
await page.getByText("Azure Blob Storage at").waitFor();

// Acquired: with holder, validity and labels; and by another host id.
const nightly = await holds("nightly", "--label", "team=billing");
await reads(rowOf("nightly"), "held");
await reads(rowOf("nightly"), "team=billing");
await reads(rowOf("nightly"), /\d+s/);
const bar = rowOf("nightly").getByRole("progressbar");
assert.equal(await bar.getAttribute("max"), "15");
const elsewhere = start(program, "run", "stock", ...at(other), "--", "sh", "-c", "echo working; exec sleep 600");
await said(elsewhere, /working/);
await reads(rowOf("stock"), "held");
assert.equal(await page.locator("#locks th.group").count(), 2, "a group a host id");

// Refused: once and once more, which is one event.
for (let times = 0; times < 2; times += 1) {
  assert.equal((await run("run", "nightly", ...at(shop), "--", "true")).code, 75);
}
await view("events");
await reads(eventOf("granted"), "nightly");
await reads(eventOf("refused"), "2 times");
assert.equal(await eventOf("refused").count(), 1);

// Permits, a share, a checkpoint, one who waits.
await view("locks");
await holds("render", "--permits", "3");
await holds("queue-1", "--share", "queues", "--yields");
// Acquired by a call: nobody ends it when it is at risk.
assert.equal((await run("acquire", "ledger", ...at(shop))).code, 0);
const waiting = start(program, "run", "nightly", ...at(shop), "--wait", "10m", "--", "sh", "-c", "echo its turn; exec sleep 600");
await rowOf("nightly").locator('td[data-label="Waiting here"]').filter({ hasText: /^1$/ }).waitFor();
await reads(rowOf("render"), /permit [123]; 1 of 3 held/);
await reads(rowOf("queue-1"), "share queues");

// Filters: by text, state, and host id.
await page.locator("#text").fill("team=bill");
await rowOf("stock").waitFor({ state: "detached" });
assert.equal(await rowOf("nightly").count(), 1);
await page.locator("#text").fill("");
await page.locator("#state").selectOption("here");
await rowOf("stock").waitFor({ state: "detached" });
await page.locator("#state").selectOption("");
await rowOf("stock").waitFor();

// A schedule misses what falls due while nobody runs it, and everybody who subscribes sees it.
const every = start(program, "every", "*/10 * * * * *", "-f", "report", ...at(shop), "--", "sh", "-c", "echo ran");
await said(every, /ran/);
await view("schedules");
const schedule = page.locator("#schedules tr").filter({ hasText: "report" });
await schedule.locator(".good").filter({ hasText: "succeeded" }).waitFor();
const ran = Date.now();
every.kill("SIGKILL");
account.kill("SIGSTOP");

// At risk: the store does not answer; then lost.
await view("locks");
await reads(rowOf("nightly"), "at risk");
assert.match(await bar.getAttribute("class"), /low/);
await picture("at-risk");
await view("events");
await reads(eventOf("at_risk"), "nightly");
await reads(eventOf("lost"), "ledger");
await picture("lost");
account.kill("SIGCONT");
// Three occurrences have fallen due by the clock since the last run.
while (Date.now() < ran + 31_000) await new Promise((resolve) => setTimeout(resolve, 100));
const missed = start(program, "every", "*/10 * * * * *", "-f", "report", ...at(shop), "--", "sh", "-c", "echo ran");
await said(missed, /ran/);
await reads(eventOf("missed"), "report");
await view("schedules");
await schedule.locator('td[data-label="Missed"]').filter({ hasText: /[1-9]/ }).waitFor();
await picture("schedules");

// Broken: by whom and why, in the list, in the events, and in the lock's own view with its history. Nobody releases it when it is
// broken: its lease runs out.
assert.equal((await run("acquire", "mail", "--lease-duration", "60s", ...at(shop))).code, 0);
const broken = await run("break", "-f", "mail", ...at(shop), "--by", "ops", "--reason", "stuck since noon");
assert.equal(broken.code, 0, broken.text);
await view("locks");
await reads(rowOf("mail"), "broken by ops: stuck since noon");
await picture("locks");
await view("events");
await reads(eventOf("broken"), "stuck since noon");
await picture("events");
await view("locks");
await rowOf("mail").getByRole("link").click();
await page.getByRole("heading", { name: /mail/ }).waitFor();
await page.locator('#history tr[data-kind="granted"]').waitFor();
await page.locator('#history tr[data-kind="broken"]').waitFor();
await page.locator("#lock").getByText("broken by ops: stuck since noon").waitFor();
await dark.goto(page.url());
await dark.locator('#history tr[data-kind="broken"]').waitFor();
await picture("lock");

// The share, by sidecar.
await holds("queue-1", "--share", "queues", "--yields");
await view("shares");
await reads(page.locator("#shares tr"), "queues");

// By keyboard: from the link at the top to the content, and along the views.
await page.goto(shop.page);
await page.keyboard.press("Tab");
assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
await page.keyboard.press("Tab");
await page.keyboard.press("Tab");
await page.keyboard.press("Enter");
await page.getByRole("heading", { name: "Schedules" }).waitFor();

// Nothing serious for who cannot see well, in light, dark, and on a phone; and nothing wider than the phone.
for (const window of [page, dark, phone]) {
  for (const name of ["locks", "schedules", "shares", "events"]) {
    await window.locator(`nav a[href="#${name}"]`).click();
    assert.deepEqual(await axeFinds(window), [], `${name}`);
  }
}
// Which axe does not look at: the browser's own colour is too faint in the dark.
const faint = await dark.evaluate(() => getComputedStyle(document.getElementById("text"), "::placeholder").color);
assert.equal(faint, await dark.evaluate(() => getComputedStyle(document.querySelector("label")).color));
const wide = await phone.evaluate(() => document.documentElement.scrollWidth - innerWidth);
assert.ok(wide <= 0, `the page is ${wide} pixels wider than a phone`);
if (pictures) await phone.screenshot({ path: join(pictures, "phone.png") });

// A store that refuses the sidecar has much to say, and a phone has place for it.
const denied = await sidecar("denied", { connection: account.connection.replace("AccountKey=E", "AccountKey=A") });
await phone.goto(denied.page);
await phone.locator("#health").getByText(/store not usable .* refuses/).waitFor();
await phone.getByText("The store cannot be listed").waitFor();
const wider = await phone.evaluate(() => document.documentElement.scrollWidth - innerWidth);
assert.ok(wider <= 0, `what the store says makes the page ${wider} pixels wider than a phone`);

// The sidecar ends, and the page says so.
shop.child.kill("SIGKILL");
await page.getByText("not connected").waitFor();
const complaints = page.complaints.filter((text) => !/Failed to load resource|ERR_/.test(text));
assert.deepEqual(complaints, []);
for (const job of [nightly, waiting, elsewhere, missed]) job.kill("SIGKILL");
await close();
process.exit(0);
