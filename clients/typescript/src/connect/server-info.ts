// What a sidecar is and can do.

import type { GetServerInfoResponse } from "../../gen/leasehold/v1/lease_service.js";
import { milliseconds } from "../duration.js";

/** What a sidecar accepts at the most. Durations are milliseconds. */
export interface ServerLimits {
  /** The longest `waitMs` of a call, other than `Infinity`. */
  readonly waitMs: number;
  /** The longest `maxHoldMs` of {@link Client.acquire} and {@link Hold.extend}. */
  readonly maxHoldMs: number;
  /** The `maxHoldMs` of {@link Client.acquire} unless one is given. */
  readonly defaultMaxHoldMs: number;
  /** The `leaseDurationMs` unless one is given. */
  readonly defaultLeaseDurationMs: number;
  /** The greatest number of holds at a time. */
  readonly holds: number;
  /** The greatest number of callers that wait at a time. */
  readonly waiters: number;
  /** The greatest number of streams of one connection. */
  readonly streamsPerConnection: number;
  /** The greatest number of permits of a lock. */
  readonly permits: number;
  /** The greatest size of a checkpoint in bytes; 0 if there are none. */
  readonly checkpointBytes: number;
}

/** What a sidecar is and can do. Behind an address that several sidecars share, another may answer the next call. */
export interface ServerInfo {
  /** The version of the program, such as `0.2.0`. */
  readonly version: string;
  /** The boot id of its kernel; empty if there is none. */
  readonly bootId: string;
  /** Its limits. */
  readonly limits: ServerLimits;
  /** What it can do: `checkpoints`, `notice`, `permits`, `sharing`, `wait-without-end`, `break` and others. */
  readonly features: ReadonlySet<string>;
  /** The host id of its configured provider. */
  readonly hostId: string;
  /** Its host type; empty if there is none. */
  readonly hostType: string;
  /** How lock names are made from keys: `readable`, `webjobs` or `hashed`. */
  readonly layout: string;
  /** The kind of store: `azure`, `sqlite` or `memory`. */
  readonly store: string;
  /** Which requests it serves: those that need this revision or a smaller one (S37). */
  readonly revision: number;
}

/** The answer in this language's words. */
export function serverInfo(answer: GetServerInfoResponse): ServerInfo {
  const { version, bootId, limits, features, hostId, hostType, layout, store, revision } = answer;
  return {
    version,
    bootId,
    features: new Set(features),
    hostId,
    hostType,
    layout,
    store,
    revision,
    limits: {
      waitMs: milliseconds(limits?.wait),
      maxHoldMs: milliseconds(limits?.maxHold),
      defaultMaxHoldMs: milliseconds(limits?.defaultMaxHold),
      defaultLeaseDurationMs: milliseconds(limits?.defaultLeaseDuration),
      holds: limits?.holds ?? 0,
      waiters: limits?.waiters ?? 0,
      streamsPerConnection: limits?.streamsPerConnection ?? 0,
      permits: limits?.permits ?? 0,
      checkpointBytes: limits?.checkpointBytes ?? 0,
    },
  };
}
