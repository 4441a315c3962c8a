//! A lock's record from what the store has, and what is known here.

use super::local::LocalView;
use crate::coordinator::api::request::{LockRecord, LockState};
use crate::lock::{FencingToken, LockPath};
use crate::record::{Checkpoint, Fields, Record};
use crate::schedule::ScheduleRecord;
use crate::store::{BreakNote, LeaseState, StoredLock};

/// One record from what the store has and what is known here.
pub(in crate::coordinator) fn merged(
    path: &LockPath,
    stored: Option<StoredLock>,
    view: Option<&LocalView>,
    note: Option<BreakNote>,
) -> LockRecord {
    let waiters_here = view.map_or(0, |view| view.waiters);
    let waiting_here = view.map(|view| view.waiting.clone()).unwrap_or_default();
    let here = view.filter(|view| view.active || view.resting);
    let written_at = stored.as_ref().map(|stored| stored.written_at);
    if let Some(view) = here
        && let Some(record) = &view.record
    {
        return LockRecord {
            path: path.clone(),
            state: match (view.resting, &view.revoked) {
                (true, _) => LockState::Resting,
                (false, Some(_)) => LockState::Breaking,
                (false, None) => LockState::Held,
            },
            record: record.clone(),
            written_at,
            waiters_here,
            waiting_here,
            held_here: view.active,
            break_note: view.revoked.clone().flatten(),
            kept_until: None,
            holder_is_last_recorded: false,
            lease: view.lease,
            checkpoint: view.checkpoint.clone(),
            schedule: view.schedule.clone(),
        };
    }
    let record = stored.as_ref().map(|stored| Record::from_fields(&stored.fields));
    let checkpoint = stored.as_ref().and_then(|stored| Checkpoint::from_fields(&stored.fields));
    // What cannot be read is said where schedules are asked for.
    let schedule = stored.as_ref().and_then(|stored| scheduled(&stored.fields));
    let state = stored.as_ref().map_or(LockState::Available, |stored| {
        let resting = record
            .as_ref()
            .and_then(|record| record.resting_until)
            .is_some_and(|until| until > stored.time);
        match stored.lease {
            LeaseState::Leased => LockState::Held,
            LeaseState::Breaking => LockState::Breaking,
            LeaseState::Available | LeaseState::Broken | LeaseState::Expired if resting => {
                LockState::Resting
            }
            LeaseState::Available | LeaseState::Broken | LeaseState::Expired => {
                LockState::Available
            }
        }
    });
    let record = record.unwrap_or_default();
    // A note about an earlier grant says nothing about this one.
    let break_note = note.filter(|note| {
        note.token.map(FencingToken::epoch) == record.token.map(FencingToken::epoch)
    });
    LockRecord {
        path: path.clone(),
        state,
        record,
        written_at,
        waiters_here,
        waiting_here,
        held_here: false,
        break_note,
        kept_until: view.and_then(|view| view.kept_until),
        holder_is_last_recorded: false,
        lease: None,
        checkpoint,
        schedule,
    }
}

/// What runs have decided, if the record says so and it can be read.
pub(in crate::coordinator) fn scheduled(fields: &Fields) -> Option<Box<ScheduleRecord>> {
    ScheduleRecord::from_fields(fields).ok().flatten().map(Box::new)
}
