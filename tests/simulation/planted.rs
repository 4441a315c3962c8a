//! Machines with a bug in them, which the checks must find: a check that finds none of these proves nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::hold::{
    Action, CallerId, Event, Failure, Hold, Memory, Request, Settings, Stored, margin,
};
use leasehold::lock::{ETag, FencingToken, LeaseId};
use leasehold::time::{Instant, UnixMillis};

use crate::storage::GARBAGE;

/// A mistake that somebody could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Validity is counted from when the answer came (S2).
    CountsFromAnswer,
    /// Validity has no margin (S2).
    NoMargin,
    /// A renewal is taken to be good before it is answered (S2).
    AssumesRenewed,
    /// An answer is taken for that of the newest request (S2).
    MatchesNewestSend,
    /// The clock stands still while the machine is frozen (S3).
    ClockStopsInSuspend,
    /// All sidecars propose the same lease ids (S6).
    SharedLeaseId,
    /// A sidecar proposes the same lease id again and again (S6).
    ReusedLeaseId,
    /// The token is read, and not stored before the grant (S5).
    TokenNotStored,
    /// A hold is proved by another acquire (S6).
    AcquiresToRenew,
    /// A client believes until its release is answered (S13).
    BelievesUntilReleased,
    /// A renewal that succeeds after the loss revives the hold (S4).
    LateRenewalRevives,
    /// A break ends the lease at once though nobody said so (S17).
    BreakNowByDefault,
    /// Who is handed the lock gets its predecessor's token (S5).
    SameTokenOnHandOff,
    /// A waiter is forgotten (S12).
    ForgetsWaiter,
    /// A stream that broke is taken for one that its client closed (S13, S14).
    SilenceIsLeaving,
    /// A client counts from when it reads a message (S21).
    CountsFromReading,
    /// A step of the wall clock is added to the time (S3, S13).
    AddsWallSteps,
    /// A suspicion ends a hold (S3).
    SuspicionIsLoss,
    /// A suspicion is not acted on (S3).
    SuspicionIgnored,
    /// Calls are taken for those of the newest generation (S16).
    IgnoresGeneration,
    /// The generation is not written with the record (S16).
    GenerationNotStored,
    /// A renewal goes by the lease alone (S16).
    RenewsWithoutMatch,
    /// A record is written over whatever version it has (S5, S16).
    WritesWithoutMatch,
    /// A cancel ends a hold that was resumed a moment ago (S16).
    CancelEndsResumed,
    /// A resume token keeps the bounds of the grant (S16).
    OldResumeToken,
    /// A token that cannot be read is taken for none (S5).
    UnreadableIsNone,
    /// Epochs are seconds (S5).
    EpochInSeconds,
    /// A write whose outcome is unknown is taken to be done (S5, S13).
    UnknownIsStored,
    /// A refusal by policy is taken for a lost lease (S8).
    RefusalIsLoss,
    /// The first release of a lease that was another's is told as a release (S13).
    TakenIsReleased,
    /// Nobody stands back who has nobody queued (S10).
    NoStandBackAlone,
}

/// Where a bug is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hunt {
    /// In schedules that chance makes.
    Chance,
    /// In the long ones (`long.rs`).
    Long,
}

impl Bug {
    /// The checks do not find these within the bound: what they break is caught by something else first. docs/safety.md says
    /// so; `LEASEHOLD_TEST_SIMULATION_BUG=…` looks for one all the same.
    pub(crate) const NOT_FOUND: [Self; 4] = [
        Self::MatchesNewestSend,
        Self::IgnoresGeneration,
        Self::GenerationNotStored,
        Self::RenewsWithoutMatch,
    ];

    pub(crate) const ALL: [Self; 31] = [
        Self::CountsFromAnswer,
        Self::NoMargin,
        Self::AssumesRenewed,
        Self::MatchesNewestSend,
        Self::ClockStopsInSuspend,
        Self::SharedLeaseId,
        Self::ReusedLeaseId,
        Self::TokenNotStored,
        Self::AcquiresToRenew,
        Self::BelievesUntilReleased,
        Self::LateRenewalRevives,
        Self::BreakNowByDefault,
        Self::SameTokenOnHandOff,
        Self::ForgetsWaiter,
        Self::SilenceIsLeaving,
        Self::CountsFromReading,
        Self::AddsWallSteps,
        Self::SuspicionIsLoss,
        Self::SuspicionIgnored,
        Self::IgnoresGeneration,
        Self::GenerationNotStored,
        Self::RenewsWithoutMatch,
        Self::WritesWithoutMatch,
        Self::CancelEndsResumed,
        Self::OldResumeToken,
        Self::UnreadableIsNone,
        Self::EpochInSeconds,
        Self::UnknownIsStored,
        Self::RefusalIsLoss,
        Self::TakenIsReleased,
        Self::NoStandBackAlone,
    ];

    pub(crate) const fn hunt(self) -> Hunt {
        match self {
            Self::NoStandBackAlone | Self::EpochInSeconds | Self::SuspicionIgnored => Hunt::Long,
            _ => Hunt::Chance,
        }
    }
}

/// The real machine, which a bug may stand before and behind.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) hold: Hold,
    bug: Option<Bug>,
    sent: BTreeMap<Request, Instant>,
    newest: Option<Request>,
    shift: Duration,
    renewals: BTreeMap<Request, ()>,
    lost: Option<CallerId>,
    token: Option<FencingToken>,
    arrivals: u64,
    settings: Settings,
    resumed: BTreeSet<CallerId>,
    generation: u64,
    /// The lease id that the hold was supplied with last.
    pub(crate) spare: Option<LeaseId>,
}

impl Machine {
    pub(crate) const fn new(hold: Hold, settings: Settings, bug: Option<Bug>) -> Self {
        Self {
            hold,
            bug,
            sent: BTreeMap::new(),
            newest: None,
            shift: Duration::ZERO,
            renewals: BTreeMap::new(),
            lost: None,
            token: None,
            arrivals: 0,
            settings,
            resumed: BTreeSet::new(),
            generation: 0,
            spare: None,
        }
    }

    pub(crate) fn on(&mut self, event: Event, now: Instant) -> Vec<Action> {
        let Some(bug) = self.bug else { return self.hold.on(event, now) };
        let mut actions = Vec::new();
        let event = self.before(bug, event, now, &mut actions);
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.hold.on(event, now) {
                match self.behind(bug, action, now) {
                    Behind::Action(action) => actions.push(action),
                    Behind::Event(event) => events.push(event),
                }
            }
        }
        actions
    }

    /// What the bug makes of an event.
    fn before(&mut self, bug: Bug, event: Event, now: Instant, told: &mut Vec<Action>) -> Event {
        match (bug, event) {
            (
                Bug::CountsFromAnswer,
                event @ (Event::AcquireAnswered { request, answer: Ok(_), .. }
                | Event::RenewAnswered { request, answer: Ok(_) }),
            ) => {
                let sent = self.sent.get(&request).copied().unwrap_or(now);
                self.shift = now.saturating_since(sent);
                event
            }
            (Bug::MatchesNewestSend, Event::RenewAnswered { request, answer: Ok(time) }) => {
                let request = self.newest.unwrap_or(request);
                Event::RenewAnswered { request, answer: Ok(time) }
            }
            (Bug::AcquiresToRenew, Event::AcquireAnswered { request, answer, read: None })
                if self.renewals.contains_key(&request) =>
            {
                Event::RenewAnswered { request, answer: answer.map(|granted| granted.time) }
            }
            (Bug::LateRenewalRevives, event @ Event::RenewAnswered { answer: Ok(_), .. }) => {
                if let Some(caller) = self.lost {
                    let valid_until = now + Duration::from_secs(10);
                    told.push(Action::TellRenewed { caller, valid_until });
                }
                event
            }
            (Bug::ForgetsWaiter, event @ Event::CallerArrived { .. }) => {
                self.arrivals += 1;
                if self.arrivals.is_multiple_of(3) { Event::Wakeup } else { event }
            }
            (Bug::SuspicionIgnored, Event::PauseSuspected) => Event::Wakeup,
            (Bug::SuspicionIsLoss, Event::PauseSuspected) => Event::LeaseBroken,
            (Bug::CancelEndsResumed, Event::CallerLeft { caller })
                if self.resumed.contains(&caller) =>
            {
                let generation = Some(self.generation);
                Event::ReleaseAsked { caller, generation }
            }
            (Bug::NoStandBackAlone, event @ Event::CallerArrived { .. }) => {
                if self.hold.is_idle() {
                    let Memory { known, highest, .. } = self.hold.clone().into_memory();
                    let memory = Memory { known, highest, ..Memory::default() };
                    self.arrivals += 1;
                    self.hold = Hold::new(self.settings, memory, self.arrivals, now);
                    if let Some(lease_id) = self.spare {
                        self.hold.supply(lease_id);
                    }
                }
                event
            }
            (Bug::IgnoresGeneration, event) => without_generation(event),
            (bug, event) => misread(bug, event),
        }
    }

    /// What the bug makes of an action.
    fn behind(&mut self, bug: Bug, mut action: Action, now: Instant) -> Behind {
        match (bug, &mut action) {
            (
                Bug::CountsFromAnswer | Bug::MatchesNewestSend,
                Action::SendAcquire { request, .. } | Action::SendRenew { request, .. },
            ) => {
                self.sent.insert(*request, now);
                self.newest = Some(*request);
            }
            (Bug::CountsFromAnswer, Action::TellGranted { grant, .. }) => {
                grant.valid_until = grant.valid_until + self.shift;
            }
            (Bug::CountsFromAnswer, Action::TellRenewed { valid_until, .. }) => {
                *valid_until = *valid_until + self.shift;
            }
            (Bug::NoMargin, Action::TellGranted { grant, .. }) => {
                self.shift = margin(grant.lease_duration);
                grant.valid_until = grant.valid_until + self.shift;
            }
            (Bug::NoMargin, Action::TellRenewed { valid_until, .. }) => {
                *valid_until = *valid_until + self.shift;
            }
            (Bug::AssumesRenewed, Action::SendRenew { request, .. }) => {
                let answer = Ok(UnixMillis(1_800_000_000_000));
                return Behind::Event(Event::RenewAnswered { request: *request, answer });
            }
            (Bug::TokenNotStored, Action::SendWrite { request, if_match, .. }) => {
                let answer = Ok(ETag(if_match.0.clone()));
                return Behind::Event(Event::WriteAnswered { request: *request, answer });
            }
            (Bug::AcquiresToRenew, Action::SendRenew { request, lease_id, timeout, .. }) => {
                self.renewals.insert(*request, ());
                return Behind::Action(Action::SendAcquire {
                    request: *request,
                    lease_id: *lease_id,
                    duration: Duration::from_secs(15),
                    if_match: None,
                    read: false,
                    timeout: *timeout,
                });
            }
            (Bug::LateRenewalRevives, Action::TellLost { caller, .. }) => self.lost = Some(*caller),
            (Bug::LateRenewalRevives, Action::TellGranted { .. }) => self.lost = None,
            (Bug::SameTokenOnHandOff, Action::TellGranted { grant, .. }) => {
                let own = grant.token;
                if let Some(token) = self.token.filter(|token| token.epoch() == own.epoch()) {
                    grant.token = token;
                }
                self.token = Some(own);
            }
            (Bug::RenewsWithoutMatch, Action::SendRenew { if_match, .. }) => *if_match = None,
            (Bug::GenerationNotStored, Action::SendWrite { fields, .. }) => {
                fields.retain(|name, _| !name.ends_with("_generation"));
            }
            (Bug::CancelEndsResumed, Action::TellGranted { caller, grant }) if grant.resumed => {
                self.resumed.insert(*caller);
                self.generation = grant.generation;
            }
            _ => {}
        }
        Behind::Action(action)
    }
}

/// What comes of an action.
enum Behind {
    Action(Action),
    /// It is answered without being done.
    Event(Event),
}

/// What the bug makes of an answer of the store.
fn misread(bug: Bug, event: Event) -> Event {
    match (bug, event) {
        (
            Bug::UnreadableIsNone,
            Event::AcquireAnswered { request, answer, read: Some(Ok(read)) },
        ) => Event::AcquireAnswered { request, answer, read: Some(Ok(without_garbage(read))) },
        (Bug::UnreadableIsNone, Event::ReadAnswered { request, answer: Ok(read) }) => {
            Event::ReadAnswered { request, answer: Ok(without_garbage(read)) }
        }
        (
            Bug::EpochInSeconds,
            Event::AcquireAnswered { request, answer: Ok(mut granted), read },
        ) => {
            granted.time.0 = EPOCHS_BEGIN + (granted.time.0 - EPOCHS_BEGIN) / 1_000;
            Event::AcquireAnswered { request, answer: Ok(granted), read }
        }
        (
            Bug::UnknownIsStored,
            Event::WriteAnswered { request, answer: Err(Failure::Unknown(_)) },
        ) => Event::WriteAnswered { request, answer: Ok(ETag(String::new())) },
        (
            Bug::RefusalIsLoss,
            Event::RenewAnswered { request, answer: Err(Failure::Refused(_)) },
        ) => Event::RenewAnswered { request, answer: Err(Failure::Taken) },
        (
            Bug::TakenIsReleased,
            Event::ReleaseAnswered {
                request,
                answer: Err(Failure::Taken | Failure::Broken | Failure::Deleted),
            },
        ) => Event::ReleaseAnswered { request, answer: Ok(()) },
        (_, event) => event,
    }
}

/// 2020-01-01 UTC.
const EPOCHS_BEGIN: u64 = 1_577_836_800_000;

fn without_garbage(mut stored: Stored) -> Stored {
    stored.fields.retain(|_, value| value != GARBAGE);
    stored
}

fn without_generation(event: Event) -> Event {
    match event {
        Event::ReleaseAsked { caller, .. } => Event::ReleaseAsked { caller, generation: None },
        Event::ExtendAsked { caller, max_hold, .. } => {
            Event::ExtendAsked { caller, generation: None, max_hold }
        }
        Event::ProgressReported { caller, .. } => {
            Event::ProgressReported { caller, generation: None }
        }
        Event::ValidityAsked { caller, .. } => Event::ValidityAsked { caller, generation: None },
        other => other,
    }
}
