// What the sidecar has said of its locks and schedules, what follows from it, and what comes first.

import { OUTCOMES, STATES } from "./parts.js";

/** The sidecar as it was told last, and whether it is heard. */
export const heard = { sidecar: null, isConnected: false };
export const locks = new Map(); // by path
export const validity = new Map(); // by path: { ends, whole, risk }

export function learn(path, { valid_for_seconds: left, at_risk: risk }, lease) {
  const whole = Math.max(left, lease ?? validity.get(path)?.whole ?? 0, 1);
  validity.set(path, { ends: performance.now() + left * 1000, whole, risk });
}

export const secondsLeft = (path) => Math.max(0, (validity.get(path).ends - performance.now()) / 1000);

// The sidecar cannot renew anything, and knows nothing new of locks elsewhere.
export const isStoreDown = () => heard.sidecar !== null && !heard.sidecar.ready && !heard.sidecar.draining;

export const isHeld = (lock) => lock.state === "held" || lock.state === "breaking";

export function state(lock) {
  const known = validity.get(lock.lock_path);
  if (lock.state !== "held" || !known) return lock.state;
  // Nobody has said that it was renewed: nobody could, or nobody is heard.
  const isOver = known.ends <= performance.now();
  if (isOver && !heard.isConnected) return "unknown";
  if (isOver && (known.risk || isStoreDown())) return "lost";
  return known.risk ? "risk" : "held";
}

export function name({ lock_path: path, key }) {
  if (!key) return path;
  return `${key.function}${key.scope && ` / ${key.scope}`}${key.mode === "listener" ? " (listener)" : ""}`;
}

/** The run, or the occurrence without one, that ended last. */
export const last = (schedule) => schedule.state?.ended[0];

// What somebody has to look at comes first.
const collides = (path) => Boolean(heard.sidecar?.collisions.some((event) => event.lock_path === path));
export const isProblem = (lock) => ["lost", "breaking"].includes(state(lock)) || Boolean(validity.get(lock.lock_path)?.risk)
  || Boolean(lock.kept_until) || collides(lock.lock_path);
export const isFailed = (schedule) => OUTCOMES[last(schedule)?.outcome]?.[1] === "bad";
export const isTroubled = (schedule) => Boolean(schedule.problem) || isFailed(schedule) || schedule.missed_since_last_run > 0
  || schedule.failed_attempts > 0;

// By what lists are put in order; what has no value comes last. Without a choice, problems come first, then names.
const ranks = Object.keys(STATES);
const ORDERS = {
  locks: {
    name: (lock) => name(lock).toLowerCase(),
    state: (lock) => ranks.indexOf(state(lock)),
    holder: (lock) => (isHeld(lock) && lock.holder.toLowerCase()) || null,
    since: (lock) => (isHeld(lock) ? lock.acquired_at : null),
    validity: (lock) => (isHeld(lock) && validity.has(lock.lock_path) ? validity.get(lock.lock_path).ends : null),
    token: (lock) => lock.fencing_token,
    waiting: (lock) => (lock.waiters_here ? -lock.waiters_here : null),
  },
  schedules: {
    name: (schedule) => name(schedule).toLowerCase(),
    next: (schedule) => schedule.next_at,
    last: (schedule) => last(schedule)?.scheduled_at ?? null,
    missed: (schedule) => (schedule.state?.missed ? -schedule.state.missed : null),
    failed: (schedule) => (schedule.failed_attempts ? -schedule.failed_attempts : null),
  },
};
/** By what each list is in order, as somebody has chosen. */
export const chosen = { locks: { by: "", isTurned: false }, schedules: { by: "", isTurned: false } };

export function ordered(list, of, isBad) {
  const { by, isTurned } = chosen[of];
  const value = ORDERS[of][by] ?? ((one) => !isBad(one));
  const known = list.map((one) => [value(one), one]);
  known.sort(([a, one], [b, other]) => {
    if (a !== b && (a === null || b === null)) return a === null ? 1 : -1;
    if (a !== b) return (a < b ? -1 : 1) * (isTurned ? -1 : 1);
    return one.lock_path < other.lock_path ? -1 : 1;
  });
  return known.map(([, one]) => one);
}
