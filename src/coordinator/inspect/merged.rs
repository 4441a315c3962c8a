//! A lock's record from what the store has, and what is known here.

use super::local::{LocalView, newest};
use crate::coordinator::{LockRecord, LockState, Shared};
use crate::hold::Handed;
use crate::lock::{FencingToken, LockPath};
use crate::record::{Checkpoint, Fields, Record};
use crate::schedule::ScheduleRecord;
use crate::store::{BreakNote, LeaseState, StoredLock};

impl Shared {
    /// One record from what the store has and what is known here.
    pub(crate) fn merged(
        &self,
        path: &LockPath,
        stored: Option<StoredLock>,
        view: Option<&LocalView>,
        note: Option<BreakNote>,
    ) -> LockRecord {
        let written_at = stored.as_ref().map(|stored| stored.written_at);
        let kept_until = view.and_then(|view| view.here.as_ref()?.kept_until);
        let record = match view.and_then(LocalView::shown) {
            Some(here) => LockRecord { written_at, kept_until: None, ..here.clone() },
            None => LockRecord { kept_until, ..as_stored(path, stored, note) },
        };
        let held = matches!(record.state, LockState::Held | LockState::Breaking);
        LockRecord {
            waiters_here: view.map_or(0, |view| view.waiters),
            waiting_here: view.map(|view| view.waiting.clone()).unwrap_or_default(),
            holder_is_last_recorded: held && self.settings.function_instance && !record.held_here,
            record: newest(record.record, self.handed(path, view).as_ref()),
            ..record
        }
    }

    /// The newest grant by a hand-off here (S10).
    pub(crate) fn handed(&self, path: &LockPath, view: Option<&LocalView>) -> Option<Handed> {
        let handed = view.and_then(|view| view.handed.clone());
        handed.or_else(|| self.registry().lock_cache.handed(path))
    }
}

/// A lock of which nothing is known here.
fn as_stored(path: &LockPath, stored: Option<StoredLock>, note: Option<BreakNote>) -> LockRecord {
    let fields = stored.as_ref().map(|stored| &stored.fields);
    let record = fields.map(Record::from_fields).unwrap_or_default();
    let state = stored.as_ref().map_or(LockState::Available, |stored| match stored.lease {
        LeaseState::Leased => LockState::Held,
        LeaseState::Breaking => LockState::Breaking,
        LeaseState::Available | LeaseState::Broken | LeaseState::Expired => {
            let rests = record.resting_until.is_some_and(|until| until > stored.time);
            if rests { LockState::Resting } else { LockState::Available }
        }
    });
    // A note about an earlier grant says nothing about this one.
    let break_note = note.filter(|note| {
        note.token.map(FencingToken::epoch) == record.token.map(FencingToken::epoch)
    });
    LockRecord {
        path: path.clone(),
        state,
        record,
        written_at: stored.as_ref().map(|stored| stored.written_at),
        waiters_here: 0,
        waiting_here: Vec::new(),
        held_here: false,
        break_note,
        kept_until: None,
        holder_is_last_recorded: false,
        lease: None,
        checkpoint: fields.and_then(Checkpoint::from_fields),
        // What cannot be read is said where schedules are asked for.
        schedule: fields.and_then(scheduled),
    }
}

/// What runs have decided, if the record says so and it can be read.
pub(crate) fn scheduled(fields: &Fields) -> Option<Box<ScheduleRecord>> {
    ScheduleRecord::from_fields(fields).ok().flatten().map(Box::new)
}
