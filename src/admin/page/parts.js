// What the views of the page are made of: elements, words, and times. Texts of others become text nodes only.

export const byId = (id) => document.getElementById(id);

export const STATES = {
  lost: ["lost", "bad"],
  risk: ["at risk", "bad"],
  breaking: ["broken, expiring", "warn"],
  unknown: ["not known", "warn"],
  held: ["held", "good"],
  resting: ["resting", "calm"],
  available: ["available", "calm"],
};
export const KINDS = {
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
  run_failed: ["run failed", "bad"],
  missed: ["missed", "bad"],
  went_back: ["record fell back", "bad"],
  schedule_changed: ["schedule changed", "warn"],
  draining: ["shutting down", "warn"],
};
export const OUTCOMES = {
  succeeded: ["succeeded", "good"],
  failed: ["failed", "bad"],
  failed_final: ["failed for good", "bad"],
  timed_out: ["timed out", "bad"],
  abandoned: ["abandoned", "bad"],
  returned: ["given to another replica", "calm"],
  skipped: ["skipped", "calm"],
};
export const ALARMING = new Set(["at_risk", "lost", "release_not_confirmed", "revoked", "run_failed", "missed", "collision",
  "token_not_growing", "went_back"]);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

export const cell = (label, ...children) => make("td", { "data-label": label }, ...children);
/** A cell whose content stays on one line. */
export const tight = (label, ...children) => make("td", { "data-label": label, class: "tight" }, ...children);
export const small = (...children) => (children.some(Boolean) ? make("small", {}, ...children) : "");
export const badge = ([text, tone]) => make("span", { class: `badge ${tone}` }, text);
export const plural = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
export const joined = (parts) => parts.flatMap((part, place) => (place === 0 ? [part] : ["; ", part]));

/** What a view says of itself; a command is what to do next. */
export function note(id, text, command) {
  byId(id).replaceChildren(text, ...(command ? [" ", make("code", {}, command)] : []));
}

/** Some names, and how many more there are. */
export function names(known, count, most) {
  const shown = known.slice(0, most);
  const more = count - shown.length;
  return shown.join(", ") + (more > 0 && shown.length ? ` and ${more} more` : "");
}

export function span(seconds) {
  const left = Math.max(0, Math.floor(seconds));
  const [days, hours, minutes] = [Math.floor(left / 86400), Math.floor(left / 3600) % 24, Math.floor(left / 60) % 60];
  if (days > 0) return `${days}d ${hours}h`;
  if (hours > 0) return `${hours}h ${minutes}m`;
  return minutes > 0 ? `${minutes}m ${left % 60}s` : `${left}s`;
}

// Moments are said in the browser's zone or in UTC, each with its own offset: a zone has two in a year.
let isUtc = false;
try {
  isUtc = localStorage.getItem("times") === "utc";
} catch {
  // Kept by nobody, then.
}

function parts(at) {
  const minutes = isUtc ? 0 : -at.getTimezoneOffset();
  const [day, time] = new Date(at.getTime() + minutes * 60_000).toISOString().slice(0, 19).split("T");
  const two = (number) => String(Math.floor(Math.abs(number))).padStart(2, "0");
  const zone = minutes === 0 ? "UTC" : `${minutes < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
  return { day, time, zone };
}

export const today = () => parts(new Date()).day;

export function moment(text) {
  const { day, time, zone } = parts(new Date(text));
  return `${day === today() ? "" : `${day} `}${time} ${zone}`;
}

export const zoneText = () => (isUtc ? "Times: UTC" : `Times: local, ${parts(new Date()).zone}`);

export function turnZone() {
  isUtc = !isUtc;
  try {
    localStorage.setItem("times", isUtc ? "utc" : "local");
  } catch {
    // It is so until the page is read again.
  }
}

// Texts that change as time passes: set again each second while they are there.
const ago = (text) => span((Date.now() - new Date(text)) / 1000);

export function since(text) {
  return text ? make("time", { datetime: text, title: moment(text), "data-since": text }, ago(text)) : "";
}

function ahead(text) {
  const left = (new Date(text) - Date.now()) / 1000;
  return left > 0 ? `in ${span(left)}` : "due";
}

export function until(text) {
  return text ? make("time", { datetime: text, title: moment(text), "data-until": text }, ahead(text)) : "";
}

export function passTime() {
  for (const element of document.querySelectorAll("[data-since]")) element.textContent = ago(element.dataset.since);
  for (const element of document.querySelectorAll("[data-until]")) element.textContent = ahead(element.dataset.until);
}
