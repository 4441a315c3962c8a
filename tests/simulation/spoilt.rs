//! What planted bugs make of the store's answers, of notices and of checkpoints (`planted.rs`).

use std::time::Duration;

use leasehold::hold::{
    Action, Answer, Event, Failure, Hold, HolderCall, Look, NoteSeen, Notice, Request, RequestId,
    SaveId, SaveOutcome, StoreFailure, Stored, WriteOf,
};
use leasehold::lock::{FencingToken, LeaseId};
use leasehold::record::{Checkpoint, ETag, Fields, Record, Verdict};

use crate::simulation::ledger::checkpoint_of;
use crate::simulation::planted::Bug;
use crate::simulation::storage::GARBAGE;

/// What bugs about notices and checkpoints remember.
#[derive(Debug, Default)]
pub(crate) struct Spoilt {
    /// The token of the latest grant, and the checkpoint that it carried.
    token: Option<FencingToken>,
    granted: Option<Checkpoint>,
    /// The checkpoint as it was known when the lock was asked for.
    before: Option<Option<Checkpoint>>,
    /// The record that the latest look showed.
    looked: Option<Stored>,
    /// The request of the latest save.
    save: Option<RequestId>,
    /// What the latest failure of a save was.
    failure: Option<StoreFailure>,
    newest: Option<SaveId>,
    /// The token that a client resumes with.
    resumes: Option<FencingToken>,
    /// The fields of the record over which something was to be decided: first, and last.
    decided_over: Option<(Fields, Fields)>,
}

impl Spoilt {
    /// What the bug makes of an event.
    pub(crate) fn before(&mut self, bug: Bug, mut event: Event) -> Event {
        match (bug, &mut event) {
            (_, Event::Call { call: HolderCall::Save(save), .. }) => self.newest = Some(save.id),
            (_, Event::ResumeAsked { resume, .. }) => self.resumes = Some(resume.token),
            (_, Event::Decided { of, verdict }) => self.misjudge(bug, *of, verdict),
            (Bug::ResumesByEpoch, Event::Answer { answer: Answer::Read(Ok(stored)), .. }) => {
                let epoch = Record::from_fields(&stored.fields).token.map(FencingToken::epoch);
                if let Some(token) = self.resumes.filter(|token| Some(token.epoch()) == epoch) {
                    stored.fields.insert("leasehold_token".to_owned(), token.to_string());
                }
            }
            (
                Bug::UnknownSaveHandedOn,
                Event::Answer { request, answer: Answer::Write(answer) },
            ) if self.is_save(*request) => {
                if let Err(Failure::Unknown(failure)) = answer {
                    self.failure = Some(failure.clone());
                    *answer = Err(Failure::Refused(failure.clone()));
                }
            }
            (
                Bug::UnknownSaveIsStored,
                Event::Answer { request, answer: Answer::Write(answer) },
            ) if self.is_save(*request) => {
                if matches!(answer, Err(Failure::Unknown(_))) {
                    *answer = Ok(ETag("".into()));
                }
            }
            (_, Event::Answer { answer: Answer::Look(Ok(look)), .. }) => {
                self.misread_look(bug, look)
            }
            _ => {}
        }
        event
    }

    /// What the bug makes of a verdict.
    fn misjudge(&self, bug: Bug, of: WriteOf, verdict: &mut Verdict) {
        let Some((_, fields)) = self.decided_over.clone() else { return };
        match (bug, of, &verdict) {
            (Bug::TurnedAwayIsGranted, WriteOf::Grant(_), Verdict::Nothing) => {
                *verdict = Verdict::Grant { fields, max_hold: None };
            }
            (Bug::OutcomeNotWritten, WriteOf::Save(_), Verdict::Write { .. }) => {
                *verdict = Verdict::Write { fields };
            }
            _ => {}
        }
    }

    fn is_save(&self, request: RequestId) -> bool {
        self.save == Some(request)
    }

    fn misread_look(&mut self, bug: Bug, look: &mut Look) {
        self.looked = Some(look.stored.clone());
        let token = self.token;
        match (bug, &mut look.note) {
            (Bug::NoticeWithoutNote, none @ None) => {
                *none = Some(NoteSeen { token, runs_out: true, for_priority: None });
            }
            (Bug::OldNoteBelieved, Some(note)) => note.token = token,
            _ => {}
        }
    }

    /// What the bug makes of an action: changed, or answered by an event without being done.
    pub(crate) fn behind(&mut self, bug: Bug, action: &mut Action, hold: &Hold) -> Option<Event> {
        match (bug, action) {
            (_, Action::Decide { found, .. }) => {
                let first = self.decided_over.take().map(|(first, _)| first);
                let first = first.unwrap_or_else(|| found.fields.clone());
                self.decided_over = Some((first.clone(), found.fields.clone()));
                if bug == Bug::DecidedOverOldRecord {
                    found.fields = first;
                }
            }
            (
                Bug::HandOffNotRecorded,
                Action::Store { request, what: Request::Write { if_match, .. }, .. },
            ) if hold.holding().is_some_and(|holding| holding.token.hand_offs() > 0) => {
                return Some(Event::Answer {
                    request: *request,
                    answer: Answer::Write(Ok(if_match.clone())),
                });
            }
            (_, Action::Store { request, what: Request::Write { fields, .. }, .. })
                if hold.holding().is_some() =>
            {
                checkpoint_of(fields)?;
                self.save = Some(*request);
            }
            (
                Bug::NoticeUnwatched,
                Action::Store { request, what: Request::Look { note: false, .. }, .. },
            ) => {
                let look = Look { stored: self.looked.clone()?, breaking: true, note: None };
                return Some(Event::Answer { request: *request, answer: Answer::Look(Ok(look)) });
            }
            (Bug::CheckpointBeforeAcquire, Action::Store { what: Request::Acquire { .. }, .. }) => {
                let known = hold.known().map(|known| checkpoint_of(&known.fields()));
                self.before = known.or_else(|| self.before.take());
            }
            (_, Action::Tell { notice: Notice::Granted(grant), .. }) => {
                self.token = Some(grant.token);
                self.resumes = None;
                let is_handed_on = grant.token.hand_offs() > 0 && !grant.resumed;
                let granted = grant.checkpoint.clone();
                if bug == Bug::StaleHandOff && is_handed_on {
                    grant.checkpoint = self.granted.clone();
                } else if bug == Bug::CheckpointBeforeAcquire
                    && grant.token.hand_offs() == 0
                    && let Some(before) = &self.before
                {
                    grant.checkpoint = before.clone();
                }
                self.granted = granted;
            }
            (Bug::ForgetsReplacedSave, Action::Saved { id, .. }) if Some(*id) < self.newest => {
                return Some(Event::TimePassed);
            }
            (Bug::UnknownSaveHandedOn, Action::Saved { outcome, .. }) => {
                let failure = self.failure.clone().map(SaveOutcome::NotSaved);
                if Some(&*outcome) == failure.as_ref() {
                    *outcome = SaveOutcome::Unknown;
                }
            }
            _ => {}
        }
        None
    }
}

/// What a bug sends that the machine did not ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Beside {
    Release,
    Renewal,
}

impl Beside {
    /// Beside `action`, after which the machine is in `state`.
    pub(crate) fn of(bug: Bug, action: &Action, state: &str) -> Option<Self> {
        match (bug, action) {
            (Bug::HandOverReleases, Action::Tell { notice: Notice::Interrupted, .. }) => {
                Some(Self::Release)
            }
            (Bug::ReleaseBeforeSave, Action::Store { what: Request::Write { .. }, .. })
                if state == "saving" =>
            {
                Some(Self::Release)
            }
            (
                Bug::RenewsAfterNotice,
                Action::Store { what: Request::Look { note: false, .. }, .. },
            ) => Some(Self::Renewal),
            _ => None,
        }
    }

    pub(crate) fn action(self, request: RequestId, lease_id: LeaseId) -> Action {
        let (if_match, timeout) = (None, Duration::from_secs(1));
        match self {
            Self::Release => {
                Action::Store { request, what: Request::Release { lease_id, if_match }, timeout }
            }
            Self::Renewal => {
                Action::Store { request, what: Request::Renew { lease_id, if_match }, timeout }
            }
        }
    }
}

/// What the bug makes of an answer of the store.
pub(crate) fn misread(bug: Bug, event: Event) -> Event {
    match (bug, event) {
        (
            Bug::UnreadableIsNone,
            Event::Answer {
                request,
                answer: Answer::Acquire { lease: answer, read: Some(Ok(read)) },
            },
        ) => Event::Answer {
            request,
            answer: Answer::Acquire { lease: answer, read: Some(Ok(without_garbage(read))) },
        },
        (Bug::UnreadableIsNone, Event::Answer { request, answer: Answer::Read(Ok(read)) }) => {
            Event::Answer { request, answer: Answer::Read(Ok(without_garbage(read))) }
        }
        (
            Bug::EpochInSeconds,
            Event::Answer { request, answer: Answer::Acquire { lease: Ok(mut granted), read } },
        ) => {
            granted.time.0 = EPOCHS_BEGIN + (granted.time.0 - EPOCHS_BEGIN) / 1_000;
            Event::Answer { request, answer: Answer::Acquire { lease: Ok(granted), read } }
        }
        (
            Bug::UnknownIsStored,
            Event::Answer { request, answer: Answer::Write(Err(Failure::Unknown(_))) },
        ) => Event::Answer { request, answer: Answer::Write(Ok(ETag("".into()))) },
        (
            Bug::RefusalIsLoss,
            Event::Answer { request, answer: Answer::Renew(Err(Failure::Refused(_))) },
        ) => Event::Answer { request, answer: Answer::Renew(Err(Failure::Taken)) },
        (
            Bug::TakenIsReleased,
            Event::Answer {
                request,
                answer: Answer::Release(Err(Failure::Taken | Failure::Broken | Failure::Deleted)),
            },
        ) => Event::Answer { request, answer: Answer::Release(Ok(())) },
        (_, event) => event,
    }
}

/// 2020-01-01 UTC.
const EPOCHS_BEGIN: u64 = 1_577_836_800_000;

fn without_garbage(mut stored: Stored) -> Stored {
    stored.fields.retain(|_, value| value != GARBAGE);
    stored
}
