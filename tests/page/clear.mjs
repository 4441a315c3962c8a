// The page at three in the morning, over 500 locks of several hosts: what needs a look comes first, nothing is broken, everything
// says of when it is, and an outage looks like one. The page is a real sidecar's; what it is told is fixed here.

import assert from "node:assert/strict";
import { axeFinds, close, open, PATIENCE, sidecar, standIn } from "./browser.mjs";

const LOCKS = 500;
const HOSTS = [["488e1ac761528735bf9ae04cb7c5e2c1", "Billing"], ["ba010593d9718cc39be3751d5e6c7f6b", "Warehouse"]];
const LONG = "x".repeat(150); // no place in a column is enough for it
const NOON = "2026-03-10T12:00:00.000Z";

const real = await sidecar("clear");
const shop = await standIn(real.page);

function lock(number, more = {}) {
  const [host, type] = HOSTS[number % 3 === 0 ? 1 : 0];
  const name = `reconcile-customer-accounts-${String(number).padStart(3, "0")}`;
  const path = `leasehold/locks/${host}/${name}`;
  return {
    lock_path: path, lock: path, host_id: host, host_type: type, key: { function: name, scope: "", mode: "function" }, state: "held",
    fencing_token: 891903823872000 + ((number * 7919) % LOCKS), holder: `billing-worker-6d5f9c7b8d-x${number}/${1000 + number}`,
    holder_is_last_recorded: false, sidecar: "billing-worker-6d5f9c7b8d-abcde#ffe68d", share: "", priority: 0, yields: false,
    labels: { team: "accounts-receivable", region: "westeurope" }, acquired_at: new Date(Date.now() - number * 60_000).toISOString(),
    resting_until: null, kept_until: null, written_at: NOON, renewed_at: NOON, lease_duration_seconds: 60, held_here: number % 3 !== 0,
    waiters_here: 0, waiting_here: [], permit: 0, permits: 0, checkpoint_version: null, checkpoint_size: null, checkpoint_saved_at: null, break_note: null, reserved: null, schedule: null,
    validity: number % 3 === 0 ? null : { valid_for_seconds: 3600, at_risk: false }, ...more,
  };
}

const all = Array.from({ length: LOCKS }, (_, number) => lock(number));
all[7] = lock(7, { key: { function: LONG, scope: "", mode: "function" }, state: "available", held_here: false, validity: null });
all[250] = lock(250, { waiters_here: 5, waiting_here: ["reporter/71", "mailer/72", "auditor/73", "cleaner/74", "lister/75"] });
all[251] = lock(251, { permit: 0, permits: 3 });
all[400] = lock(400, { validity: { valid_for_seconds: 2, at_risk: true } });
all[401] = lock(401, { state: "breaking", break_note: { reason: "stuck since noon", broken_by: "ops", broken_at: NOON, mode: "run_out", for_priority: null } });
const [risky, broken] = [all[400], all[401]];

const healthy = {
  version: "1.2.3", sidecar: "billing-worker-6d5f9c7b8d-abcde#ffe68d", host_id: HOSTS[0][0], host_id_provider: "host-type", host_type: "Billing",
  store: "Azure Blob Storage at account.blob.core.windows.net", prefix: "leasehold/locks/", layout: "readable",
  endpoints: ["http://127.0.0.1:50951"], ready: true, reason: null, draining: false, holds: 333, waiters: 5, at_risk: 1, allows_breaks: true,
  collisions: [],
};
shop.tell("sidecar", healthy);
// What is at risk is told of in time for each window that is opened.
const risk = (left) => shop.tell("holds", [{ lock_path: risky.lock_path, valid_for_seconds: left, at_risk: true }]);
shop.tell("locks", { changed: all, gone: [], listed_at: NOON });
risk(3600);

const east = { timezoneId: "America/New_York" };
const page = await open(shop.page, east);
const dark = await open(shop.page, { ...east, colorScheme: "dark" });
const phone = await open(shop.page, { ...east, viewport: { width: 390, height: 844 } });
const rows = (window) => window.locator("#locks tr[data-path]");
const rowOf = (window, path) => window.locator(`#locks tr[data-path="${path}"]`);
const texts = (label) => page.locator(`#locks tr[data-path] td[data-label="${label}"]`).allInnerTexts();
const column = (name) => page.locator("#locks thead").getByText(name, { exact: true });
for (const window of [page, dark, phone]) await window.getByText("500 locks; listed at").waitFor();

// Nothing is broken: no word, no number, no heading; and nothing is wider than the window.
const brokenWords = (window) => window.evaluate(() => {
  const broken = [];
  const lines = (range) => new Set([...range.getClientRects()].filter((box) => box.width > 0).map((box) => Math.round(box.top / 4))).size;
  const walker = document.createTreeWalker(document.getElementById("locks"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const isWhole = node.parentElement.closest('thead, .badge, time, td[data-label="Token"]');
    for (const word of node.textContent.matchAll(isWhole ? /\S.*/g : /[A-Za-z0-9_]+/g)) {
      const range = new Range();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (word[0].length < 40 && lines(range) > 1) broken.push(word[0]);
    }
  }
  return broken;
});
for (const window of [page, phone]) {
  assert.deepEqual((await brokenWords(window)).slice(0, 9), []);
  const wide = await window.evaluate(() => Math.max(document.documentElement.scrollWidth - innerWidth,
    ...[...document.querySelectorAll("section")].map((section) => section.scrollWidth - section.clientWidth)));
  assert.ok(wide <= 0, `${wide} pixels wider than the window`);
}

// The first lock is where a person looks.
for (const [window, most] of [[page, 200], [phone, 400]]) {
  const box = await rows(window).first().getByRole("link").boundingBox();
  assert.ok(box.y + box.height <= most, `the first lock ends ${box.y + box.height} pixels below the top`);
}

// What needs a look comes first, and says so in the tab of the browser and beside its view's name.
assert.deepEqual((await texts("State")).slice(0, 3), ["at risk", "broken, expiring", "held"]);
await page.locator("#bad-locks").getByText("2", { exact: true }).waitFor();
assert.match(await page.title(), /^\(1 at risk\)/);

// By any column, both ways, and back.
await column("Token").click();
const tokens = (await texts("Token")).map(Number);
assert.deepEqual(tokens, tokens.toSorted((a, b) => a - b));
assert.equal(await page.locator("#locks th[aria-sort]").getAttribute("aria-sort"), "ascending");
await column("Token").click();
const falling = (await texts("Token")).map(Number);
assert.deepEqual(falling, falling.toSorted((a, b) => b - a));
assert.equal(falling[0], Math.max(...all.map((one) => one.fencing_token)), "of all locks, and not only of those that were shown");
await column("Since").click();
assert.equal(await rows(page).first().getAttribute("data-path"), all[499].lock_path, "the longest is the first");
await page.locator("#order").selectOption("problems first");
assert.equal(await rows(page).first().getAttribute("data-path"), risky.lock_path);
// On a phone there are no heads to press.
await phone.locator("#order").selectOption("by waiting here");
assert.equal(await rows(phone).first().getAttribute("data-path"), all[250].lock_path);
await phone.locator("#order").selectOption("");

// A host has a name that people know; those who wait have one too; permits count as they do everywhere else.
const heads = await page.locator("#locks th.group").allInnerTexts();
assert.deepEqual(heads.slice(1), [`Billing host id ${HOSTS[0][0]} (this sidecar's)`]);
await page.locator("#host").selectOption("Warehouse (ba010593)");
await page.locator("#locks th.group").getByText(/^Warehouse/).waitFor();
await page.locator("#host").selectOption("");
await page.locator("#text").fill(all[250].key.function);
await rowOf(page, all[250].lock_path).getByText("reporter/71, mailer/72 and 3 more").waitFor();
await page.locator("#text").fill(all[251].key.function);
await rowOf(page, all[251].lock_path).getByText("permit 0; 1 of 3 held").waitFor();
// One who has filtered all away is told how to come back.
await page.locator("#text").fill("no such lock");
await page.getByRole("button", { name: "Clear the filters" }).click();
await page.getByText("500 locks; listed at").waitFor();

// Times say their zone: the browser's, with the offset of that very day, or UTC.
const note = page.locator("#note-locks");
await note.getByText("listed at 2026-03-10 08:00:00 -04:00").waitFor();
await page.getByRole("button", { name: /^Times: local, -0[45]:00$/ }).click();
await note.getByText("listed at 2026-03-10 12:00:00 UTC").waitFor();
await page.reload();
await note.getByText("listed at 2026-03-10 12:00:00 UTC").waitFor();
const summer = lock(1, { written_at: "2026-07-01T12:00:00.000Z" });
await page.getByRole("button", { name: "Times: UTC" }).click();
shop.tell("locks", { changed: [], gone: [], listed_at: summer.written_at });
await note.getByText("2026-07-01 08:00:00 -04:00").waitFor();
shop.tell("locks", { changed: [], gone: [], listed_at: "2026-01-10T12:00:00.000Z" });
await note.getByText("2026-01-10 07:00:00 -05:00").waitFor();

// An outage: nothing is live, what is shown is of a moment, and what nobody could renew is lost, and the first of all.
for (const window of [page, phone]) await window.locator("#link").getByText("live", { exact: true }).waitFor();
shop.tell("sidecar", { ...healthy, ready: false, reason: "for 12s: the store is unavailable: no answer within 2s 500ms" });
for (const window of [page, dark, phone]) await window.locator("#link").getByText(/^not live: locks as of 2026-01-10 07:00:00 -05:00/).waitFor();
assert.match(await page.title(), /^\(store not usable\)/);
risk(1);
for (const window of [page, dark, phone]) {
  const first = rows(window).first();
  await first.getByText("lost", { exact: true }).waitFor();
  assert.equal(await first.getAttribute("data-path"), risky.lock_path);
  await first.getByText(/^ended/).waitFor();
}
await page.locator("#state").selectOption("lost");
assert.equal(await rows(page).count(), 1);
await page.locator("#state").selectOption("");
for (const window of [page, dark, phone]) assert.deepEqual(await axeFinds(window), []);

// The sidecar itself is not heard: nobody knows what has become of a hold that nobody said was renewed.
shop.cut();
await page.locator("#health").getByText("no answer").waitFor();
await page.locator("#link").getByText(/^not connected: what is shown is as of \d\d:\d\d:\d\d -0[45]:00/).waitFor();
await rowOf(page, risky.lock_path).getByText("not known").waitFor({ timeout: PATIENCE });

assert.deepEqual(page.complaints.filter((text) => !/Failed to load resource|ERR_/.test(text)), []);
await close();
process.exit(0);
