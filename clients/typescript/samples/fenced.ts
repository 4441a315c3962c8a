/** What most drivers of databases have, such as `pg`. */
export interface Database {
  query(sql: string, values: readonly (string | number)[]): Promise<{ readonly rowCount: number | null }>;
}

const UPDATE = "UPDATE report SET body = $1, fencing_token = $2 WHERE id = $3 AND fencing_token <= $2";

/** Somebody else has acquired the lock since, and has written: stop. */
export class LateWriteError extends Error {}

/** Replaces a report, unless a holder with a greater fencing token has written it. */
export async function write(database: Database, id: number, body: string, fencingToken: number): Promise<void> {
  const { rowCount } = await database.query(UPDATE, [body, fencingToken, id]);
  if (rowCount === 0) throw new LateWriteError("a newer holder has written the report");
}
