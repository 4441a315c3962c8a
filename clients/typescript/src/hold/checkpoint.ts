// The checkpoint of a lock: where the next holder goes on from (S23).

import { status } from "@grpc/grpc-js";

import { CHECKPOINT_BYTES } from "../constants.js";
import type { Checkpoint as WireCheckpoint } from "../../gen/leasehold/v1/lock.js";
import { LeaseholdError, RefusedError } from "../errors/errors.js";
import { Reason } from "../errors/reason.js";
import { isUnanswered, ownRefusal } from "../errors/refusal.js";

/** The greatest size of a checkpoint in bytes. */
export const CHECKPOINT_BYTES_MAX = CHECKPOINT_BYTES;

/** A small value stored with a lock. It survives holders, breaks and sidecars. Not for secrets. */
export class Checkpoint {
  constructor(
    /** The value: at most {@link CHECKPOINT_BYTES_MAX} bytes, perhaps none. */
    readonly value: Uint8Array,
    /** Grows with each save of the lock's checkpoint. */
    readonly version: number,
    /** The fencing token of the holder that saved it. */
    readonly fencingToken: number,
    /** When it was saved, by the store's clock; `undefined` of one that this hold has saved. */
    readonly savedAt: Date | undefined,
  ) {}

  /** The checkpoint of a grant, or of a record; `undefined` if there is none. */
  static from(message: WireCheckpoint | undefined): Checkpoint | undefined {
    if (message === undefined) return undefined;
    const { value, version, fencingToken, savedAt } = message;
    return new Checkpoint(value, version, fencingToken, savedAt);
  }

  /**
   * The value as a text in UTF-8.
   *
   * @throws TypeError if it is none.
   */
  text(): string {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(this.value);
  }

  /**
   * The value that `saveJson` has saved.
   *
   * @throws SyntaxError or TypeError if it is not JSON.
   */
  json(): unknown {
    return JSON.parse(this.text());
  }
}

/**
 * The validity ended before the store's answer to a save was known, or the connection broke. Either the old checkpoint
 * stands or the new one, and that does not change any more once somebody else is granted the lock (S27).
 */
export class CheckpointUnknownError extends LeaseholdError {
  /** As a {@link RefusedError} has it. */
  readonly reason = Reason.CHECKPOINT_UNKNOWN;

  constructor(problem: string, options?: ErrorOptions) {
    super(`it is not known whether the checkpoint was saved; the next grant tells: ${problem}`, options);
  }
}

/** Throws what a save has failed with: that it is unknown, where nobody has answered it (S27). */
export function saveFailed(error: unknown): never {
  const isUnknown = error instanceof RefusedError && error.reason === Reason.CHECKPOINT_UNKNOWN;
  if (isUnknown || isUnanswered(error)) throw new CheckpointUnknownError(error.message, { cause: error });
  throw error;
}

/**
 * A value for the wire; a text is encoded in UTF-8.
 *
 * @throws RefusedError with reason `INVALID_FIELD`, as the sidecar would, if it is too long.
 */
export function checkpointBytes(field: string, value: Uint8Array | string): Buffer {
  // Copied, because the caller may go on writing into it.
  const bytes = typeof value === "string" ? Buffer.from(value, "utf8") : Buffer.from(value);
  if (bytes.length <= CHECKPOINT_BYTES_MAX) return bytes;
  const description =
    `has ${String(bytes.length)} bytes; at most ${String(CHECKPOINT_BYTES_MAX)} are allowed: ` +
    "store the data elsewhere, and save its address";
  throw ownRefusal(status.INVALID_ARGUMENT, `${field} ${description}`, {
    reason: Reason.INVALID_FIELD,
    violations: [{ field, description }],
  });
}
