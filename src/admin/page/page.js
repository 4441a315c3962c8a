// The page of a sidecar. Shows what /api says; changes nothing. Texts of others become text nodes only.

const FIRST_ROWS = 200;
const byId = (id) => document.getElementById(id);
const locks = new Map(); // by path
const validity = new Map(); // by path: { ends, whole, risk }
let events = []; // the newest first
let schedules = [];
let sidecar = null;
let listedAt = null;
let shown = FIRST_ROWS;
let view = { name: "locks", path: null };

const STATES = {
  held: ["held", "good"],
  risk: ["at risk", "bad"],
  breaking: ["broken, runs out", "warn"],
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
  handed_over: ["left to the replacement", "calm"],
  resumed_elsewhere: ["goes on elsewhere", "calm"],
  broken: ["broken by an operator", "warn"],
  overruled: ["broken for another", "warn"],
  collision: ["host-id collision", "bad"],
  token_not_growing: ["token would not grow", "bad"],
  run_started: ["run started", "good"],
  run_ended: ["run ended", "calm"],
  missed: ["missed", "bad"],
  went_back: ["record went back", "bad"],
  schedule_changed: ["schedule changed", "warn"],
  draining: ["shutting down", "warn"],
};
const OUTCOMES = { succeeded: "good", failed: "bad", failed_final: "bad", timed_out: "bad", abandoned: "bad" };
const ALARMING = new Set(["at_risk", "lost", "revoked", "missed", "collision", "token_not_growing", "went_back"]);

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

// A row is made anew only when what it shows has changed.
const rows = new Map(); // by path: { row, key }

function rowOf(lock) {
  const known = validity.get(lock.lock_path);
  const held = lock.permits > 0 ? heldOf(lock.lock) : 0;
  const key = JSON.stringify([lock, Boolean(known), known?.risk, held]);
  const last = rows.get(lock.lock_path);
  if (last?.key === key) return last.row;
  const made = row(lock);
  if (last && last.row.contains(document.activeElement)) queueMicrotask(() => made.querySelector("a").focus());
  rows.set(lock.lock_path, { row: made, key });
  return made;
}

function showLocks() {
  const wanted = filters();
  const found = [...locks.values()].filter((lock) => matches(lock, wanted));
  found.sort((a, b) => (a.lock_path < b.lock_path ? -1 : 1));
  const groups = new Map();
  for (const lock of found.slice(0, shown)) {
    if (!groups.has(lock.host_id)) groups.set(lock.host_id, []);
    groups.get(lock.host_id).push(rowOf(lock));
  }
  const bodies = [...groups].map(([host, group]) => {
    const own = sidecar && host === sidecar.host_id ? " (this sidecar's)" : "";
    const title = make("th", { class: "group", colspan: 8, scope: "rowgroup" }, `Host id ${host || "unknown"}${own}`);
    return make("tbody", {}, make("tr", {}, title), ...group);
  });
  const table = byId("locks");
  table.replaceChildren(table.tHead, ...bodies);
  const of = found.length === locks.size ? "" : ` of ${locks.size}`;
  byId("note-locks").textContent = listedAt === null ? "Loading …" : `${plural(found.length, "lock")}${of}; listed at ${moment(listedAt)}`;
  byId("more").hidden = found.length <= shown;
  byId("more").textContent = `Show more: ${found.length - shown} are not shown`;
  for (const path of rows.keys()) if (!locks.has(path)) rows.delete(path);
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
  byId("shares").replaceChildren(...all);
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
  byId("schedules").replaceChildren(...found.map(scheduleRow));
  byId("count-schedules").textContent = schedules.length || "";
}

function eventCells(event) {
  const times = event.times > 1 ? `${event.times} times` : "";
  return [badge(KINDS[event.kind] ?? [event.kind, "calm"]), event.holder, [event.detail, times].filter(Boolean).join("; ")];
}

function eventRow(event, withLock) {
  const [what, whom, detail] = eventCells(event);
  const lock = locks.get(event.lock_path);
  const link = event.lock_path ? linkTo(event.lock_path, lock ? name(lock) : event.lock_path) : "";
  const token = event.fencing_token === null ? "" : small(`token ${event.fencing_token}`);
  return make("tr", { "data-kind": event.kind },
    make("td", { class: "time", "data-label": "When" }, make("time", { datetime: event.at }, moment(event.at))),
    cell("What", what), ...(withLock ? [cell("Lock", link)] : []), cell("Whom", whom, token), cell("More", detail));
}

function showEvents() {
  const wanted = filters();
  const found = events.filter((event) => {
    const lock = locks.get(event.lock_path);
    if (wanted.host && lock?.host_id !== wanted.host) return false;
    const texts = [event.lock_path ?? "", lock ? name(lock) : "", event.holder, event.detail, event.kind];
    return !wanted.text || texts.some((text) => text.toLowerCase().includes(wanted.text));
  });
  byId("events").replaceChildren(...found.map((event) => eventRow(event, true)));
  byId("note-events").textContent = events.length ? "The newest 500, the newest first." : "Nothing has happened here yet.";
}

const fact = ([term, ...text]) => make("div", {}, make("dt", {}, term), make("dd", {}, ...text));

async function showLock() {
  const { path } = view;
  byId("title-lock").textContent = path;
  const answer = await fetch(`api/locks/${path.split("/").map(encodeURIComponent).join("/")}`).catch(() => null);
  if (path !== view.path) return;
  if (!answer?.ok) {
    byId("note-lock").textContent = answer ? await answer.text() : "The sidecar does not answer.";
    byId("lock").replaceChildren();
    return byId("history").replaceChildren();
  }
  const { lock, history, collides } = await answer.json();
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
  byId("history").replaceChildren(...history.reverse().map((event) => eventRow(event, false)));
}

function showSidecar() {
  if (!sidecar) return;
  const health = byId("health");
  health.textContent = sidecar.ready ? "ready" : sidecar.obstacle.startsWith("for ") ? `store not usable ${sidecar.obstacle}` : sidecar.obstacle;
  health.className = `badge ${sidecar.ready ? "good" : "bad"}`;
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
    listedAt = null;
    events = [];
    byId("link").textContent = "live";
    readSchedules();
  };
  source.onerror = () => {
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
    if (news.listed_at === null) return;
    if (listedAt === null) for (const path of locks.keys()) if (!told.has(path)) locks.delete(path);
    listedAt = news.listed_at;
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
    byId("note-locks").textContent = `The store cannot be listed: ${message}`;
  });
}

function turn() {
  const [name, path] = location.hash.slice(1).split("/");
  view = { name: ["locks", "schedules", "shares", "events", "lock"].includes(name) ? name : "locks", path: null };
  if (view.name === "lock") view.path = decodeURIComponent(path ?? "");
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== `view-${view.name}`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${view.name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  byId("filters").hidden = view.name === "lock" || view.name === "shares";
  byId("by-state").hidden = view.name !== "locks";
  if (view.name === "lock") showLock().then(() => byId("title-lock").focus());
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
