//! One lock of the store, after the table of the contract of stores (`store/mod.rs`): strict, and nothing
//! more than tests need.

use std::time::Duration;

use crate::hold::{
    Action, Answer, Event, Failure, LeaseGranted, Look, NoteSeen, Request, Rival, Stored,
};
use crate::lock::LeaseId;
use crate::record::{ETag, Fields};
use crate::time::UnixMillis;

/// The store's clock begins here.
const EPOCH_SECONDS: u64 = 1_700_000_000;

#[derive(Debug, Default)]
pub(super) struct Table {
    version: u64,
    fields: Fields,
    lease: Option<Lease>,
    note: Option<NoteSeen>,
}

#[derive(Debug)]
struct Lease {
    id: LeaseId,
    duration: Duration,
    until: Duration,
    /// Broken at once: it is over.
    broken: bool,
    /// Broken, and running out.
    breaking: bool,
}

impl Table {
    pub(super) fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Who has the lock at `now`.
    pub(super) fn leased(&self, now: Duration) -> Option<LeaseId> {
        self.lease.as_ref().filter(|lease| !lease.broken && now < lease.until).map(|lease| lease.id)
    }

    /// S17, with period 0.
    pub(super) fn break_now(&mut self) {
        if let Some(lease) = &mut self.lease {
            lease.broken = true;
        }
    }

    /// S17, without a period: by Leasehold with a note, or by somebody else's tool without one.
    pub(super) fn break_softly(&mut self, note: Option<NoteSeen>) {
        self.note = note.or(self.note);
        if let Some(lease) = &mut self.lease {
            lease.breaking = true;
        }
    }

    /// The note of a break that was not done: its request was lost.
    pub(super) const fn note_break(&mut self, note: NoteSeen) {
        self.note = Some(note);
    }

    /// S33, S35: for a waiting caller.
    fn break_for(&mut self, if_match: &ETag, rival: &Rival, now: Duration) -> Result<(), Failure> {
        if self.leased(now).is_none() {
            return Err(Failure::Taken);
        }
        if *if_match != self.etag() {
            return Err(Failure::Changed);
        }
        self.break_softly(Some(note_for(rival)));
        Ok(())
    }

    /// Somebody writes a field that is not ours.
    pub(super) fn touch(&mut self) {
        let value = self.version.to_string();
        self.set("other", &value);
    }

    /// Somebody sets a field.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.version += 1;
        self.fields.insert(name.to_owned(), value.to_owned());
    }

    pub(super) fn time(now: Duration) -> UnixMillis {
        UnixMillis((EPOCH_SECONDS + now.as_secs()) * 1_000)
    }

    /// Does what `action` asks, and answers as the driver would; none if it is not for the store.
    pub(super) fn apply(&mut self, action: &Action, now: Duration) -> Option<Event> {
        Some(match action {
            Action::Store {
                request,
                what: Request::Acquire { lease_id, duration, if_match, read, .. },
                ..
            } => {
                let answer = self.acquire(*lease_id, *duration, if_match.as_ref(), now);
                let read = read.then(|| Ok(self.read(now)));
                Event::Answer { request: *request, answer: Answer::Acquire { lease: answer, read } }
            }
            Action::Store { request, what: Request::Read, .. } => {
                Event::Answer { request: *request, answer: Answer::Read(Ok(self.read(now))) }
            }
            Action::Store { request, what: Request::Look { note, .. }, .. } => {
                let breaking = self.leased(now).is_some()
                    && self.lease.as_ref().is_some_and(|lease| lease.breaking);
                let note = self.note.filter(|_| *note);
                let look = Look { stored: self.read(now), breaking, note };
                Event::Answer { request: *request, answer: Answer::Look(Ok(look)) }
            }
            Action::Store {
                request,
                what: Request::Write { lease_id, if_match, fields, .. },
                ..
            } => {
                let answer = self.write(*lease_id, if_match, fields, now);
                Event::Answer { request: *request, answer: Answer::Write(answer) }
            }
            Action::Store { request, what: Request::Renew { lease_id, if_match, .. }, .. } => {
                let answer =
                    self.renew(*lease_id, if_match.as_ref(), now).map(|()| Self::time(now));
                Event::Answer { request: *request, answer: Answer::Renew(answer) }
            }
            Action::Store { request, what: Request::Break { if_match, rival, .. }, .. } => {
                let answer = self.break_for(if_match, rival, now);
                Event::Answer { request: *request, answer: Answer::Break(answer) }
            }
            Action::Store {
                request, what: Request::Release { lease_id, if_match, .. }, ..
            } => {
                let answer = self.release(*lease_id, if_match.as_ref());
                Event::Answer { request: *request, answer: Answer::Release(answer) }
            }
            _ => return None,
        })
    }

    fn etag(&self) -> ETag {
        ETag(format!("\"{}\"", self.version).into())
    }

    fn read(&self, now: Duration) -> Stored {
        let free = self.leased(now).is_none();
        Stored { etag: self.etag(), fields: self.fields.clone(), free, time: Self::time(now) }
    }

    fn acquire(
        &mut self,
        id: LeaseId,
        duration: Duration,
        if_match: Option<&ETag>,
        now: Duration,
    ) -> Result<LeaseGranted, Failure> {
        let breaking = self.lease.as_ref().is_some_and(|lease| lease.breaking);
        if self.leased(now).is_some_and(|leased| leased != id || breaking) {
            return Err(Failure::Contended);
        }
        if if_match.is_some_and(|etag| *etag != self.etag()) {
            return Err(Failure::Changed);
        }
        let created = self.version == 0;
        self.version = self.version.max(1);
        self.lease =
            Some(Lease { id, duration, until: now + duration, broken: false, breaking: false });
        Ok(LeaseGranted { etag: self.etag(), time: Self::time(now), created })
    }

    fn renew(
        &mut self,
        id: LeaseId,
        if_match: Option<&ETag>,
        now: Duration,
    ) -> Result<(), Failure> {
        let changed = if_match.is_some_and(|etag| *etag != self.etag());
        match &mut self.lease {
            Some(lease) if lease.id == id && (lease.breaking || lease.broken) => {
                Err(Failure::Broken)
            }
            Some(lease) if lease.id == id && !lease.broken && changed => Err(Failure::Changed),
            Some(lease) if lease.id == id && !lease.broken => {
                lease.until = now + lease.duration;
                Ok(())
            }
            Some(_) | None => Err(Failure::Taken),
        }
    }

    fn release(&mut self, id: LeaseId, if_match: Option<&ETag>) -> Result<(), Failure> {
        if self.lease.as_ref().is_none_or(|lease| lease.id != id) {
            return Err(Failure::Taken);
        }
        if if_match.is_some_and(|etag| *etag != self.etag()) {
            return Err(Failure::Changed);
        }
        self.lease = None;
        Ok(())
    }

    fn write(
        &mut self,
        id: LeaseId,
        if_match: &ETag,
        fields: &Fields,
        now: Duration,
    ) -> Result<ETag, Failure> {
        if self.leased(now) != Some(id) {
            return Err(Failure::Taken);
        }
        if *if_match != self.etag() {
            return Err(Failure::Changed);
        }
        self.version += 1;
        self.fields = fields.clone();
        Ok(self.etag())
    }
}

/// The note that is left for `rival`.
pub(super) const fn note_for(rival: &Rival) -> NoteSeen {
    let for_priority = Some((rival.priority, rival.at));
    NoteSeen { token: rival.token, runs_out: true, for_priority }
}

/// The answer to `action` that it failed; none if it is not for the store.
pub(super) fn failed(action: &Action, failure: Failure) -> Option<Event> {
    Some(match action {
        Action::Store { request, what: Request::Acquire { .. }, .. } => Event::Answer {
            request: *request,
            answer: Answer::Acquire { lease: Err(failure), read: None },
        },
        Action::Store { request, what: Request::Read, .. } => {
            Event::Answer { request: *request, answer: Answer::Read(Err(failure)) }
        }
        Action::Store { request, what: Request::Look { .. }, .. } => {
            Event::Answer { request: *request, answer: Answer::Look(Err(failure)) }
        }
        Action::Store { request, what: Request::Write { .. }, .. } => {
            Event::Answer { request: *request, answer: Answer::Write(Err(failure)) }
        }
        Action::Store { request, what: Request::Renew { .. }, .. } => {
            Event::Answer { request: *request, answer: Answer::Renew(Err(failure)) }
        }
        Action::Store { request, what: Request::Break { .. }, .. } => {
            Event::Answer { request: *request, answer: Answer::Break(Err(failure)) }
        }
        Action::Store { request, what: Request::Release { .. }, .. } => {
            Event::Answer { request: *request, answer: Answer::Release(Err(failure)) }
        }
        _ => return None,
    })
}
