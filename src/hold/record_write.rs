//! A write of a lock's record; and whose the record is that is found where it may have been written since.
//! That is decided here for saves, renewals, releases and looks (S5, S13, S16, S27); for a client that comes
//! back by [`super::Resume`], and under a lease without a hold by the token that was written.

use std::cmp::Ordering;

use super::action::{Output, Request};
use super::event::RequestId;
use super::{Hold, Known};
use crate::lock::{ETag, FencingToken, Fields, LeaseId, Record};

/// What is written over which version of the record.
#[derive(Clone, Debug)]
pub(super) struct RecordWrite {
    pub(super) if_match: ETag,
    pub(super) fields: Fields,
}

impl RecordWrite {
    /// The request, under this lease.
    pub(super) fn request(&self, lease_id: LeaseId) -> Request {
        let Self { if_match, fields } = self.clone();
        Request::Write { lease_id, if_match, fields }
    }
}

/// Whose a record is, seen from a hold here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// This hold's: it was written for it, or is yet of the grant from which that was handed on (S10).
    Ours,
    /// This hold's, which went on from here, by another stream or at another sidecar (S16).
    MovedOn,
    /// Not this hold's: another has had the lock since, or its token is gone (S5).
    Others,
}

/// Whose the record is, for the hold of this generation under `lease_id`. It may yet be of the grant before,
/// from which the lock was handed on (S10); but where the former holder has resumed from that one, this hold
/// is lost (S16).
pub(super) fn whose(
    record: &Record,
    lease_id: LeaseId,
    token: FencingToken,
    generation: u64,
) -> Whose {
    let stored = record.token.filter(|_| record.lease == Some(lease_id.fingerprint()));
    let Some(stored) = stored.filter(|stored| stored.epoch() == token.epoch()) else {
        return Whose::Others;
    };
    match record.generation.cmp(&generation) {
        Ordering::Equal => Whose::Ours,
        Ordering::Greater if stored >= token => Whose::MovedOn,
        Ordering::Greater | Ordering::Less => Whose::Others,
    }
}

impl Hold {
    /// The store has done this write, by this request.
    pub(super) fn record_stored(
        &mut self,
        write: &RecordWrite,
        etag: &ETag,
        request: RequestId,
        output: &Output,
    ) {
        self.memory.known = Some(Known::new(etag, &write.fields));
        self.record_written(request, output.now);
    }
}
