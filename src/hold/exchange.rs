//! What is asked of the store, and how it is known what became of that: a request under way or to be sent
//! (S7), a write of the record, and whose the record is where it may have been written since (S5, S16).

use std::cmp::Ordering;
use std::time::Duration;

use super::Hold;
use super::action::{Output, Request};
use super::event::RequestId;
use super::memory::Known;
use super::renewal::cut_off;
use crate::lock::{FencingToken, LeaseId};
use crate::record::{ETag, Fields, Record};
use crate::time::Instant;

/// A request under way, or one to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Exchange {
    /// It was sent, and is given up then.
    Sent { request: RequestId, until: Instant },
    /// It is looked at then: sent, for the first time or once more, unless there is nothing to send.
    Waiting { at: Instant },
}

impl Exchange {
    /// The request that is under way.
    pub(super) const fn request(&self) -> Option<RequestId> {
        match self {
            Self::Sent { request, .. } => Some(*request),
            Self::Waiting { .. } => None,
        }
    }

    /// Whether `request` is the one that is under way.
    pub(super) fn is(&self, request: RequestId) -> bool {
        self.request() == Some(request)
    }

    pub(super) const fn is_sent(&self) -> bool {
        matches!(self, Self::Sent { .. })
    }

    pub(super) const fn at(&self) -> Instant {
        match self {
            Self::Sent { until, .. } => *until,
            Self::Waiting { at } => *at,
        }
    }

    /// When the last of its tries was given up, or will be.
    pub(super) const fn given_up(&self, now: Instant) -> Instant {
        match self {
            Self::Sent { until, .. } => *until,
            Self::Waiting { .. } => now,
        }
    }

    /// Whether it is to be given up now, or to be sent.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.at()
    }
}

impl Hold {
    /// Asks the store, and waits as long as requests about a lease of this duration are waited for.
    pub(super) fn send(
        &mut self,
        what: Request,
        lease_duration: Duration,
        output: &mut Output,
    ) -> Exchange {
        let (request, timeout) = (self.next_request(), cut_off(lease_duration));
        output.ask(request, what, timeout);
        Exchange::Sent { request, until: output.now + timeout }
    }
}

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

/// The owner of a record that was found, seen from a hold here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordOwner {
    /// This hold: it was written for it, or is yet of the grant from which that was handed on (S10).
    ThisHold,
    /// This hold, which went on from here, by another stream or at another sidecar (S16).
    MovedOn,
    /// Another hold, or none: the lock was granted since, its token is gone (S5), or the former holder has
    /// resumed the grant from which this hold was handed on (S16).
    Another,
}

/// The owner of `record`, for the hold of this generation under `lease_id`.
pub(super) fn owner(
    record: &Record,
    lease_id: LeaseId,
    token: FencingToken,
    generation: u64,
) -> RecordOwner {
    let stored = record.token.filter(|_| record.lease == Some(lease_id.fingerprint()));
    let Some(stored) = stored.filter(|stored| stored.epoch() == token.epoch()) else {
        return RecordOwner::Another;
    };
    match record.generation.cmp(&generation) {
        Ordering::Equal => RecordOwner::ThisHold,
        Ordering::Greater if stored >= token => RecordOwner::MovedOn,
        Ordering::Greater | Ordering::Less => RecordOwner::Another,
    }
}

impl Hold {
    /// The store has done this write, by this request.
    pub(super) fn record_stored(
        &mut self,
        write: &RecordWrite,
        etag: &ETag,
        request: RequestId,
        now: Instant,
    ) {
        self.memory.known = Some(Known::new(etag, &write.fields));
        self.record_written(request, now);
    }
}
