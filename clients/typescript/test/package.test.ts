// What is packed. tests/dist builds the package, and a newcomer of tests/clients installs, compiles and runs it.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

test("the package has what a user needs, and no tests", async () => {
  const pack = ["pack", "--json", "--dry-run", "--ignore-scripts"];
  const { stdout } = await promisify(execFile)("npm", pack, { cwd: ROOT });
  const [packed] = JSON.parse(stdout) as { files: { path: string }[] }[];
  const paths = packed?.files.map((file) => file.path) ?? [];
  for (const wanted of ["README.md", "LICENSE-APACHE", "LICENSE-MIT", "dist/src/index.js", "dist/src/index.d.ts"]) {
    assert.ok(paths.includes(wanted), `${wanted} is in the package`);
  }
  assert.deepEqual(
    paths.filter((name) => /test|scenarios|samples|tsbuildinfo/.test(name.replace("src/testing/", ""))),
    [],
  );
});

test("a CommonJS module can require it", () => {
  const { Client } = createRequire(import.meta.url)("leasehold-client") as { Client: { connect: unknown } };
  assert.equal(typeof Client.connect, "function");
});
