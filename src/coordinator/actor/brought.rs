//! What callers have brought that is written beside their tokens or with their saves: here
//! [`Action::Decide`](crate::hold::Action::Decide) is answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::caller::Caller;
use super::task::Task;
use crate::coordinator::call::{CallError, Decider, Outcome};
use crate::hold::{CallerId, WriteOf};
use crate::lock::{FencingToken, LockPath};
use crate::record::{Found, Verdict};
use crate::schedule::{Claimed, Occurrence, claim_over};

/// Tokens of occurrences that were not granted that are known at the most: the record has one run.
const MOST_UNGRANTED: usize = 16;

/// What a caller brings that is written beside its token.
#[derive(Debug)]
pub(in crate::coordinator) enum Brings {
    /// The occurrence that it names.
    Occurrence(Box<Named>),
    /// Whatever this decides.
    Written(Decider),
}

/// The occurrence that a caller has named, and what has come of that.
#[derive(Debug)]
pub(in crate::coordinator) struct Named {
    path: LockPath,
    pub(super) occurrence: Occurrence,
    claimed: Option<Claimed>,
    /// The tokens that it was to be granted with: where it is decided again, it was not (T6).
    tokens: Vec<FencingToken>,
}

impl Named {
    pub(in crate::coordinator) const fn new(path: LockPath, occurrence: Occurrence) -> Self {
        Self { path, occurrence, claimed: None, tokens: Vec::new() }
    }

    /// One that was granted before, and goes on (S16).
    pub(super) fn resumed(
        path: LockPath,
        occurrence: Occurrence,
        token: FencingToken,
        attempt: u32,
    ) -> Self {
        let claimed = Some(Claimed::Granted { token, attempt });
        Self { claimed, ..Self::new(path, occurrence) }
    }

    /// Which attempt this token was granted for; 0 if it was granted for none.
    pub(super) fn attempt(&self, granted: FencingToken) -> u32 {
        match &self.claimed {
            Some(Claimed::Granted { token, attempt }) if *token == granted => *attempt,
            Some(_) | None => 0,
        }
    }

    /// What is written over the record that was found, beside the caller's token.
    /// `ungranted`: what others were to be granted here, and were not (T6).
    pub(super) fn decide(&mut self, found: &Found, ungranted: &[FencingToken]) -> Verdict {
        let ungranted = [&self.tokens, ungranted].concat();
        let (verdict, claimed) = claim_over(found, self.occurrence, &ungranted);
        if let Claimed::Granted { token, .. } = claimed {
            self.tokens.push(token);
        }
        self.claimed = Some(claimed);
        verdict
    }

    /// What it was to be granted with, which may be written, where it goes ungranted (T6).
    pub(super) fn ungranted(&self) -> Vec<FencingToken> {
        self.tokens.clone()
    }

    /// What a caller is answered that was granted nothing; none if nothing has said so.
    pub(super) fn answer(&self) -> Option<Result<Outcome, CallError>> {
        let path = self.path.clone();
        match self.claimed.clone()? {
            Claimed::AlreadyDone(ended) => Some(Ok(Outcome::AlreadyDone(ended))),
            Claimed::Skipped { watermark } => Some(Ok(Outcome::Skipped { watermark })),
            Claimed::InFuture { now } => {
                Some(Err(CallError::OccurrenceInFuture { at: self.occurrence.at, now }))
            }
            Claimed::HasSchedule => Some(Err(CallError::LockHasSchedule { path })),
            Claimed::Unreadable(error) => {
                Some(Err(CallError::ScheduleUnreadable { path, problem: error.to_string() }))
            }
            Claimed::Granted { .. } => None,
        }
    }
}

/// What callers of one lock have brought.
pub(super) type AllBrought = BTreeMap<CallerId, Brings>;

impl Task {
    /// A caller has come, or come back, perhaps with something to write.
    pub(super) fn enter(&mut self, caller: Box<Caller>, brings: Option<Brings>) -> CallerId {
        let id = caller.id;
        self.callers.insert(id, caller);
        if let Some(brings) = brings {
            self.aside().brought.insert(id, brings);
        }
        id
    }

    /// Takes a caller out whose call or hold is over, with what it has brought and what repeated calls share.
    pub(super) fn take_caller(&mut self, id: CallerId) -> Option<Box<Caller>> {
        let caller = self.callers.remove(&id);
        if let Some(aside) = &mut self.aside {
            let brought = aside.brought.remove(&id);
            aside.grants.remove(id);
            if let Some(Brings::Occurrence(named)) = brought
                && let Some(Caller { granted: None, .. }) = caller.as_deref()
            {
                aside.ungranted.extend(named.ungranted());
                let more = aside.ungranted.len().saturating_sub(MOST_UNGRANTED);
                aside.ungranted.drain(..more);
            }
        }
        caller
    }

    /// As [`Task::take_caller`], of one that goes without a grant: what was written for it is withdrawn (T6).
    pub(super) fn take_ungranted(&mut self, id: CallerId) -> Option<Box<Caller>> {
        let ungranted = self.named(id).map(Named::ungranted).unwrap_or_default();
        let caller = self.take_caller(id)?;
        if caller.granted.is_none() && !ungranted.is_empty() {
            let (path, terms) = (self.path.clone(), Arc::clone(&caller.terms));
            tokio::spawn(Arc::clone(&self.shared).withdraw(path, terms, ungranted));
        }
        Some(caller)
    }

    /// What is written over the record that was found under the lease, as whoever brought it decides.
    pub(super) fn decide(&mut self, of: WriteOf, found: &Found) -> Verdict {
        let aside = self.aside();
        match of {
            WriteOf::Grant(caller) => match aside.brought.get_mut(&caller) {
                Some(Brings::Occurrence(named)) => named.decide(found, &aside.ungranted),
                Some(Brings::Written(decider)) => decider.decide(found),
                None => Verdict::Nothing,
            },
            WriteOf::Save(id) => aside.saves.decide(id, found),
        }
    }

    pub(super) fn named(&self, caller: CallerId) -> Option<&Named> {
        match self.aside.as_ref()?.brought.get(&caller)? {
            Brings::Occurrence(named) => Some(named),
            Brings::Written(_) => None,
        }
    }

    /// What a caller is told that was granted nothing, because what it brought has said so.
    pub(super) fn settled_answer(
        &self,
        caller: CallerId,
        written: bool,
    ) -> Result<Outcome, CallError> {
        let named = self.named(caller).and_then(Named::answer);
        named.unwrap_or(Ok(Outcome::Settled { written }))
    }
}
