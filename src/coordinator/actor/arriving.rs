//! How a caller comes to its lock's task, what it brings that writes something of its own, and how something
//! is written that is nobody's to hold (T6). Here [`Action::Decide`](crate::hold::Action::Decide) is
//! answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::caller::{Caller, HoldStream, Presence, Sink};
use super::shared::Shared;
use super::task::{Command, Task, deliver};
use crate::coordinator::call::{CallError, Decider, HoldEvent, Outcome};
use crate::coordinator::observe::{AcquireResult, LockEvent, LockEventKind};
use crate::coordinator::waiting::WaitKind;
use crate::hold::{CallerId, StoreFailureKind, Stored, Terms, WriteOf};
use crate::lock::{FencingToken, HostId, LeaseId, LockPath, Permit};
use crate::record::{Found, Record, Verdict};
use crate::schedule::{Claimed, Occurrence, claim_over, withdraw_over};

/// What a try to write something under a lock's lease has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settling {
    /// It is written.
    Written,
    /// Under the lease there was nothing to write.
    TurnedAway,
    /// Somebody else has the lock.
    Busy,
}

/// What a caller brings that writes something of its own.
#[derive(Debug)]
pub(crate) struct Brought {
    /// Decides what is written.
    pub(crate) decider: Decider,
    /// The lock as the caller read it just before.
    pub(crate) seen: Option<Box<Stored>>,
}

impl Shared {
    pub(in crate::coordinator) fn caller(
        &self,
        lease_id: LeaseId,
        host_id: HostId,
        terms: Arc<Terms>,
        sink: Sink,
    ) -> Caller {
        Caller {
            id: CallerId(self.callers.fetch_add(1, Ordering::Relaxed)),
            lease_id,
            host_id,
            is_run: false,
            terms,
            permit: Permit::FIRST,
            sink,
            arrived: self.clock.now(),
            granted: None,
            max_hold_ends: None,
            told: None,
            token: None,
            wait: None,
            trace: None,
        }
    }

    /// One try for the lock at this path, as `record` says who asks, for something that is written and
    /// nobody's to hold; until it is over.
    pub(in crate::coordinator) async fn settle_at(
        self: &Arc<Self>,
        path: &LockPath,
        record: Record,
        lease_duration: Duration,
        brought: Brought,
    ) -> Result<Settling, CallError> {
        let terms = Terms {
            resumable: true,
            record,
            decides: true,
            seen: brought.seen,
            ..Terms::plain(lease_duration, Duration::ZERO)
        };
        let mut hold = HoldStream::of(|sink| {
            let (lease_id, host_id) = (self.entropy.lease_id(), self.settings.host.host_id.clone());
            let caller = self.caller(lease_id, host_id, Arc::new(terms), sink);
            let brings = Brings::Written(brought.decider);
            self.come(path, WaitKind::Write, Caller { is_run: true, ..caller }, |caller| {
                Command::Arrive(caller, Some(brings))
            })
        })?;
        while let Some(event) = hold.next().await {
            if let HoldEvent::Settled { written } = event {
                return Ok(if written { Settling::Written } else { Settling::TurnedAway });
            }
            if let HoldEvent::Failed(error) = event {
                return Err(error);
            }
        }
        Ok(Settling::Busy)
    }

    /// T6: what may be written for a caller of these terms, which was then not granted, ends as returned:
    /// under the same lease, if that has not gone back yet. One try: somebody else may have gone on.
    async fn withdraw(
        self: Arc<Self>,
        path: LockPath,
        terms: Arc<Terms>,
        ungranted: Vec<FencingToken>,
    ) {
        let (decider, _) = Decider::new(move |found| (withdraw_over(found, &ungranted), ()));
        let brought = Brought { decider, seen: None };
        let (record, lease_duration) = (terms.record.clone(), terms.lease_duration);
        // Where it cannot be written, the next caller takes it for an attempt.
        let _ = self.settle_at(&path, record, lease_duration, brought).await;
    }

    /// Lets a new caller in, within the limits, and sends it to its path's task.
    pub(in crate::coordinator) fn come(
        self: &Arc<Self>,
        path: &LockPath,
        kind: WaitKind,
        mut caller: Caller,
        command: impl FnOnce(Box<Caller>) -> Command,
    ) -> Result<Presence, CallError> {
        let mut registry = self.registry();
        let (wait, result) = if registry.is_draining() && kind != WaitKind::Write {
            let result = AcquireResult::Failed(StoreFailureKind::ShuttingDown);
            (Err(CallError::shutting_down()), result)
        } else {
            let admitted = registry.admit(path, &self.waiting, kind);
            (admitted, AcquireResult::OverLimit)
        };
        caller.wait = Some(wait.inspect_err(|_| {
            let refused = LockEventKind::NotGranted { result, waited: Duration::ZERO, busy: None };
            self.observe(&LockEvent::of(path, refused));
            // What comes for a caller that was never in the queue concerns its trace alone.
            if let Some(trace) = &caller.trace {
                trace.observe(&LockEvent::of(path, LockEventKind::Refused), self.clock.now());
            }
        })?);
        let id = caller.id;
        deliver(self, &mut registry, path, command(Box::new(caller)));
        Ok(Presence::new(Arc::clone(self), path.clone(), id))
    }
}

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
