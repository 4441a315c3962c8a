import assert from "node:assert/strict";
import { test } from "node:test";

import initSqlJs from "sql.js";

import type { Database } from "../samples/fenced.js";
import { LateWriteError, write } from "../samples/fenced.js";

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
