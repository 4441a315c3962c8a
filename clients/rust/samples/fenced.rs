//! A resource that refuses late writes: a row of a database keeps the fencing token of its last write.
//! `cargo run --example fenced`.

use rusqlite::{Connection, params};

const UPDATE: &str =
    "UPDATE report SET body = ?1, fencing_token = ?2 WHERE id = ?3 AND fencing_token <= ?2";

/// Replaces a report; false if a holder with a greater fencing token has written it: then stop.
fn write(database: &Connection, id: u32, body: &str, token: u64) -> rusqlite::Result<bool> {
    Ok(database.execute(UPDATE, params![body, token, id])? > 0)
}

/// A database with one report.
fn report() -> rusqlite::Result<Connection> {
    let database = Connection::open_in_memory()?;
    database.execute_batch(
        "CREATE TABLE report (id INTEGER PRIMARY KEY, body TEXT NOT NULL, fencing_token BIGINT NOT NULL);
         INSERT INTO report VALUES (1, '', 0);",
    )?;
    Ok(database)
}

#[expect(clippy::print_stdout, reason = "a sample shows what it does")]
fn main() -> rusqlite::Result<()> {
    let database = report()?;
    for (body, token) in [("of the first", 7), ("of the second", 9), ("late", 7)] {
        let is_written = write(&database, 1, body, token)?;
        println!("{body}, with token {token}: {}", if is_written { "written" } else { "refused" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s5_a_write_with_a_smaller_token_is_refused() {
        let database = report().unwrap();
        assert!(write(&database, 1, "of the first", 7).unwrap());
        assert!(write(&database, 1, "again", 7).unwrap());
        assert!(write(&database, 1, "of the second", 9).unwrap());
        assert!(!write(&database, 1, "late", 7).unwrap());
        let body: String =
            database.query_row("SELECT body FROM report", [], |row| row.get(0)).unwrap();
        assert_eq!(body, "of the second");
    }
}
