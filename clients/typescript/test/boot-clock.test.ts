import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";

import { isShifted } from "../src/hold/boot-clock.js";

const ZERO = "monotonic           7         0\nboottime            0         0\n";
const ONE = "time:[1]";
const OTHER = "time:[2]";

test("s21 a clock that a time namespace shifts is not the kernel's", async () => {
  const cases: [string | undefined, string | undefined, string | undefined, boolean][] = [
    [ZERO, ONE, ONE, false],
    [undefined, undefined, undefined, false],
    ["monotonic 0 0\nboottime 9 0\n", ONE, ONE, true],
    ["boottime -1 500000000\n", ONE, ONE, true],
    [ZERO, ONE, OTHER, true],
    [ZERO, undefined, undefined, true],
    [undefined, ONE, ONE, true],
    ["nonsense", ONE, ONE, true],
  ];
  for (const [offsets, ours, ofChildren, shifted] of cases) {
    const folder = await mkdtemp(path.join(tmpdir(), "leasehold-"));
    try {
      await mkdir(path.join(folder, "ns"));
      if (offsets !== undefined) await writeFile(path.join(folder, "timens_offsets"), offsets);
      if (ours !== undefined) await symlink(ours, path.join(folder, "ns/time"));
      if (ofChildren !== undefined) await symlink(ofChildren, path.join(folder, "ns/time_for_children"));
      assert.equal(isShifted(folder), shifted, `${offsets ?? ""} ${ours ?? ""} ${ofChildren ?? ""}`);
    } finally {
      await rm(folder, { recursive: true });
    }
  }
});
