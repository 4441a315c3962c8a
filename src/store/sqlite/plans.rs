//! The plans of schedules, in a table beside the locks'.

use rusqlite::OptionalExtension as _;

use super::error::SqliteError;
use super::locks::Locks;
use crate::lock::{ETag, LockPath};
use crate::store::{List, PlanListing, PlanRead, PlanWritten, StoreError, StoredPlan};

impl Locks<'_> {
    pub(super) fn read_plan(&self, path: &LockPath) -> Result<PlanRead, SqliteError> {
        let plan = self
            .prepare("SELECT etag, text FROM plans WHERE container = ? AND name = ?")?
            .query_row([path.container(), path.name()], |row| {
                Ok(StoredPlan { etag: ETag(row.get(0)?), text: row.get(1)? })
            })
            .optional()?;
        Ok(PlanRead { plan, time: self.time() })
    }

    pub(super) fn write_plan(
        &self,
        path: &LockPath,
        text: &str,
        if_match: Option<&ETag>,
    ) -> Result<PlanWritten, SqliteError> {
        let etag = self.new_etag()?;
        let (container, name) = (path.container(), path.name());
        let written = match if_match {
            Some(known) => self
                .prepare(
                    "UPDATE plans SET etag = ?, text = ? WHERE container = ? AND name = ? AND etag = ?",
                )?
                .execute((&etag.0, text, container, name, &known.0))?,
            None if self.read_plan(path)?.plan.is_some() => 0,
            None => {
                self.check_room()?;
                self.prepare(
                    "INSERT INTO plans (container, name, etag, text) VALUES (?, ?, ?, ?)",
                )?
                .execute((container, name, &etag.0, text))?
            }
        };
        was_there(written)?;
        Ok(PlanWritten { etag, time: self.time() })
    }

    pub(super) fn delete_plan(&self, path: &LockPath, if_match: &ETag) -> Result<(), SqliteError> {
        let deleted = self
            .prepare("DELETE FROM plans WHERE container = ? AND name = ? AND etag = ?")?
            .execute((path.container(), path.name(), &if_match.0))?;
        was_there(deleted)
    }

    pub(super) fn list_plans(&self, request: &List) -> Result<PlanListing, SqliteError> {
        let (plans, continuation) = self.page("name FROM plans", request, |_| Ok(()))?;
        Ok(PlanListing { paths: plans.into_iter().map(|(path, ())| path).collect(), continuation })
    }

    /// Whatever its ETag: its lock is gone.
    pub(super) fn drop_plan(&self, path: &LockPath) -> Result<(), SqliteError> {
        self.prepare("DELETE FROM plans WHERE container = ? AND name = ?")?
            .execute([path.container(), path.name()])?;
        Ok(())
    }
}

/// Whether the statement met the plan that was meant.
fn was_there(rows: usize) -> Result<(), SqliteError> {
    if rows == 0 { Err(StoreError::Changed.into()) } else { Ok(()) }
}

#[cfg(test)]
#[path = "plans_tests.rs"]
mod tests;
