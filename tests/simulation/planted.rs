//! Machines with a bug in them, which the checks must find: a check that finds none of these proves nothing.

use std::collections::BTreeMap;

use leasehold::hold::{Action, CallerId, Event, Hold, Request, margin};
use leasehold::lock::{ETag, FencingToken};
use leasehold::time::Instant;

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
}

impl Bug {
    pub(crate) const ALL: [Self; 16] = [
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
    ];
}

/// The real machine, which a bug may stand before and behind.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) hold: Hold,
    bug: Option<Bug>,
    sent: BTreeMap<Request, Instant>,
    newest: Option<Request>,
    shift: std::time::Duration,
    renewals: BTreeMap<Request, ()>,
    lost: Option<CallerId>,
    token: Option<FencingToken>,
    arrivals: u64,
}

impl Machine {
    pub(crate) const fn new(hold: Hold, bug: Option<Bug>) -> Self {
        Self {
            hold,
            bug,
            sent: BTreeMap::new(),
            newest: None,
            shift: std::time::Duration::ZERO,
            renewals: BTreeMap::new(),
            lost: None,
            token: None,
            arrivals: 0,
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
                | Event::RenewAnswered { request, answer: Ok(()) }),
            ) => {
                let sent = self.sent.get(&request).copied().unwrap_or(now);
                self.shift = now.saturating_since(sent);
                event
            }
            (Bug::MatchesNewestSend, Event::RenewAnswered { request, answer: Ok(()) }) => {
                let request = self.newest.unwrap_or(request);
                Event::RenewAnswered { request, answer: Ok(()) }
            }
            (Bug::AcquiresToRenew, Event::AcquireAnswered { request, answer, read: None })
                if self.renewals.contains_key(&request) =>
            {
                Event::RenewAnswered { request, answer: answer.map(drop) }
            }
            (Bug::LateRenewalRevives, event @ Event::RenewAnswered { answer: Ok(()), .. }) => {
                if let Some(caller) = self.lost {
                    let valid_until = now + std::time::Duration::from_secs(10);
                    told.push(Action::TellRenewed { caller, valid_until });
                }
                event
            }
            (Bug::ForgetsWaiter, event @ Event::CallerArrived { .. }) => {
                self.arrivals += 1;
                if self.arrivals.is_multiple_of(3) { Event::Wakeup } else { event }
            }
            (_, event) => event,
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
                return Behind::Event(Event::RenewAnswered { request: *request, answer: Ok(()) });
            }
            (Bug::TokenNotStored, Action::SendWrite { request, if_match, .. }) => {
                let answer = Ok(ETag(if_match.0.clone()));
                return Behind::Event(Event::WriteAnswered { request: *request, answer });
            }
            (Bug::AcquiresToRenew, Action::SendRenew { request, lease_id, timeout }) => {
                self.renewals.insert(*request, ());
                return Behind::Action(Action::SendAcquire {
                    request: *request,
                    lease_id: *lease_id,
                    duration: std::time::Duration::from_secs(15),
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
