//! The tables, and whose database it is.

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::error::SqliteError;

/// Marks a database as one of Leasehold's: "LHLD".
const APPLICATION_ID: i64 = 0x4c48_4c44;
/// The version of the tables below. A change that a program of the version before could not live with raises
/// it, and adds the step from that version. A table more is none: a program that does not know it can be
/// started again on this file.
const VERSION: i64 = 1;

/// `store` has one row: the database's own random id.
const TABLES: &str = "
    CREATE TABLE store (
        id TEXT NOT NULL
    ) STRICT;
    INSERT INTO store VALUES (lower(hex(randomblob(8))));
    CREATE TABLE locks (
        container TEXT NOT NULL,
        name TEXT NOT NULL,
        etag TEXT NOT NULL,
        fields TEXT NOT NULL,        -- a JSON object of strings
        written_at INTEGER NOT NULL, -- Unix time in milliseconds
        lease_id BLOB,               -- 16 bytes; null when there is no lease
        lease_ms INTEGER,            -- its duration
        lease_until INTEGER,         -- CLOCK_BOOTTIME in nanoseconds
        lease_boot TEXT,             -- the boot id under which that was read
        lease_broken INTEGER,        -- 1 when it was broken
        note TEXT,                   -- of the latest break, as a JSON object
        PRIMARY KEY (container, name)
    ) STRICT, WITHOUT ROWID;
";

/// The plans of schedules (T3). A database of before there were any gets this table when it is opened.
const PLANS: &str = "
    CREATE TABLE IF NOT EXISTS plans (
        container TEXT NOT NULL,
        name TEXT NOT NULL,          -- of the lock, which need not be there
        etag TEXT NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (container, name)
    ) STRICT, WITHOUT ROWID;
";

/// What the file has room for (`room.rs`). `room` has one row.
const ROOM: &str = "
    CREATE TABLE IF NOT EXISTS room (
        entries INTEGER NOT NULL,    -- locks and plans
        reserved INTEGER NOT NULL,   -- pages of all rows of filling
        bytes INTEGER NOT NULL       -- the file is at least as long
    ) STRICT;
    CREATE TABLE IF NOT EXISTS filling (
        number INTEGER PRIMARY KEY,
        pages INTEGER NOT NULL,
        zeros BLOB NOT NULL
    ) STRICT;
    INSERT INTO room
        SELECT (SELECT count(*) FROM locks) + (SELECT count(*) FROM plans), 0, 0
        WHERE NOT EXISTS (SELECT 1 FROM room);
    CREATE TRIGGER IF NOT EXISTS lock_made AFTER INSERT ON locks
        BEGIN UPDATE room SET entries = entries + 1; END;
    CREATE TRIGGER IF NOT EXISTS lock_deleted AFTER DELETE ON locks
        BEGIN UPDATE room SET entries = entries - 1; END;
    CREATE TRIGGER IF NOT EXISTS plan_made AFTER INSERT ON plans
        BEGIN UPDATE room SET entries = entries + 1; END;
    CREATE TRIGGER IF NOT EXISTS plan_deleted AFTER DELETE ON plans
        BEGIN UPDATE room SET entries = entries - 1; END;
";

/// The boot ids of processes that used the file while another did, under an id of its own: they are refused
/// ([`Locks::see_leases`](super::locks::Locks::see_leases)).
const REFUSED: &str = "
    CREATE TABLE IF NOT EXISTS refused_boots (
        number INTEGER PRIMARY KEY,
        boot TEXT NOT NULL UNIQUE,
        at INTEGER NOT NULL          -- CLOCK_BOOTTIME in nanoseconds, as the other read it
    ) STRICT;
";

/// Makes the tables of a new database, and refuses those of others. Answers whether it has a write-ahead log.
pub(super) fn prepare(connection: &mut Connection) -> Result<bool, SqliteError> {
    // In one transaction, or another process could make the tables between one question and the next.
    let is_complete = {
        let transaction = connection.transaction()?;
        whose(&transaction)? == Whose::Ours && is_complete(&transaction)?
    };
    let write_ahead = write_ahead(connection)?;
    if !is_complete {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have been first.
        if whose(&transaction)? == Whose::Nobodys {
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
        }
        transaction.execute_batch(PLANS)?;
        transaction.execute_batch(ROOM)?;
        transaction.execute_batch(REFUSED)?;
        transaction.commit()?;
    }
    Ok(write_ahead)
}

/// Whether the tables and triggers are there that came later.
fn is_complete(connection: &Connection) -> Result<bool, SqliteError> {
    let sql = "SELECT count(*) FROM sqlite_schema WHERE name IN \
               ('plans', 'room', 'filling', 'refused_boots', 'lock_made', 'lock_deleted', 'plan_made', 'plan_deleted')";
    Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0))? == 8)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Ours,
    Nobodys,
}

fn whose(connection: &Connection) -> Result<Whose, SqliteError> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let version = number("user_version")?;
    match number("application_id")? {
        APPLICATION_ID if version > VERSION => {
            Err(SqliteError::Newer { found: version, known: VERSION })
        }
        APPLICATION_ID => Ok(Whose::Ours),
        _ => {
            let tables: i64 =
                connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            if tables == 0 && version == 0 { Ok(Whose::Nobodys) } else { Err(SqliteError::Foreign) }
        }
    }
}

/// Turns the write-ahead log on, where the file system can do that: readers and a writer then do not wait for
/// each other. Where it cannot, SQLite's rollback journal does as well.
fn write_ahead(connection: &Connection) -> Result<bool, SqliteError> {
    const TRIES: usize = 20;
    let mut tries = 0;
    loop {
        let turned =
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0));
        match turned {
            Ok(mode) => {
                let mode: String = mode;
                return Ok(mode == "wal");
            }
            // Two processes that do this at once are told "busy" without a wait: waiting for a turn to write
            // is one.
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && tries < TRIES =>
            {
                tries += 1;
                connection.execute_batch("BEGIN IMMEDIATE; COMMIT")?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
