//! Room on the disk for what the file has, so that a disk that somebody else fills ends no hold (S18).
//!
//! Renewals, releases and grants of locks that are there need pages at most when records grow, and a little
//! of the log. Both are taken from the disk beforehand: the log keeps the place it has (`file.rs`) and is
//! begun anew when it cannot grow (`session.rs`), and the file has pages that nothing needs yet: [`RESERVE`],
//! and one for each lock and plan. They are free pages of SQLite's, or rows of `filling`, of which one is
//! deleted when the free pages run short. So only what makes a lock or a plan needs more of the disk, and is
//! refused when there is none.
//!
//! On file systems that write elsewhere what is written again (btrfs, ZFS), nothing can be taken beforehand.

use rusqlite::{FileControl, MAIN_DB};

use super::error::SqliteError;
use super::locks::Locks;
use crate::lock::Container;
use crate::store::StoreError;

/// Pages that are there beside those for each lock and plan: a megabyte.
const RESERVE: i64 = 256;
/// Pages that the file grows by at a time.
const AHEAD: i64 = 128;
/// A transaction begins with as many free pages, or a row of the filling is deleted.
const FREE: i64 = 32;
/// Pages of a row of the filling: what is read, and made free, at once. Rows that took all free pages would
/// grow with the number of locks, and with them what is written for the next lock.
const ROW: i64 = 64;
/// The log has at least this place on the disk; a filling as long is written through it otherwise.
const LOG_BYTES: u64 = 512 * 1_024;
/// What of a page a blob can use.
const OF_A_PAGE: i64 = 4_092;

impl Locks<'_> {
    /// That there may be another lock or plan, and that it has its room.
    pub(super) fn check_room(&self) -> Result<(), SqliteError> {
        let (entries, reserved) = self.room()?;
        if let Some(limit) =
            self.terms.most.filter(|most| i64::try_from(*most).is_ok_and(|most| entries >= most))
        {
            return Err(StoreError::Full { limit }.into());
        }
        self.grow(RESERVE + entries + 1 - reserved - self.pragma("freelist_count")?)
    }

    /// Takes the room for what is there, and for the log, which has so many bytes now.
    pub(super) fn take_room(&self, log_bytes: u64) -> Result<(), SqliteError> {
        let (entries, reserved) = self.room()?;
        let missing = RESERVE + entries - reserved - self.pragma("freelist_count")?;
        self.grow(if log_bytes < LOG_BYTES { missing.max(1) } else { missing })
    }

    /// Locks and plans.
    pub(super) fn entries(&self) -> Result<u64, SqliteError> {
        Ok(u64::try_from(self.room()?.0).unwrap_or_default())
    }

    /// The containers that have locks.
    pub(super) fn containers(&self) -> Result<Vec<Container>, SqliteError> {
        let mut names = self.prepare("SELECT DISTINCT container FROM locks")?;
        let names = names.query_map([], |row| row.get::<_, String>(0))?;
        let containers = names.map(|name| Ok(Container::parse(&name?).ok()));
        containers.filter_map(Result::transpose).collect()
    }

    /// The file is at least as long.
    pub(super) fn least_bytes(&self) -> Result<u64, SqliteError> {
        Ok(self.prepare("SELECT bytes FROM room")?.query_row([], |row| row.get(0))?)
    }

    /// Makes a part of the filling free pages when those run short.
    pub(super) fn free_pages(&self) -> Result<(), SqliteError> {
        if self.pragma("freelist_count")? >= FREE || self.room()?.1 == 0 {
            return Ok(());
        }
        self.prepare(
            "UPDATE room SET reserved = reserved - (SELECT pages FROM filling ORDER BY number LIMIT 1)",
        )?
        .execute([])?;
        self.prepare("DELETE FROM filling WHERE number = (SELECT min(number) FROM filling)")?
            .execute([])?;
        Ok(())
    }

    /// Makes the file longer, if pages are missing. A filling takes the free pages first, so it is so much
    /// larger; then a row of it is free again.
    fn grow(&self, missing: i64) -> Result<(), SqliteError> {
        if missing <= 0 {
            return Ok(());
        }
        let least = self.pragma("freelist_count")? + missing + AHEAD;
        let rows = (least + ROW - 1) / ROW;
        let pages = rows * ROW;
        self.take_from_the_disk(missing + AHEAD + ROW + FREE)?;
        let mut add = self.prepare("INSERT INTO filling (pages, zeros) VALUES (?, zeroblob(?))")?;
        for _ in 0..rows {
            add.execute([ROW, ROW * OF_A_PAGE])?;
        }
        let bytes = self.pragma("page_count")? * self.pragma("page_size")?;
        self.prepare("UPDATE room SET reserved = reserved + ?, bytes = max(bytes, ?)")?
            .execute([pages, bytes])?;
        self.grown.set(u64::try_from(bytes).unwrap_or_default());
        self.free_pages()
    }

    /// SQLite writes to the end of each block, so that it is there. Within a transaction that writes: two
    /// that did this at once could write over what the other has put there.
    fn take_from_the_disk(&self, pages: i64) -> Result<(), SqliteError> {
        let mut bytes = (self.pragma("page_count")? + pages) * self.pragma("page_size")?;
        self.connection
            .file_control(Some(MAIN_DB), FileControl::SizeHint(&mut bytes))
            .map_err(SqliteError::NoRoom)
    }

    /// Locks and plans, and pages of the filling.
    fn room(&self) -> Result<(i64, i64), SqliteError> {
        let mut room = self.prepare("SELECT entries, reserved FROM room")?;
        Ok(room.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?)
    }

    #[cfg(test)]
    pub(super) fn spare_pages(&self) -> Result<u64, SqliteError> {
        let spare = self.room()?.1 + self.pragma("freelist_count")?;
        Ok(u64::try_from(spare).unwrap_or_default())
    }

    fn pragma(&self, name: &str) -> Result<i64, SqliteError> {
        Ok(self.prepare(&format!("PRAGMA {name}"))?.query_row([], |row| row.get(0))?)
    }
}
