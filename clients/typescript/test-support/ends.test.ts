// How a sidecar ends with its test process, and where its program is found.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";

import { PROGRAM_VARIABLE, findProgram } from "leasehold-client/testing";

const STARTS = `
import { Sidecar } from "leasehold-client/testing";
const sidecar = await Sidecar.start();
if (process.argv.at(-1) === "paused") await sidecar.pause();
console.log(sidecar.process.running().pid);
setInterval(() => undefined, 1000);
`;

/** Whether the process runs: one that has ended and was not waited for does not. */
function runs(pid: string): boolean {
  try {
    return !readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ");
  } catch {
    return false;
  }
}

for (const how of ["running", "paused"]) {
  test(`a sidecar that is ${how} ends with a test process that is killed`, { timeout: 60_000 }, async () => {
    const arguments_ = ["--input-type=module", "--eval", STARTS, how];
    const child = spawn(process.execPath, arguments_, { stdio: ["ignore", "pipe", "inherit"] });
    const [said] = (await once(child.stdout, "data")) as [Buffer];
    const pid = said.toString().trim();
    assert.ok(runs(pid));
    child.kill("SIGKILL");
    while (runs(pid)) await delay(10);
  });
}

test("the program is found, or it is said where it was looked for", async (context) => {
  const folder = await mkdtemp(path.join(tmpdir(), "lh-"));
  const { [PROGRAM_VARIABLE]: named, PATH: before } = process.env;
  context.after(async () => {
    process.env[PROGRAM_VARIABLE] = named;
    process.env["PATH"] = before;
    await rm(folder, { recursive: true });
  });
  process.env["PATH"] = folder;
  process.env[PROGRAM_VARIABLE] = "";
  await assert.rejects(findProgram(), (error: Error) => {
    const words = [PROGRAM_VARIABLE, "npm install --save-dev @leasehold/sidecar", `PATH (not in ${folder})`];
    for (const word of words) assert.ok(error.message.includes(word), `${word} is not in ${error.message}`);
    return true;
  });
  const [inPath, other] = [path.join(folder, "leasehold"), path.join(folder, "other")];
  for (const file of [inPath, other]) {
    await writeFile(file, "");
    await chmod(file, 0o700);
  }
  assert.equal(await findProgram(), inPath);
  process.env[PROGRAM_VARIABLE] = other;
  assert.equal(await findProgram(), other);
  process.env[PROGRAM_VARIABLE] = folder;
  await assert.rejects(findProgram(), /which is not an executable file/);
});

/** Stands for the package of the program, which is another package's build. */
const HOOKS = `
const PACKAGE = "data:text/javascript,export const programPath = () => '/packaged'";
export const resolve = (name, context, next) =>
  name === "@leasehold/sidecar" ? { url: PACKAGE, shortCircuit: true } : next(name, context);
`;

test("the package's program goes before that in PATH", async (context) => {
  const folder = await mkdtemp(path.join(tmpdir(), "lh-"));
  context.after(() => rm(folder, { recursive: true }));
  const [hooks, register] = [path.join(folder, "hooks.mjs"), path.join(folder, "register.mjs")];
  await writeFile(hooks, HOOKS);
  const url = JSON.stringify(pathToFileURL(hooks).href);
  await writeFile(register, `import { register } from "node:module";\nregister(${url});\n`);
  const program = path.join(folder, "leasehold");
  await writeFile(program, "");
  await chmod(program, 0o700);
  const find = 'import { findProgram } from "leasehold-client/testing"; console.log(await findProgram());';
  const arguments_ = ["--import", pathToFileURL(register).href, "--input-type=module", "--eval", find];
  const env = { ...process.env, [PROGRAM_VARIABLE]: "", PATH: folder };
  const { stdout } = await promisify(execFile)(process.execPath, arguments_, { env });
  assert.equal(stdout, "/packaged\n");
});
