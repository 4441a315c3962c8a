//! What a client brings to go on with its hold, and whether it still stands (S11, S16).

use std::sync::Arc;

use super::Hold;
use super::action::Notice;
use super::event::{CallerId, Resume, Terms};
use super::output::Output;
use super::releasing::{Released, Releasing};
use super::resuming::Resuming;
use super::validity::valid_until;
use crate::lock::{Fields, LeaseId, Record};
use crate::time::Instant;

/// The record with the next generation of its hold (S16); of its grant, if it was of the one before (S10).
pub(super) fn next_generation(fields: Fields, resume: &Resume, write: String) -> Fields {
    let mut record = Record::from_fields(&fields);
    if record.token != Some(resume.token) {
        let ours = &resume.terms.record;
        record.token = Some(resume.token);
        record.acquired_at = Some(resume.acquired_at);
        record.holder.clone_from(&ours.holder);
        record.host_type.clone_from(&ours.host_type);
        record.labels.clone_from(&ours.labels);
    }
    let generation = record.generation.max(1) + 1;
    // The hold is had here from now on (S34).
    let sidecar = Arc::clone(&resume.terms.record.sidecar);
    let attempt = resume.attempt.clone();
    Record { generation, attempt, write, sidecar, ..record }.into_fields(fields)
}

impl Hold {
    /// S16: the hold whose lease goes back from here went on elsewhere, and comes here again. Its release
    /// went by a version that has been written over.
    pub(super) fn leave_behind(&mut self, releasing: &Releasing, output: &mut Output) {
        self.memory.known = None;
        if let Some(caller) = releasing.hold.as_ref().and_then(|hold| hold.caller) {
            output.tell(caller, Notice::Moved);
        }
    }

    /// The client released with the generation that it had before this resume: the resume may have been done
    /// by now, or a repeat of it elsewhere, so the lease is left to run out (S16).
    pub(super) fn give_up_resume(&mut self, resuming: &Resuming, output: &mut Output) {
        let lease_duration = resuming.resume.terms.lease_duration;
        let released = Released {
            caller: Some(resuming.caller),
            if_match: None,
            token: resuming.resume.token,
            generation: resuming.resume.generation,
            resting_until: None,
            proven_until: output.now,
        };
        let given_up = resuming.flight.given_up(output.now);
        let unused = Releasing::unused(resuming.lease_id(), lease_duration, given_up);
        self.release(Releasing { hold: Some(released), ..unused }.running_out(), output);
    }
}

impl Resuming {
    /// Whether `caller` is the one that resumes.
    pub(super) fn is_of(&self, caller: CallerId) -> bool {
        self.caller == caller
    }

    pub(super) const fn lease_id(&self) -> LeaseId {
        self.resume.lease_id
    }

    pub(super) fn valid_until(&self, renewed: Instant) -> Instant {
        self.bounds.limit(valid_until(renewed, self.resume.terms.lease_duration))
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        self.flight.at().min(self.resume.believed_until)
    }
}

impl Releasing {
    /// Whether `resume` is of a later generation of the hold whose lease goes back.
    pub(super) fn is_left_by(&self, resume: &Resume) -> bool {
        self.lease_id == resume.lease_id
            && self.hold.as_ref().is_some_and(|hold| resume.generation > hold.generation)
    }
}

impl Resume {
    /// Whether the record is still that of the client's hold (S16); why not. The hold may have been handed on
    /// to the client just before, so that the record is yet of the grant that ended then (S10).
    pub(super) fn check(&self, record: &Record) -> Result<(), &'static str> {
        let stored = record.token.filter(|_| record.lease == Some(self.lease_id.fingerprint()));
        if !stored.is_some_and(|token| token.epoch() == self.token.epoch() && token <= self.token) {
            return Err("the lock has been granted to another since");
        }
        let repeated = !self.attempt.is_empty() && record.attempt == self.attempt;
        if record.generation.max(1) != self.generation && !repeated {
            return Err("the hold went on from another of its grants: this one is old");
        }
        Ok(())
    }

    /// Fills in what the client did not bring and the record of its grant has, as it was just written.
    pub(super) fn remember(&mut self, stored: Record) {
        let Record { permits, sharing, labels, .. } = stored;
        let mut terms = Terms::clone(&self.terms);
        terms.record = Record { permits, sharing, labels, ..terms.record };
        self.terms = Arc::new(terms);
    }
}
