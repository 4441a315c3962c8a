// The page of a sidecar. Shows what /api says; changes nothing.

import { chosen, heard, isFailed, isHeld, isProblem, isStoreDown, isTroubled, last, learn, locks, name, ordered, secondsLeft, state,
  validity } from "./known.js";
import { ALARMING, badge, byId, cell, joined, KINDS, make, moment, names, note, OUTCOMES, passTime, plural, since, small, span, STATES,
  tight, today, turnZone, until, zoneText } from "./parts.js";

const FIRST_ROWS = 200;
const DEFAULT_ENDPOINT = "http://127.0.0.1:50951";
let events = []; // the newest first
let schedules = [];
let schedulesRead = null; // when
let heardAt = null; // the last word of the sidecar
let listedAt = null; // of what this connection has told
let lastListed = null;
let failure = null; // why the store could not be listed last
let shown = FIRST_ROWS;
let view = { name: "locks", path: null };

/** How a client finds this sidecar. */
function at() {
  const endpoints = heard.sidecar?.endpoints ?? [];
  return endpoints.length === 0 || endpoints.includes(DEFAULT_ENDPOINT) ? "" : ` --endpoint ${endpoints[0]}`;
}

const leftText = (path) => (secondsLeft(path) < 1 ? "<1s" : `${Math.floor(secondsLeft(path))}s`);

function bar(lock) {
  const path = lock.lock_path;
  const known = validity.get(path);
  if (!known) return "";
  const left = secondsLeft(path);
  if (state(lock) === "lost") {
    const ended = new Date(Date.now() - (performance.now() - known.ends)).toISOString();
    return make("span", {}, "ended ", since(ended), " ago");
  }
  const progress = make("progress", { max: known.whole, "aria-label": `validity left of ${path}`, "data-bar": path });
  progress.value = left;
  progress.classList.toggle("low", known.risk);
  return make("span", {}, progress, " ", make("span", { "data-left": path }, leftText(path)));
}

const linkTo = (path, text) => make("a", { href: `#lock/${encodeURIComponent(path)}` }, text);

function more(lock) {
  const parts = [];
  if (lock.permits > 0) parts.push(`permit ${lock.permit}; ${heldOf(lock.lock)} of ${lock.permits} held`);
  if (lock.schedule) parts.push("schedule");
  if (lock.share) parts.push(`share ${lock.share}`);
  if (lock.priority > 0) parts.push(`priority ${lock.priority}`);
  if (lock.yields) parts.push("yields");
  if (lock.resting_until && lock.state === "resting") parts.push(make("span", {}, "available ", until(lock.resting_until)));
  if (lock.reserved && new Date(lock.reserved.until) > Date.now()) {
    parts.push(make("span", {}, `kept for priority ${lock.reserved.priority} or greater, free `, until(lock.reserved.until)));
  }
  if (lock.kept_until) {
    parts.push(make("span", {}, "kept here because its former holder may not know, free ", until(lock.kept_until)));
  }
  if (lock.break_note) {
    const by = lock.break_note.broken_by ? ` by ${lock.break_note.broken_by}` : "";
    parts.push(`broken${by}: ${lock.break_note.reason}`);
  }
  if (lock.checkpoint_version !== null) {
    const saved = lock.checkpoint_saved_at ? make("span", {}, ", saved ", since(lock.checkpoint_saved_at), " ago") : "";
    parts.push(make("span", {}, `checkpoint ${lock.checkpoint_version}, ${lock.checkpoint_size} bytes`, saved));
  }
  for (const [key, value] of Object.entries(lock.labels)) parts.push(`${key}=${value}`);
  return joined(parts);
}

// How many permits of each lock are held.
let heldPermits = new Map();

function countPermits() {
  heldPermits = new Map();
  for (const lock of locks.values()) {
    if (lock.permits > 0 && isHeld(lock)) heldPermits.set(lock.lock, (heldPermits.get(lock.lock) ?? 0) + 1);
  }
}

const heldOf = (path) => heldPermits.get(path) ?? 0;

function holder(lock) {
  if (!isHeld(lock) && !lock.holder) return "";
  const word = isHeld(lock) ? "" : "last: ";
  const doubt = isHeld(lock) && lock.holder_is_last_recorded ? " (last recorded)" : "";
  return `${word}${lock.holder || "unknown"}${doubt}`;
}

const hostTypes = new Map(); // by host id: the types that its locks were acquired under

/** A host by its type, which is a name that people know; its id tells two of one type apart. */
function hostName(host) {
  const types = [...(hostTypes.get(host) ?? [])].sort().join(" and ");
  return types || (heard.sidecar?.host_id === host ? heard.sidecar.host_type : "");
}

function row(lock, withHost) {
  const waiting = lock.waiters_here ? small(names(lock.waiting_here, lock.waiters_here, 2)) : "";
  return make("tr", { "data-path": lock.lock_path },
    cell("Lock", linkTo(lock.lock_path, name(lock)), small(withHost ? hostName(lock.host_id) || lock.host_id : "")),
    tight("State", badge(STATES[state(lock)] ?? [lock.state, "calm"])),
    cell("Holder", holder(lock), isHeld(lock) ? small(lock.held_here ? "through this sidecar" : lock.sidecar) : ""),
    tight("Since", isHeld(lock) ? since(lock.acquired_at) : ""),
    tight("Valid for", isHeld(lock) ? bar(lock) : ""),
    tight("Token", lock.fencing_token === null ? "" : String(lock.fencing_token)),
    cell("Waiting here", lock.waiters_here ? String(lock.waiters_here) : "", waiting),
    cell("More", ...more(lock)));
}

const filters = () => ({ text: byId("text").value.trim().toLowerCase(), state: byId("state").value, host: byId("host").value });

function matches(lock, wanted) {
  if (wanted.host && lock.host_id !== wanted.host) return false;
  if (wanted.state === "here" ? !lock.held_here : wanted.state && state(lock) !== wanted.state) return false;
  if (!wanted.text) return true;
  const labels = Object.entries(lock.labels).map(([key, value]) => `${key}=${value}`);
  const texts = [lock.lock_path, name(lock), lock.holder, lock.sidecar, lock.share, lock.host_type, ...labels];
  return texts.some((text) => text.toLowerCase().includes(wanted.text));
}

// A row is made anew only when what it shows has changed, so that a person who is in it by keyboard stays there.
const rows = new Map(); // by what it is about: { row, key }

function rowOf(id, shows, create) {
  const key = JSON.stringify([shows, today()]);
  const last = rows.get(id);
  if (last?.key === key) return last.row;
  const made = create();
  if (last?.row.contains(document.activeElement)) queueMicrotask(() => made.querySelector("a").focus({ preventScroll: true }));
  rows.set(id, { row: made, key });
  return made;
}

// Those that stay are not moved: what is moved loses the focus.
function fill(parent, children) {
  const stay = new Set(children);
  for (const child of [...parent.children]) if (!stay.has(child)) child.remove();
  children.forEach((child, place) => {
    if (parent.children[place] !== child) parent.insertBefore(child, parent.children[place] ?? null);
  });
}

function lockRow(lock, withHost) {
  const known = validity.get(lock.lock_path);
  const held = lock.permits > 0 ? heldOf(lock.lock) : 0;
  const host = withHost && (hostName(lock.host_id) || lock.host_id);
  return rowOf(`lock ${lock.lock_path}`, [lock, Boolean(known), state(lock), held, host], () => row(lock, withHost));
}

const groups = new Map(); // of rows, by what they have in common

function group(id, title, rowsOfIt) {
  if (!groups.has(id)) {
    const head = make("th", { class: "group", colspan: 8, scope: "rowgroup" });
    groups.set(id, make("tbody", {}, make("tr", { class: "head" }, head)));
  }
  const body = groups.get(id);
  body.rows[0].hidden = title.length === 0;
  body.rows[0].cells[0].replaceChildren(...title);
  fill(body, [body.rows[0], ...rowsOfIt]);
  return body;
}

function hostTitle(host) {
  const own = heard.sidecar && host === heard.sidecar.host_id ? " (this sidecar's)" : "";
  const type = hostName(host);
  return [type ? make("b", {}, type) : "", " ", make("span", {}, `host id ${host || "unknown"}${own}`)];
}

/** The locks that are shown, as they are put together: those with problems, then by host; or all in the order that was chosen. */
function grouped(list) {
  const severalHosts = hostTypes.size > 1;
  if (chosen.locks.by) return [group("all", [], list.map((lock) => lockRow(lock, severalHosts)))];
  const bad = list.filter(isProblem);
  const byHost = new Map();
  for (const lock of list.slice(bad.length)) {
    if (!byHost.has(lock.host_id)) byHost.set(lock.host_id, []);
    byHost.get(lock.host_id).push(lockRow(lock, false));
  }
  const hosts = [...byHost].map(([host, rowsOfIt]) => group(`host ${host}`, hostTitle(host), rowsOfIt));
  if (bad.length === 0) return hosts;
  return [group("bad", [make("b", {}, "Look at these first")], bad.map((lock) => lockRow(lock, severalHosts))), ...hosts];
}

/** What a list says of itself when it has nothing to show. */
function emptyNote(id, what, isEmpty, first) {
  if (isEmpty) return note(id, `No ${what} yet. To begin:`, `leasehold ${first[0]}${at()} ${first[1]}`);
  if (byId(id).querySelector("button")) return;
  note(id, `No ${what.replace(/s$/, "")} matches. `);
  const clear = make("button", { type: "button" }, "Clear the filters");
  clear.addEventListener("click", () => {
    for (const field of ["text", "state", "host"]) byId(field).value = "";
    show();
  });
  byId(id).append(clear);
}

function lockNote(found) {
  if (failure !== null) {
    const as = lastListed ? ` What is shown is as of ${moment(lastListed)}.` : "";
    return note("note-locks", `The store cannot be listed: ${failure}.${as}`);
  }
  if (listedAt === null) return note("note-locks", "Loading …");
  if (found === 0) return emptyNote("note-locks", "locks", locks.size === 0, ["run hello", "-- sleep 60"]);
  const of = found === locks.size ? "" : ` of ${locks.size}`;
  note("note-locks", `${plural(found, "lock")}${of}; listed at ${moment(listedAt)}`);
}

function showLocks() {
  const wanted = filters();
  const found = ordered([...locks.values()].filter((lock) => matches(lock, wanted)), "locks", isProblem);
  const table = byId("locks");
  fill(table, [table.tHead, ...grouped(found.slice(0, shown))]);
  table.hidden = found.length === 0;
  lockNote(found.length);
  byId("more").hidden = found.length <= shown;
  byId("more").textContent = `Show more: ${found.length - shown} are not shown`;
}

function showShares() {
  const shares = new Map();
  for (const lock of locks.values()) {
    if (!lock.share || !isHeld(lock)) continue;
    const sidecars = shares.get(lock.share) ?? new Map();
    shares.set(lock.share, sidecars.set(lock.sidecar, (sidecars.get(lock.sidecar) ?? 0) + 1));
  }
  const all = [...shares].sort().flatMap(([share, sidecars]) => [...sidecars].sort().map(([of, count]) =>
    make("tr", {}, cell("Share", share), cell("Sidecar", of || "unknown", small(of === heard.sidecar?.sidecar ? "this one" : "")), cell("Locks held", String(count)))));
  fill(byId("shares"), all);
  byId("shares").parentElement.hidden = all.length === 0;
  if (all.length) note("note-shares", "");
  else note("note-shares", "Nobody holds a lock of a share. To begin:", `leasehold run queue-1${at()} --share queues --yields -- sleep 60`);
  byId("count-shares").textContent = shares.size || "";
}

function ended(schedule) {
  const run = last(schedule);
  if (!run) return [];
  const when = run.scheduled_at ? moment(run.scheduled_at) : `by hand: ${run.request_id}`;
  const parts = [badge(OUTCOMES[run.outcome] ?? [run.outcome, "calm"]), small(when)];
  if (isFailed(schedule)) parts.push(make("span", {}, why(run.outcome, schedule)));
  return parts;
}

function why(outcome, { last_detail: detail, last_sidecar: sidecar }) {
  if (detail) return detail.includes(": ") ? detail.slice(detail.indexOf(": ") + 2) : "no reason was given";
  if (outcome === "timed_out") return "its deadline came";
  if (outcome === "abandoned") return "its holder ended or lost the lock";
  return `${sidecar && sidecar !== heard.sidecar?.sidecar ? `the log of ${sidecar}` : "the log of its sidecar"} says why`;
}

function scheduleRow(schedule) {
  const { missed = 0, retry_at: retryAt, run } = schedule.state ?? {};
  const parts = [];
  if (schedule.problem) parts.push(schedule.problem);
  if (run) parts.push(make("span", {}, `attempt ${run.attempt} runs for `, since(run.started_at)));
  if (schedule.subscribers_here) parts.push(`${plural(schedule.subscribers_here, "subscriber")} here`);
  const failed = schedule.failed_attempts;
  const host = [schedule.host_type || hostName(schedule.host_id), `host id ${schedule.host_id}`].filter(Boolean).join(", ");
  return make("tr", { "data-path": schedule.lock_path },
    cell("Schedule", linkTo(schedule.lock_path, name(schedule)), small(host)),
    cell("When", schedule.sentence || schedule.expression, small(`${schedule.expression} ${schedule.definition?.time_zone ?? ""}`)),
    tight("Next", schedule.paused ? badge(["paused", "warn"]) : until(schedule.next_at), small(schedule.next_at ? moment(schedule.next_at) : "")),
    cell("Last", ...ended(schedule)),
    tight("Missed", missed ? badge([String(missed), schedule.missed_since_last_run ? "bad" : "calm"]) : "0",
      small(schedule.missed_since_last_run ? `${schedule.missed_since_last_run} since the last run` : "")),
    tight("Attempts", failed ? badge([`${failed} failed`, "bad"]) : "", retryAt ? small("next ", until(retryAt)) : ""),
    cell("More", ...joined(parts)));
}

function showSchedules() {
  const wanted = filters();
  const found = ordered(schedules.filter((schedule) => (!wanted.host || schedule.host_id === wanted.host)
    && (!wanted.text || [schedule.lock_path, name(schedule)].some((text) => text.toLowerCase().includes(wanted.text)))),
  "schedules", isTroubled);
  fill(byId("schedules"), found.map((schedule) => rowOf(`schedule ${schedule.lock_path}`, schedule, () => scheduleRow(schedule))));
  byId("schedules").parentElement.hidden = found.length === 0;
  if (schedulesRead && found.length === 0) {
    emptyNote("note-schedules", "schedules", schedules.length === 0, ["every '*/5 * * * *' -f hello", "-- echo hello"]);
  } else if (schedulesRead) {
    note("note-schedules", `${plural(schedules.length, "schedule")}; read at ${moment(schedulesRead)}`);
  }
}

function eventCells(event) {
  const times = event.times > 1 ? `${event.times} times` : "";
  const detail = event.kind === "missed" ? plural(Number(event.detail), "occurrence") : event.detail;
  return [badge(KINDS[event.kind] ?? [event.kind, "calm"]), event.holder, [detail, times].filter(Boolean).join("; ")];
}

function eventRow(event, withLock) {
  const [what, who, detail] = eventCells(event);
  const lock = locks.get(event.lock_path);
  const link = event.lock_path ? linkTo(event.lock_path, lock ? name(lock) : event.lock_path) : "";
  const token = event.fencing_token === null ? "" : small(`token ${event.fencing_token}`);
  return make("tr", { "data-kind": event.kind },
    tight("When", make("time", { datetime: event.at }, moment(event.at))), tight("What", what), ...(withLock ? [cell("Lock", link)] : []), cell("Who", who, token), cell("More", detail));
}

function showEvents() {
  const wanted = filters();
  const found = events.filter((event) => {
    const lock = locks.get(event.lock_path);
    if (wanted.host && lock?.host_id !== wanted.host) return false;
    const [kind] = KINDS[event.kind] ?? [event.kind];
    const texts = [event.lock_path ?? "", lock ? name(lock) : "", event.holder, event.detail, event.kind, kind];
    return !wanted.text || texts.some((text) => text.toLowerCase().includes(wanted.text));
  });
  const nameOf = ({ lock_path: path }) => (locks.has(path) ? name(locks.get(path)) : path);
  fill(byId("events"), found.map((event) => rowOf(`event ${event.number}`, [event, nameOf(event)], () => eventRow(event, true))));
  byId("events").parentElement.hidden = found.length === 0;
  if (found.length === 0) emptyNote("note-events", "events", events.length === 0, ["run hello", "-- true"]);
  else note("note-events", `${found.length === events.length ? "" : `${found.length} of `}${plural(events.length, "event")}, the newest first`);
}

const fact = ([term, ...text]) => make("div", {}, make("dt", {}, term), make("dd", {}, ...text));

// One request at a time: what changes meanwhile is asked for after it.
let isReading = false;
let isDue = false;
// The lock as it was read last. What was read between two looks of the sidecar at all locks is told by neither.
let lastRead = null;
const isBehind = () => lastRead && locks.get(lastRead.lock_path)?.waiters_here !== lastRead.waiters_here;

async function showLock() {
  isDue = true;
  if (isReading) return;
  isReading = true;
  try {
    while (isDue && view.name === "lock") {
      isDue = false;
      await readLock(view.path);
    }
  } finally {
    isReading = false;
  }
}

// What is known of a lock that cannot be read: what has happened to it here.
function clearLock(path, note) {
  lastRead = null;
  byId("note-lock").textContent = note;
  byId("lock").replaceChildren();
  showHistory(events.filter((event) => event.lock_path === path));
}

function showHistory(history) {
  byId("history").replaceChildren(...history.map((event) => eventRow(event, false)));
  byId("history").parentElement.hidden = history.length === 0;
  if (history.length) note("note-history", "");
  else note("note-history", "None since this sidecar started. What happens from now on, wherever it is held:", `leasehold watch${at()} ${view.path}`);
}

async function readLock(path) {
  const answer = await fetch(`api/locks/${path.split("/").map(encodeURIComponent).join("/")}`).catch(() => null);
  const read = await (answer?.ok ? answer.json() : answer?.text())?.catch(() => null);
  if (path !== view.path) return;
  if (!answer?.ok || !read) return clearLock(path, read || "The sidecar does not answer.");
  const { lock, history, collides } = read;
  lastRead = lock;
  if (lock.validity) learn(path, lock.validity, lock.lease_duration_seconds);
  if (collides) note("note-lock", "Two host types share this lock: see docs/paths.md.");
  else if (lock.state === "available" && !lock.written_at) note("note-lock", "There is no such lock in the store. To see all:", `leasehold ls${at()}`);
  else note("note-lock", "");
  const facts = [
    ["State", badge(STATES[state(lock)] ?? [lock.state, "calm"])], ["Function", lock.key?.function], ["Scope", lock.key?.scope], ["Mode", lock.key?.mode],
    ["Host type", lock.host_type], ["Host id", lock.host_id], ["Holder", holder(lock)], ["Sidecar", lock.sidecar],
    ["Since", isHeld(lock) ? since(lock.acquired_at) : ""], ["Valid for", isHeld(lock) ? bar(lock) : ""],
    ["Fencing token", lock.fencing_token === null ? "" : String(lock.fencing_token)],
    ["Lease", lock.lease_duration_seconds ? `${lock.lease_duration_seconds}s` : ""], ["Renewed", lock.renewed_at ? moment(lock.renewed_at) : ""],
    ["Record written", lock.written_at ? moment(lock.written_at) : ""], ["Waiting here", String(lock.waiters_here), small(names(lock.waiting_here, lock.waiters_here, 8))],
    ["More", ...more(lock)],
  ];
  byId("lock").replaceChildren(...facts.filter(([, text]) => text !== "" && text !== null && text !== undefined).map(fact));
  showHistory(history.reverse());
}

function showSidecar() {
  const { sidecar } = heard;
  if (!sidecar) return;
  const health = byId("health");
  const wasReady = health.classList.contains("good");
  health.textContent = sidecar.ready ? "ready" : sidecar.reason.startsWith("for ") ? `store not usable ${sidecar.reason}` : sidecar.reason;
  health.className = `badge ${sidecar.ready ? "good" : "bad"}`;
  // Said once, and not with each second that it goes on.
  if (wasReady !== sidecar.ready) byId("said").textContent = health.textContent;
  byId("now").replaceChildren(...[
    ["Sidecar", sidecar.sidecar], ["Holds", String(sidecar.holds)],
    ["Waiting", sidecar.waiters ? String(sidecar.waiters) : ""], ["At risk", sidecar.at_risk ? badge([String(sidecar.at_risk), "bad"]) : ""],
  ].filter(([, text]) => text !== "").map(fact));
  byId("about").replaceChildren(...[
    ["Version", sidecar.version], ["Host type", sidecar.host_type], ["Host id", `${sidecar.host_id} (from ${sidecar.host_id_provider})`],
    ["Store", sidecar.store], ["Locks under", sidecar.prefix], ["Layout", sidecar.layout], ["Listens on", sidecar.endpoints.join(", ")],
  ].map(fact));
  byId("warnings").replaceChildren(...sidecar.collisions.map((event) =>
    make("p", { class: "badge bad box" }, "Host-id collision: ", linkTo(event.lock_path, event.lock_path), ` ${event.detail}`)));
}

/** Whether what is shown is so now; if not, of when it is. */
function showLink() {
  const link = byId("link");
  const isOld = !heard.isConnected || isStoreDown() || failure !== null;
  let text = "live";
  if (!heard.isConnected) {
    text = heardAt ? `not connected: what is shown is as of ${moment(heardAt)}; trying again` : "not connected; trying again";
    byId("health").className = "badge bad";
    byId("health").textContent = "no answer";
  } else if (isOld) {
    text = lastListed ? `not live: locks as of ${moment(lastListed)}` : "not live: the store was not listed yet";
  }
  // It is read out whenever it is set.
  if (link.textContent !== text) link.textContent = text;
  link.classList.toggle("old", isOld);
  byId("main").classList.toggle("old", isOld);
  const problem = heard.isConnected ? isStoreDown() && "store not usable" : "no answer";
  const risk = heard.sidecar?.at_risk && `${heard.sidecar.at_risk} at risk`;
  const first = problem || risk;
  document.title = `${first ? `(${first}) ` : ""}Leasehold ${heard.sidecar?.sidecar ?? ""}`;
}

function showHosts() {
  hostTypes.clear();
  for (const { host_id: host, host_type: type } of [...locks.values(), ...schedules]) {
    if (!hostTypes.has(host)) hostTypes.set(host, new Set());
    if (type) hostTypes.get(host).add(type);
  }
  const hosts = [...hostTypes.keys()].map((host) => [hostName(host) ? `${hostName(host)} (${host.slice(0, 8)})` : host, host]).sort();
  const select = byId("host");
  const options = [...select.options].slice(1).map((option) => [option.textContent, option.value]);
  if (JSON.stringify(options) === JSON.stringify(hosts)) return;
  const before = select.value;
  select.replaceChildren(make("option", { value: "" }, "all hosts"), ...hosts.map(([text, host]) => make("option", { value: host }, text)));
  select.value = hostTypes.has(before) ? before : "";
}

// The orders of a list: at the heads of its columns, and where there are none, in the form.
function showOrder() {
  const order = chosen[view.name];
  byId("order").hidden = !order;
  if (!order) return;
  const heads = [...document.querySelectorAll(`#view-${view.name} th[data-by]`)];
  for (const head of heads) {
    const isBy = head.dataset.by === order.by;
    if (isBy) head.setAttribute("aria-sort", order.isTurned ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  const options = heads.map((head) => make("option", { value: head.dataset.by }, `by ${head.textContent.toLowerCase()}`));
  byId("order").replaceChildren(make("option", { value: "" }, "problems first"), ...options);
  byId("order").value = order.by;
}

function showProblems(id, count) {
  byId(id).replaceChildren(...(count ? [badge([String(count), "bad"]), make("span", { class: "unseen" }, " to look at first")] : []));
}

function show() {
  countPermits();
  byId("count-locks").textContent = locks.size || "";
  byId("count-events").textContent = events.length || "";
  byId("count-schedules").textContent = schedules.length || "";
  showHosts();
  showProblems("bad-locks", [...locks.values()].filter(isProblem).length);
  showProblems("bad-schedules", schedules.filter(isTroubled).length);
  showLink();
  showShares();
  if (view.name === "locks") showLocks();
  if (view.name === "schedules") showSchedules();
  if (view.name === "events") showEvents();
  for (const [id, { row: made }] of rows) if (!made.isConnected) rows.delete(id);
}

// However much comes at once, it is shown four times a second.
let asked = false;
function changed() {
  if (asked) return;
  asked = true;
  setTimeout(() => {
    asked = false;
    show();
  }, locks.size > 2 * FIRST_ROWS ? 250 : 30);
}

async function readSchedules() {
  const answer = await fetch("api/schedules").catch(() => null);
  if (!answer?.ok) {
    note("note-schedules", answer ? await answer.text() : "The sidecar does not answer.");
    schedulesRead = null;
    return;
  }
  const read = await answer.json();
  schedules = read.schedules;
  schedulesRead = read.read_at;
  changed();
}

function follow() {
  const source = new EventSource("api/live");
  const on = (kind, take) => source.addEventListener(kind, (message) => {
    heardAt = new Date().toISOString();
    take(JSON.parse(message.data));
    changed();
  });
  let told = new Set(); // what this connection has told of
  source.onopen = () => {
    told = new Set();
    [listedAt, failure] = [null, null];
    events = [];
    heard.isConnected = true;
    showSidecar();
    changed();
    readSchedules();
  };
  source.onerror = () => {
    // One that was refused, because others read all streams, is not tried again by the browser.
    if (source.readyState === EventSource.CLOSED) setTimeout(follow, 5000);
    heard.isConnected = false;
    changed();
  };
  on("sidecar", (now) => {
    heard.sidecar = now;
    showSidecar();
  });
  on("locks", (news) => {
    for (const lock of news.changed) {
      told.add(lock.lock_path);
      locks.set(lock.lock_path, lock);
      if (lock.validity) learn(lock.lock_path, lock.validity, lock.lease_duration_seconds);
      if (!isHeld(lock) || !lock.held_here) validity.delete(lock.lock_path);
    }
    for (const path of news.gone) [locks, validity].forEach((known) => known.delete(path));
    if ([...news.changed.map((lock) => lock.lock_path), ...news.gone].includes(view.path)) showLock();
    if (news.listed_at === null) return;
    if (listedAt === null) for (const path of locks.keys()) if (!told.has(path)) locks.delete(path);
    [listedAt, lastListed, failure] = [news.listed_at, news.listed_at, null];
    if (view.name === "lock" && isBehind()) showLock();
  });
  on("holds", (holds) => holds.forEach((hold) => learn(hold.lock_path, hold, locks.get(hold.lock_path)?.lease_duration_seconds)));
  on("events", (news) => {
    for (const event of news.filter(({ times }) => times > 1)) {
      // What has happened again takes the place of what it was before.
      const before = events.findIndex(({ kind, lock_path: path }) => kind === event.kind && path === event.lock_path);
      if (before >= 0) events.splice(before, 1);
    }
    events = [...news.reverse(), ...events].slice(0, 500);
    const alarm = news.find((event) => ALARMING.has(event.kind));
    if (alarm) byId("said").textContent = `${KINDS[alarm.kind][0]}: ${alarm.lock_path ?? ""} ${alarm.detail}`;
    if (news.some((event) => event.kind.startsWith("run_") || event.kind === "missed" || event.kind === "schedule_changed")) readSchedules();
    if (view.name === "lock" && news.some((event) => event.lock_path === view.path)) showLock();
  });
  on("failure", ({ message }) => {
    // All is told again, but for what is gone meanwhile.
    told = new Set();
    [listedAt, failure] = [null, message];
  });
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // written by hand
  }
}

function turn() {
  const [name, ...path] = location.hash.slice(1).split("/");
  view = { name: ["locks", "schedules", "shares", "events", "lock"].includes(name) ? name : "locks", path: null };
  if (view.name === "lock") view.path = decoded(path.join("/"));
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== `view-${view.name}`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${view.name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  byId("filters").hidden = view.name === "lock" || view.name === "shares";
  showOrder();
  byId("state").hidden = view.name !== "locks";
  if (view.name === "lock") {
    byId("title-lock").textContent = view.path;
    byId("title-lock").focus();
    clearLock(view.path, "Loading …");
    showLock();
  }
  show();
}

let statesBefore = "";

function tick() {
  passTime();
  for (const element of document.querySelectorAll("[data-bar]")) {
    if (validity.has(element.dataset.bar)) element.value = secondsLeft(element.dataset.bar);
  }
  for (const element of document.querySelectorAll("[data-left]")) {
    if (validity.has(element.dataset.left)) element.textContent = leftText(element.dataset.left);
  }
  // A hold that nobody renews ends without a word.
  const states = [...validity.keys()].map((path) => locks.has(path) && state(locks.get(path))).join();
  if (states !== statesBefore) changed();
  statesBefore = states;
}

function sort(by) {
  const order = chosen[view.name];
  // The same column again: the other way round, then as it was.
  if (order.by !== by || by === "") Object.assign(order, { by, isTurned: false });
  else if (!order.isTurned) order.isTurned = true;
  else Object.assign(order, { by: "", isTurned: false });
  shown = FIRST_ROWS;
  showOrder();
  show();
}

for (const head of document.querySelectorAll("th[data-by]")) {
  const button = make("button", { type: "button", class: "plain" }, ...head.childNodes);
  button.addEventListener("click", () => sort(head.dataset.by));
  head.append(button);
}
byId("order").addEventListener("change", () => sort(byId("order").value));
byId("zone").textContent = zoneText();
byId("zone").addEventListener("click", () => {
  turnZone();
  byId("zone").textContent = zoneText();
  rows.clear();
  show();
  if (view.name === "lock") showLock();
});
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filters").addEventListener("input", ({ target }) => {
  if (target.id === "order") return;
  shown = FIRST_ROWS;
  show();
});
byId("more").addEventListener("click", () => {
  shown += FIRST_ROWS;
  show();
});
addEventListener("hashchange", turn);
setInterval(tick, 1000);
setInterval(() => (view.name === "schedules" && !document.hidden ? readSchedules() : null), 5000);
turn();
follow();
