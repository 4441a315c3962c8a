// For tests: messages and errors as a sidecar gives them, and waiting for what must come.

import assert from "node:assert/strict";

import { Metadata } from "@grpc/grpc-js";
import type { status } from "@grpc/grpc-js";

import { BadRequest, ErrorInfo, RetryInfo, Status } from "../gen/google/rpc/error.js";
import { duration } from "../src/duration.js";
import * as messages from "../src/proto.js";

/** How long a test waits for what must come. */
export const PATIENCE_MS = 60_000;

/** What a call is refused with. */
export interface Refused {
  readonly code: status;
  readonly details: string;
  readonly metadata: Metadata;
}

/** An error with the details that a sidecar gives. */
export function refusal(
  code: status,
  details: string,
  info?: { reason: string; domain?: string; metadata?: Record<string, string> },
  more: { violations?: { field: string; description: string }[]; retryAfterMs?: number } = {},
): Refused {
  const metadata = new Metadata();
  const parts: Status["details"] = [];
  const add = (name: string, value: Uint8Array): void => {
    parts.push({ typeUrl: `type.googleapis.com/google.rpc.${name}`, value: Buffer.from(value) });
  };
  if (info !== undefined) {
    const { reason, domain = "leasehold.dev", metadata: pairs = {} } = info;
    add("ErrorInfo", ErrorInfo.encode({ reason, domain, metadata: pairs }).finish());
  }
  if (more.violations !== undefined)
    add("BadRequest", BadRequest.encode({ fieldViolations: more.violations }).finish());
  if (more.retryAfterMs !== undefined) {
    add("RetryInfo", RetryInfo.encode({ retryDelay: duration("retryAfterMs", more.retryAfterMs) }).finish());
  }
  if (parts.length > 0) {
    const trailer = Status.encode({ code, message: details, details: parts }).finish();
    metadata.set("grpc-status-details-bin", Buffer.from(trailer));
  }
  return { code, details, metadata };
}

interface MessageType {
  fromPartial(said: object): object;
  encode(message: object): { finish(): Uint8Array };
  decode(bytes: Uint8Array): object;
}

/** A message of a type of the API, with what of this it may have, as it comes out of the wire. */
export function message(type: string, said: object): object {
  const made = (messages as unknown as Record<string, MessageType | undefined>)[type];
  assert.ok(made !== undefined, `there is no message ${type}`);
  return made.decode(made.encode(made.fromPartial(said)).finish());
}

/** Waits until `condition` holds. */
export async function eventually(what: string, condition: () => boolean): Promise<void> {
  const end = performance.now() + PATIENCE_MS;
  while (!condition()) {
    assert.ok(performance.now() < end, what);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
