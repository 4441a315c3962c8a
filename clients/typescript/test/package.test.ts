// What is packed, which tests/dist builds and a newcomer of tests/clients installs, compiles and runs; and a sample of the docs.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import initSqlJs from "sql.js";

import type { Database } from "../samples/fenced.js";
import { LateWriteError, write } from "../samples/fenced.js";

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

test("S5: a write with a smaller token is refused", async () => {
  const { Database: Sqlite } = await initSqlJs();
  const sqlite = new Sqlite();
  sqlite.run("CREATE TABLE report (id INTEGER PRIMARY KEY, body TEXT NOT NULL, fencing_token BIGINT NOT NULL)");
  sqlite.run("INSERT INTO report VALUES (1, '', 0)");
  const database: Database = {
    query: (sql, values) => {
      sqlite.run(sql, values);
      return Promise.resolve({ rowCount: sqlite.getRowsModified() });
    },
  };
  await write(database, 1, "of the first", 7);
  await write(database, 1, "again", 7);
  await write(database, 1, "of the second", 9);
  await assert.rejects(write(database, 1, "late", 7), LateWriteError);
  assert.deepEqual(sqlite.exec("SELECT body FROM report")[0]?.values, [["of the second"]]);
  sqlite.close();
});
