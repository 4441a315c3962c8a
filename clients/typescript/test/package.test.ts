import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { Bench, grant, validity } from "./fake-sidecar.js";

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const MAX_LINES = 400;

interface Packed {
  readonly filename: string;
  readonly files: readonly { readonly path: string }[];
}

const USER = `
import { Client } from "leasehold-client";
import { LockKey } from "leasehold-client/proto";
import { PROGRAM_VARIABLE } from "leasehold-client/testing";

await using client = await Client.connect();
await using hold = await client.hold({ function: "packed" });
const token: number = hold.fencingToken;
console.log(token, LockKey.create({ function: "f" }).function, PROGRAM_VARIABLE);
`;

test("the package has what a user needs, and works", async () => {
  const folder = await mkdtemp(path.join(tmpdir(), "leasehold-"));
  try {
    // A fresh checkout, in which nothing was built: packing builds.
    const checkout = path.join(folder, "checkout");
    const tracked = ["src", "gen", "package.json", "tsconfig.json", "README.md", "LICENSE-APACHE", "LICENSE-MIT"];
    for (const name of tracked) await cp(path.join(ROOT, name), path.join(checkout, name), { recursive: true });
    await symlink(path.join(ROOT, "node_modules"), path.join(checkout, "node_modules"));
    const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", folder], { cwd: checkout });
    const [packed] = JSON.parse(stdout) as Packed[];
    assert.ok(packed);
    const paths = packed.files.map((file) => file.path);
    for (const wanted of ["README.md", "LICENSE-APACHE", "LICENSE-MIT", "dist/src/index.js", "dist/src/index.d.ts"]) {
      assert.ok(paths.includes(wanted), `${wanted} is in the package`);
    }
    assert.deepEqual(
      paths.filter((name) => /\.test\.|scenarios|samples|test-support|\.tsbuildinfo/.test(name)),
      [],
    );

    const user = path.join(folder, "user");
    const installed = path.join(user, "node_modules", "leasehold-client");
    await mkdir(installed, { recursive: true });
    await run("tar", ["-xzf", path.join(folder, packed.filename), "--strip-components=1", "-C", installed]);
    for (const scope of ["@grpc", "@bufbuild", "@types"]) {
      await symlink(path.join(ROOT, "node_modules", scope), path.join(user, "node_modules", scope));
    }
    await symlink(path.join(ROOT, "node_modules"), path.join(installed, "node_modules"));
    await writeFile(path.join(user, "package.json"), '{ "type": "module" }');
    await writeFile(path.join(user, "user.ts"), USER);
    const options = ["--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,esnext.disposable"];
    const compiler = path.join(ROOT, "node_modules/typescript/bin/tsc");
    await run("node", [compiler, ...options, "--types", "node", "user.ts"], { cwd: user });

    await using bench = await Bench.create();
    const env = { ...process.env, LEASEHOLD_ENDPOINT: bench.endpoint };
    const running = run("node", ["user.js"], { cwd: user, env });
    const call = await bench.sidecar.hold();
    // On the user's own kernel, whose clock is not the test's.
    bench.sidecar.script.report = validity("elsewhere", 1, 60);
    call.tell(grant(validity("elsewhere", 1, 60)));
    assert.equal((await running).stdout, "65536 f LEASEHOLD_PROGRAM\n");

    await writeFile(path.join(user, "user.cjs"), 'console.log(typeof require("leasehold-client").Client.connect);');
    assert.equal((await run("node", ["user.cjs"], { cwd: user })).stdout, "function\n");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

test("no file is longer than people read", async () => {
  for (const folder of [
    "src",
    "src/connect",
    "src/errors",
    "src/hold",
    "src/runs",
    "src/testing",
    "src/watch",
    "test",
    "test-support",
    "samples",
    "scenarios",
  ]) {
    for (const name of await readdir(path.join(ROOT, folder))) {
      if (!name.endsWith(".ts")) continue;
      const text = await readFile(path.join(ROOT, folder, name), "utf8");
      const lines = text.split("\n").length - 1;
      assert.ok(lines <= MAX_LINES, `${folder}/${name} has ${String(lines)} lines`);
    }
  }
});
