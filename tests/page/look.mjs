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

const rowIn = (window, name) => window.locator("#locks tr").filter({ has: window.getByRole("link", { name, exact: true }) });
const rowOf = (name) => rowIn(page, name);
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
await page.getByText("About", { exact: true }).click();
await page.getByText("Azure Blob Storage at").waitFor();
await page.getByText("About", { exact: true }).click();

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
for (const type of ["Shop", "Warehouse"]) await page.locator("#locks th.group").getByText(type, { exact: true }).waitFor();
assert.equal(await page.locator("#locks th.group:visible").count(), 2, "a group a host id");

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
const waiting = start(program, "run", "nightly", ...at(shop), "--holder", "reporter", "--wait", "10m", "--", "sh", "-c", "echo its turn; exec sleep 600");
await rowOf("nightly").locator('td[data-label="Waiting here"]').filter({ hasText: /^1reporter$/ }).waitFor();
await reads(rowOf("render"), /permit [012]; 1 of 3 held/);
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

// A run that has failed looks like it, says why, and is the first that is seen.
const failing = start(program, "every", "*/10 * * * * *", "-f", "zone-export", ...at(shop), "--", "sh", "-c", "exit 3");
const failed = page.locator("#schedules tr").filter({ hasText: "zone-export" });
await failed.locator(".bad").filter({ hasText: "failed" }).first().waitFor();
await failed.getByText("exit code 3").waitFor();
assert.match(await page.locator("#schedules tr").first().innerText(), /^zone-export\s+Shop, host id/);
await page.locator("#view-schedules th").getByText("Schedule", { exact: true }).click();
assert.match(await page.locator("#schedules tr").first().innerText(), /^report/, "by name");
await page.locator("#order").selectOption("problems first");
await page.locator("#bad-schedules .bad").waitFor();
await view("events");
await eventOf("run_failed").locator(".bad").filter({ hasText: "run failed" }).first().waitFor();
await reads(eventOf("run_failed"), "exit code 3");
failing.kill("SIGKILL");
const ran = Date.now();
every.kill("SIGKILL");
account.kill("SIGSTOP");

// At risk: the store does not answer; then lost. What a command runs under is released before it is lost, and so not looked at.
await view("locks");
for (const window of [page, dark, phone]) {
  await reads(rowIn(window, "ledger"), "at risk");
  await rowIn(window, "ledger").locator("progress.low").waitFor();
  await window.locator("#link").getByText(/^not live: locks as of \d/).waitFor();
}
await picture("at-risk");
for (const window of [page, dark, phone]) {
  await rowIn(window, "ledger").getByText("lost", { exact: true }).waitFor();
  await reads(rowIn(window, "ledger"), "ended");
}
await picture("lost");
await view("events");
await reads(eventOf("at_risk"), "ledger");
await reads(eventOf("lost"), "ledger");
account.kill("SIGCONT");
await page.locator("#link").getByText("live", { exact: true }).waitFor();
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
for (const window of [page, dark]) await rowIn(window, "mail").getByRole("progressbar").waitFor();
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
const focused = () => page.evaluate(() => document.activeElement.textContent);
assert.equal(await focused(), "Skip to the content");
for (let steps = 0; steps < 9 && !/^Schedules/.test(await focused()); steps += 1) await page.keyboard.press("Tab");
await page.keyboard.press("Enter");
await page.locator("#view-schedules").waitFor();

// Nothing serious for who cannot see well, in light, dark, and on a phone; and nothing wider than the phone.
for (const window of [page, dark, phone]) {
  for (const name of ["locks", "schedules", "shares", "events"]) {
    await window.locator(`nav a[href="#${name}"]`).click();
    assert.deepEqual(await axeFinds(window), [], `${name}`);
  }
}
// Which axe does not look at: the browser's own colour is too faint in the dark.
const faint = await dark.evaluate(() => getComputedStyle(document.getElementById("text"), "::placeholder").color);
assert.equal(faint, await dark.evaluate(() => getComputedStyle(document.querySelector(".quiet")).color));
const wide = await phone.evaluate(() => document.documentElement.scrollWidth - innerWidth);
assert.ok(wide <= 0, `the page is ${wide} pixels wider than a phone`);
await phone.locator('nav a[href="#locks"]').click();
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
await page.getByText("not connected: what is shown is as of").waitFor();
const complaints = page.complaints.filter((text) => !/Failed to load resource|ERR_/.test(text));
assert.deepEqual(complaints, []);
for (const job of [nightly, failing, waiting, elsewhere, missed]) job.kill("SIGKILL");
await close();
process.exit(0);
