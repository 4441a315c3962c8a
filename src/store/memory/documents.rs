//! The documents beside the locks: plans of schedules, and the statuses of .NET timers (T22).

use std::ops::Bound;

use super::locks::{MemoryLocks, page, page_begin};
use crate::lock::{LockPath, TimerPath};
use crate::record::ETag;
use crate::store::{
    DocumentPath, DocumentRead, DocumentWritten, List, PlanListing, StoreError, StoreTime,
    StoredDocument,
};

/// The operations on documents of the contract, with its errors.
impl MemoryLocks {
    pub(super) fn read_document(&self, path: &DocumentPath, time: StoreTime) -> DocumentRead {
        let mut document = self.documents.get(path).cloned();
        if let Some(StoredDocument { text, .. }) = &mut document {
            *text = text.chars().take(path.kind().max_bytes() + 1).collect();
        }
        DocumentRead { document, time }
    }

    pub(super) fn write_document(
        &mut self,
        path: DocumentPath,
        text: String,
        if_match: Option<&ETag>,
        time: StoreTime,
    ) -> Result<DocumentWritten, StoreError> {
        path.kind().check(&text)?;
        if if_match.is_none() {
            self.check_container(path.container())?;
        }
        if self.documents.get(&path).map(|document| &document.etag) != if_match {
            return Err(StoreError::Changed);
        }
        Ok(DocumentWritten { etag: self.overwrite(path, text), time })
    }

    pub(super) fn delete_plan(
        &mut self,
        path: LockPath,
        if_match: &ETag,
    ) -> Result<(), StoreError> {
        let path = DocumentPath::Plan(path);
        if self.documents.get(&path).is_none_or(|plan| plan.etag != *if_match) {
            return Err(StoreError::Changed);
        }
        self.documents.remove(&path);
        Ok(())
    }

    pub(super) fn list_plans(&self, request: &List) -> PlanListing {
        let from = page_begin(request).map(DocumentPath::Plan);
        let plans = self.documents.range((from, Bound::Unbounded));
        let plans = plans.map_while(|(path, _)| match path {
            DocumentPath::Plan(path) => Some((path, ())),
            DocumentPath::TimerStatus(_) => None,
        });
        let (plans, continuation) = page(plans, request);
        PlanListing { paths: plans.into_iter().map(|(path, ())| path).collect(), continuation }
    }

    /// Writes the status of a timer as a host of .NET does: over whatever is there.
    pub fn overwrite_timer(&mut self, timer: &TimerPath, text: String) -> ETag {
        self.overwrite(DocumentPath::TimerStatus(timer.clone()), text)
    }

    fn overwrite(&mut self, path: DocumentPath, text: String) -> ETag {
        let etag = self.next_etag();
        self.documents.insert(path, StoredDocument { etag: etag.clone(), text });
        etag
    }
}
