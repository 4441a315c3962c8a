// The page of a sidecar. Shows what /api says; changes nothing. Texts of others become text nodes only.

const FIRST_ROWS = 200;
const byId = (id) => document.getElementById(id);
const locks = new Map(); // by path
const validity = new Map(); // by path: { ends, whole, risk }
let events = []; // the newest first
let schedules = [];
let sidecar = null;
let listedAt = null;
let failure = null; // why the store could not be listed last
let shown = FIRST_ROWS;
let view = { name: "locks", path: null };

const STATES = {
  held: ["held", "good"],
  risk: ["at risk", "bad"],
  breaking: ["broken, expiring", "warn"],
  resting: ["resting", "calm"],
  available: ["available", "calm"],
};
const KINDS = {
  granted: ["granted", "good"],
  handed_on: ["handed on", "good"],
  resumed: ["resumed", "good"],
  refused: ["refused", "calm"],
  at_risk: ["at risk", "bad"],
  recovered: ["recovered", "good"],
  revoked: ["revoked", "warn"],
  lost: ["lost", "bad"],
  released: ["released", "calm"],
  release_not_confirmed: ["release not confirmed", "warn"],
  handed_over: ["handed over to the replacement", "calm"],
  resumed_elsewhere: ["resumed at another sidecar", "calm"],
  broken: ["broken by an operator", "warn"],
  broken_for_caller: ["broken for a waiting caller", "warn"],
  collision: ["host-id collision", "bad"],
  token_not_growing: ["token would not grow", "bad"],
  run_started: ["run started", "good"],
  run_ended: ["run ended", "calm"],
  missed: ["missed", "bad"],
  went_back: ["record fell back", "bad"],
  schedule_changed: ["schedule changed", "warn"],
  draining: ["shutting down", "warn"],
};
const OUTCOMES = { succeeded: "good", failed: "bad", failed_final: "bad", timed_out: "bad", abandoned: "bad" };
const ALARMING = new Set(["at_risk", "lost", "release_not_confirmed", "revoked", "missed", "collision", "token_not_growing", "went_back"]);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

const cell = (label, ...children) => make("td", { "data-label": label }, ...children);
const small = (text) => (text ? make("small", {}, text) : "");
const badge = ([text, tone]) => make("span", { class: `badge ${tone}` }, text);
const plural = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

function span(seconds) {
  const left = Math.max(0, Math.floor(seconds));
  const [days, hours, minutes] = [Math.floor(left / 86400), Math.floor(left / 3600) % 24, Math.floor(left / 60) % 60];
  if (days > 0) return `${days}d ${hours}h`;
  if (hours > 0) return `${hours}h ${minutes}m`;
  return minutes > 0 ? `${minutes}m ${left % 60}s` : `${left}s`;
}

const two = (number) => String(number).padStart(2, "0");

function moment(text) {
  const at = new Date(text);
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return at.toDateString() === new Date().toDateString() ? time : `${day} ${time}`;
}

// Texts that change as time passes: set again each second while they are there.
function since(text) {
  return text ? make("time", { datetime: text, title: moment(text), "data-since": text }, span((Date.now() - new Date(text)) / 1000)) : "";
}

function until(text) {
  if (!text) return "";
  const left = (new Date(text) - Date.now()) / 1000;
  return make("time", { datetime: text, title: moment(text), "data-until": text }, left > 0 ? `in ${span(left)}` : "due");
}

const secondsLeft = (path) => Math.max(0, (validity.get(path).ends - performance.now()) / 1000);

function bar(path) {
  const known = validity.get(path);
  if (!known) return "";
  const left = secondsLeft(path);
  const progress = make("progress", { max: known.whole, "aria-label": `validity left of ${path}`, "data-bar": path });
  progress.value = left;
  progress.classList.toggle("low", known.risk);
  return make("span", {}, progress, " ", make("span", { "data-left": path }, `${Math.floor(left)}s`));
}

function state(lock) {
  if (lock.state === "held" && validity.get(lock.lock_path)?.risk) return "risk";
  return lock.state;
}

function name(lock) {
  if (lock.function === "" && lock.scope === "") return lock.lock_path;
  const scope = lock.scope === "" ? "" : ` / ${lock.scope}`;
  return `${lock.function}${scope}${lock.mode === "listener" ? " (listener)" : ""}`;
}

const linkTo = (path, text) => make("a", { href: `#lock/${encodeURIComponent(path)}` }, text);

function more(lock) {
  const parts = [];
  if (lock.permits > 0) parts.push(`permit ${lock.permit + 1}; ${heldOf(lock.lock)} of ${lock.permits} held`);
  if (lock.has_schedule) parts.push("schedule");
  if (lock.share) parts.push(`share ${lock.share}`);
  if (lock.priority > 0) parts.push(`priority ${lock.priority}`);
  if (lock.yields) parts.push("yields");
  if (lock.resting_until && lock.state === "resting") parts.push(make("span", {}, "available ", until(lock.resting_until)));
  if (lock.kept_until) {
    parts.push(make("span", {}, "kept here because its former holder may not know, free ", until(lock.kept_until)));
  }
  if (lock.break_note) {
    const by = lock.break_note.broken_by ? ` by ${lock.break_note.broken_by}` : "";
    parts.push(`broken${by}: ${lock.break_note.reason}`);
  }
  if (lock.checkpoint) {
    const saved = lock.checkpoint.saved_at ? make("span", {}, ", saved ", since(lock.checkpoint.saved_at), " ago") : "";
    parts.push(make("span", {}, `checkpoint ${lock.checkpoint.version}, ${lock.checkpoint.size} bytes`, saved));
  }
  for (const [key, value] of Object.entries(lock.labels)) parts.push(`${key}=${value}`);
  return parts.flatMap((part, place) => (place === 0 ? [part] : ["; ", part]));
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

const isHeld = (lock) => lock.state === "held" || lock.state === "breaking";

function holder(lock) {
  if (!isHeld(lock) && !lock.holder) return "";
  const word = isHeld(lock) ? "" : "last: ";
  const doubt = isHeld(lock) && lock.holder_is_last_recorded ? " (last recorded)" : "";
  return `${word}${lock.holder || "unknown"}${doubt}`;
}

function row(lock) {
  return make("tr", { "data-path": lock.lock_path },
    cell("Lock", linkTo(lock.lock_path, name(lock))),
    cell("State", badge(STATES[state(lock)] ?? [lock.state, "calm"])),
    cell("Holder", holder(lock), isHeld(lock) ? small(lock.held_here ? "through this sidecar" : lock.sidecar) : ""),
    cell("Since", isHeld(lock) ? since(lock.acquired_at) : ""),
    cell("Valid for", isHeld(lock) ? bar(lock.lock_path) : ""),
    cell("Token", lock.fencing_token === null ? "" : String(lock.fencing_token)),
    cell("Waiting here", lock.waiters_here ? String(lock.waiters_here) : ""),
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
  const key = JSON.stringify(shows);
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

function lockRow(lock) {
  const known = validity.get(lock.lock_path);
  const held = lock.permits > 0 ? heldOf(lock.lock) : 0;
  return rowOf(`lock ${lock.lock_path}`, [lock, Boolean(known), known?.risk, held], () => row(lock));
}

const groups = new Map(); // of rows, by host id

function group(host, rowsOfIt) {
  const own = sidecar && host === sidecar.host_id ? " (this sidecar's)" : "";
  if (!groups.has(host)) {
    const title = make("th", { class: "group", colspan: 8, scope: "rowgroup" });
    groups.set(host, make("tbody", {}, make("tr", {}, title)));
  }
  const body = groups.get(host);
  body.rows[0].cells[0].textContent = `Host id ${host || "unknown"}${own}`;
  fill(body, [body.rows[0], ...rowsOfIt]);
  return body;
}

function lockNote(found) {
  if (failure !== null) return `The store cannot be listed, and what is shown may be old: ${failure}`;
  if (listedAt === null) return "Loading …";
  const of = found === locks.size ? "" : ` of ${locks.size}`;
  return `${plural(found, "lock")}${of}; listed at ${moment(listedAt)}`;
}

function showLocks() {
  const wanted = filters();
  const found = [...locks.values()].filter((lock) => matches(lock, wanted));
  found.sort((a, b) => (a.lock_path < b.lock_path ? -1 : 1));
  const byHost = new Map();
  for (const lock of found.slice(0, shown)) {
    if (!byHost.has(lock.host_id)) byHost.set(lock.host_id, []);
    byHost.get(lock.host_id).push(lockRow(lock));
  }
  const table = byId("locks");
  fill(table, [table.tHead, ...[...byHost].map(([host, rowsOfIt]) => group(host, rowsOfIt))]);
  byId("note-locks").textContent = lockNote(found.length);
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
    make("tr", {}, cell("Share", share), cell("Sidecar", of || "unknown", small(of === sidecar?.sidecar ? "this one" : "")), cell("Locks held", String(count)))));
  fill(byId("shares"), all);
  byId("note-shares").textContent = all.length ? "" : "Nobody holds a lock of a share.";
  byId("count-shares").textContent = shares.size || "";
}

function ended(last) {
  if (!last) return "";
  const when = last.scheduled_at ? moment(last.scheduled_at) : `by hand: ${last.request_id}`;
  return make("span", {}, badge([last.outcome.replaceAll("_", " "), OUTCOMES[last.outcome] ?? "calm"]), small(when));
}

function scheduleRow(schedule) {
  const run = schedule.run;
  const parts = [];
  if (schedule.problem) parts.push(schedule.problem);
  if (run) parts.push(make("span", {}, `attempt ${run.attempt} runs for `, since(run.started_at)));
  if (schedule.subscribers_here) parts.push(`${plural(schedule.subscribers_here, "subscriber")} here`);
  const failed = schedule.failed_attempts;
  return make("tr", { "data-path": schedule.lock_path },
    cell("Schedule", linkTo(schedule.lock_path, name({ ...schedule, mode: "" })), small(schedule.host_id)),
    cell("When", schedule.sentence || schedule.expression, small(`${schedule.expression} ${schedule.time_zone}`)),
    cell("Next", schedule.paused ? badge(["paused", "warn"]) : until(schedule.next_at), small(schedule.next_at ? moment(schedule.next_at) : "")),
    cell("Last", ended(schedule.last)),
    cell("Missed", schedule.missed ? badge([String(schedule.missed), schedule.missed_since_last_run ? "bad" : "calm"]) : "0",
      small(schedule.missed_since_last_run ? `${schedule.missed_since_last_run} since the last run` : "")),
    cell("Attempts", failed ? `${failed} failed` : "", schedule.retry_at ? make("small", {}, "next ", until(schedule.retry_at)) : ""),
    cell("More", ...parts.flatMap((part, place) => (place === 0 ? [part] : ["; ", part]))));
}

function showSchedules() {
  const wanted = filters();
  const found = schedules.filter((schedule) => (!wanted.host || schedule.host_id === wanted.host)
    && (!wanted.text || [schedule.lock_path, schedule.function, schedule.scope].some((text) => text.toLowerCase().includes(wanted.text))));
  fill(byId("schedules"), found.map((schedule) => rowOf(`schedule ${schedule.lock_path}`, schedule, () => scheduleRow(schedule))));
  byId("count-schedules").textContent = schedules.length || "";
}

function eventCells(event) {
  const times = event.times > 1 ? `${event.times} times` : "";
  return [badge(KINDS[event.kind] ?? [event.kind, "calm"]), event.holder, [event.detail, times].filter(Boolean).join("; ")];
}

function eventRow(event, withLock) {
  const [what, who, detail] = eventCells(event);
  const lock = locks.get(event.lock_path);
  const link = event.lock_path ? linkTo(event.lock_path, lock ? name(lock) : event.lock_path) : "";
  const token = event.fencing_token === null ? "" : small(`token ${event.fencing_token}`);
  return make("tr", { "data-kind": event.kind },
    make("td", { class: "time", "data-label": "When" }, make("time", { datetime: event.at }, moment(event.at))),
    cell("What", what), ...(withLock ? [cell("Lock", link)] : []), cell("Who", who, token), cell("More", detail));
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
  byId("note-events").textContent = events.length ? "The newest 500, the newest first." : "No events yet.";
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

const showHistory = (history) => byId("history").replaceChildren(...history.map((event) => eventRow(event, false)));

async function readLock(path) {
  const answer = await fetch(`api/locks/${path.split("/").map(encodeURIComponent).join("/")}`).catch(() => null);
  const read = await (answer?.ok ? answer.json() : answer?.text())?.catch(() => null);
  if (path !== view.path) return;
  if (!answer?.ok || !read) return clearLock(path, read || "The sidecar does not answer.");
  const { lock, history, collides } = read;
  lastRead = lock;
  if (lock.validity) learn(path, lock.validity, lock.lease_duration_seconds);
  byId("note-lock").textContent = collides ? "Two host types share this lock: see docs/paths.md." : "";
  const facts = [
    ["State", badge(STATES[state(lock)] ?? [lock.state, "calm"])], ["Function", lock.function], ["Scope", lock.scope], ["Mode", lock.mode],
    ["Host id", lock.host_id], ["Host type", lock.host_type], ["Holder", holder(lock)], ["Sidecar", lock.sidecar],
    ["Since", isHeld(lock) ? since(lock.acquired_at) : ""], ["Valid for", isHeld(lock) ? bar(path) : ""],
    ["Fencing token", lock.fencing_token === null ? "" : String(lock.fencing_token)],
    ["Lease", lock.lease_duration_seconds ? `${lock.lease_duration_seconds}s` : ""], ["Renewed", lock.renewed_at ? moment(lock.renewed_at) : ""],
    ["Record written", lock.written_at ? moment(lock.written_at) : ""], ["Waiting here", String(lock.waiters_here)],
    ["More", ...more(lock)],
  ];
  byId("lock").replaceChildren(...facts.filter(([, text]) => text !== "" && text !== null && text !== undefined).map(fact));
  showHistory(history.reverse());
}

function showSidecar() {
  if (!sidecar) return;
  const health = byId("health");
  const wasReady = health.classList.contains("good");
  health.textContent = sidecar.ready ? "ready" : sidecar.reason.startsWith("for ") ? `store not usable ${sidecar.reason}` : sidecar.reason;
  health.className = `badge ${sidecar.ready ? "good" : "bad"}`;
  // Said once, and not with each second that it goes on.
  if (wasReady !== sidecar.ready) byId("said").textContent = health.textContent;
  byId("about").replaceChildren(...[
    ["Sidecar", sidecar.sidecar], ["Version", sidecar.version], ["Host id", `${sidecar.host_id} (from ${sidecar.host_id_provider})`],
    ["Host type", sidecar.host_type], ["Store", sidecar.store], ["Locks under", sidecar.prefix], ["Layout", sidecar.layout],
    ["Listens on", sidecar.endpoints.join(", ")], ["Holds", String(sidecar.holds)], ["Waiting", String(sidecar.waiters)],
    ["At risk", String(sidecar.at_risk)],
  ].map(fact));
  byId("warnings").replaceChildren(...sidecar.collisions.map((event) =>
    make("p", { class: "badge bad box" }, "Host-id collision: ", linkTo(event.lock_path, event.lock_path), ` ${event.detail}`)));
  document.title = `${sidecar.at_risk ? `(${sidecar.at_risk} at risk) ` : ""}Leasehold ${sidecar.sidecar}`;
}

function showHosts() {
  const hosts = [...new Set([...locks.values()].map((lock) => lock.host_id))].sort();
  const select = byId("host");
  if (hosts.length === select.options.length - 1 && hosts.every((host, place) => select.options[place + 1].value === host)) return;
  const chosen = select.value;
  select.replaceChildren(make("option", { value: "" }, "all"), ...hosts.map((host) => make("option", { value: host }, host)));
  select.value = hosts.includes(chosen) ? chosen : "";
}

function show() {
  countPermits();
  byId("count-locks").textContent = locks.size || "";
  byId("count-events").textContent = events.length || "";
  showHosts();
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

function learn(path, { valid_for_seconds: left, at_risk: risk }, lease) {
  const whole = Math.max(left, lease ?? validity.get(path)?.whole ?? 0, 1);
  validity.set(path, { ends: performance.now() + left * 1000, whole, risk });
}

async function readSchedules() {
  const answer = await fetch("api/schedules").catch(() => null);
  if (!answer?.ok) {
    byId("note-schedules").textContent = answer ? await answer.text() : "The sidecar does not answer.";
    return;
  }
  const read = await answer.json();
  schedules = read.schedules;
  byId("note-schedules").textContent = `${plural(schedules.length, "schedule")}; read at ${moment(read.read_at)}`;
  changed();
}

function follow() {
  const source = new EventSource("api/live");
  const on = (kind, take) => source.addEventListener(kind, (message) => {
    take(JSON.parse(message.data));
    changed();
  });
  let told = new Set(); // what this connection has told of
  source.onopen = () => {
    told = new Set();
    [listedAt, failure] = [null, null];
    events = [];
    byId("link").textContent = "live";
    readSchedules();
  };
  source.onerror = () => {
    // One that was refused, because others read all streams, is not tried again by the browser.
    if (source.readyState === EventSource.CLOSED) setTimeout(follow, 5000);
    byId("link").textContent = "not connected: what is shown may be old; trying again";
    byId("health").className = "badge bad";
    byId("health").textContent = "no answer";
  };
  on("sidecar", (now) => {
    sidecar = now;
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
    [listedAt, failure] = [news.listed_at, null];
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
  byId("by-state").hidden = view.name !== "locks";
  if (view.name === "lock") {
    byId("title-lock").textContent = view.path;
    byId("title-lock").focus();
    clearLock(view.path, "Loading …");
    showLock();
  }
  show();
}

function tick() {
  for (const element of document.querySelectorAll("[data-since]")) {
    element.textContent = span((Date.now() - new Date(element.dataset.since)) / 1000);
  }
  for (const element of document.querySelectorAll("[data-until]")) {
    const left = (new Date(element.dataset.until) - Date.now()) / 1000;
    element.textContent = left > 0 ? `in ${span(left)}` : "due";
  }
  for (const element of document.querySelectorAll("[data-bar]")) {
    if (validity.has(element.dataset.bar)) element.value = secondsLeft(element.dataset.bar);
  }
  for (const element of document.querySelectorAll("[data-left]")) {
    if (validity.has(element.dataset.left)) element.textContent = `${Math.floor(secondsLeft(element.dataset.left))}s`;
  }
}

byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filters").addEventListener("input", () => {
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
