//! The plans of schedules, in a table beside the locks'. There are no other documents here: no host of .NET
//! can share the file.

use rusqlite::OptionalExtension as _;

use super::error::SqliteError;
use super::locks::Locks;
use crate::lock::LockPath;
use crate::record::ETag;
use crate::store::document::no_timers;
use crate::store::{
    DocumentPath, DocumentRead, DocumentWritten, List, PlanListing, StoreError, StoredDocument,
};

impl Locks<'_> {
    pub(super) fn read_document(&self, path: &DocumentPath) -> Result<DocumentRead, SqliteError> {
        let path = plan(path)?;
        let document = self
            .prepare("SELECT etag, text FROM plans WHERE container = ? AND name = ?")?
            .query_row([path.container(), path.name()], |row| {
                Ok(StoredDocument { etag: ETag(row.get(0)?), text: row.get(1)? })
            })
            .optional()?;
        Ok(DocumentRead { document, time: self.time() })
    }

    pub(super) fn write_document(
        &self,
        document: &DocumentPath,
        text: &str,
        if_match: Option<&ETag>,
    ) -> Result<DocumentWritten, SqliteError> {
        let path = plan(document)?;
        document.kind().check(text)?;
        let etag = self.new_etag()?;
        let (container, name) = (path.container(), path.name());
        let written = match if_match {
            Some(known) => self
                .prepare(
                    "UPDATE plans SET etag = ?, text = ? WHERE container = ? AND name = ? AND etag = ?",
                )?
                .execute((&etag.0, text, container, name, &known.0))?,
            None if self.read_document(document)?.document.is_some() => 0,
            None => {
                self.check_room()?;
                self.prepare(
                    "INSERT INTO plans (container, name, etag, text) VALUES (?, ?, ?, ?)",
                )?
                .execute((container, name, &etag.0, text))?
            }
        };
        was_there(written)?;
        Ok(DocumentWritten { etag, time: self.time() })
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

/// The lock whose plan it is.
fn plan(document: &DocumentPath) -> Result<&LockPath, SqliteError> {
    match document {
        DocumentPath::Plan(path) => Ok(path),
        DocumentPath::TimerStatus(_) => Err(no_timers().into()),
    }
}

/// Whether the statement met the plan that was meant.
fn was_there(rows: usize) -> Result<(), SqliteError> {
    if rows == 0 { Err(StoreError::Changed.into()) } else { Ok(()) }
}

#[cfg(test)]
#[path = "documents_tests.rs"]
mod tests;
