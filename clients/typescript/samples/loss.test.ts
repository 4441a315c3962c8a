import assert from "node:assert/strict";
import { test } from "node:test";

import { LostError } from "leasehold-client";
import { withSidecar } from "leasehold-client/testing";

const lock = { function: "nightly-report" };

test(
  "the report stops when the lock is lost",
  withSidecar(async (sidecar) => {
    const client = await sidecar.client();
    const hold = await client.hold(lock);
    await sidecar.lose(lock);
    await assert.rejects(hold.release(), LostError);
  }),
);
