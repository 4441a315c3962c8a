//! Machines with a bug in them (`planted.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold::hold::{
    Action, Answer, CallerId, Event, HolderCall, LossReason, Memory, Notice, Request, RequestId,
    Settings, StoreFailureKind, Stored, Terms, margin,
};
use leasehold::lock::{FencingToken, LeaseId};
use leasehold::queue::PlainLock;
use leasehold::time::{Instant, UnixMillis};

use crate::kit::store::unknown;
use crate::simulation::planted::Bug;
use crate::simulation::spoilt::{Beside, Spoilt, misread};

/// The real machine, which a bug may stand before and behind.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) hold: PlainLock,
    bug: Option<Bug>,
    sent: BTreeMap<RequestId, Instant>,
    newest: Option<RequestId>,
    shift: Duration,
    renewals: BTreeMap<RequestId, ()>,
    lost: Option<CallerId>,
    token: Option<FencingToken>,
    arrivals: u64,
    settings: Settings,
    resumed: BTreeSet<CallerId>,
    /// Who was granted the lock last, and the generation.
    own: Option<(CallerId, u64)>,
    looks: u64,
    /// It was told of a pause that is suspected.
    suspects: bool,
    /// The lease under which the lock was granted last.
    lease: Option<LeaseId>,
    /// The lease id that the hold was supplied with last.
    pub(crate) spare: Option<LeaseId>,
    /// The newest call with each request id, and the id of each.
    calls: BTreeMap<String, CallerId>,
    ids: BTreeMap<CallerId, String>,
    spoilt: Spoilt,
}

impl Machine {
    pub(crate) fn new(hold: PlainLock, settings: Settings, bug: Option<Bug>) -> Self {
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
            own: None,
            looks: 0,
            suspects: false,
            lease: None,
            spare: None,
            calls: BTreeMap::new(),
            ids: BTreeMap::new(),
            spoilt: Spoilt::default(),
        }
    }

    pub(crate) fn on(&mut self, event: Event, now: Instant) -> Vec<Action> {
        let Some(bug) = self.bug else { return self.hold.handle_event(event, now) };
        let mut actions = Vec::new();
        let event = self.before(bug, event, now, &mut actions);
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.hold.handle_event(event, now) {
                actions.extend(self.beside(bug, &action));
                match self.behind(bug, action, now) {
                    Behind::Action(action) => actions.push(*action),
                    Behind::Event(event) => events.push(event),
                }
            }
        }
        actions
    }

    /// What the bug makes of a pause that is suspected, and of what follows (S3).
    fn of_a_pause(
        &mut self,
        bug: Bug,
        event: Event,
        now: Instant,
        told: &mut Vec<Action>,
    ) -> Event {
        match (bug, event) {
            (Bug::SuspicionIgnored, Event::PauseSuspected) => Event::TimePassed,
            (Bug::GrantsUnproven, Event::PauseSuspected) => {
                self.suspects = true;
                Event::PauseSuspected
            }
            // It is told of the pause only once its holder has released.
            (Bug::HandsOnUnproven, Event::PauseSuspected) if self.hold.holding().is_some() => {
                self.suspects = true;
                Event::TimePassed
            }
            (Bug::HandsOnUnproven, event @ Event::Call { call: HolderCall::Release, .. }) => event,
            (Bug::HandsOnUnproven, event) if std::mem::take(&mut self.suspects) => {
                told.extend(self.hold.handle_event(Event::PauseSuspected, now));
                event
            }
            (Bug::SuspicionIsLoss, Event::PauseSuspected) => Event::LeaseBroken { ends_now: true },
            (_, event) => event,
        }
    }

    /// What the bug makes of an event.
    #[expect(clippy::too_many_lines, reason = "an arm for each bug")]
    fn before(&mut self, bug: Bug, event: Event, now: Instant, told: &mut Vec<Action>) -> Event {
        let event = self.of_a_pause(bug, event, now, told);
        match (bug, event) {
            (
                Bug::CountsFromAnswer,
                event @ Event::Answer {
                    request,
                    answer: Answer::Acquire { lease: Ok(_), .. } | Answer::Renew(Ok(_)),
                },
            ) => {
                let sent = self.sent.get(&request).copied().unwrap_or(now);
                self.shift = now.saturating_since(sent);
                event
            }
            (
                Bug::MatchesNewestSend,
                Event::Answer { request, answer: Answer::Renew(Ok(time)) },
            ) => {
                let request = self.newest.unwrap_or(request);
                Event::Answer { request, answer: Answer::Renew(Ok(time)) }
            }
            (
                Bug::AcquiresToRenew,
                Event::Answer { request, answer: Answer::Acquire { lease: answer, read: None } },
            ) if self.renewals.contains_key(&request) => {
                Event::Answer { request, answer: Answer::Renew(answer.map(|granted| granted.time)) }
            }
            (
                Bug::LateRenewalRevives,
                event @ Event::Answer { answer: Answer::Renew(Ok(_)), .. },
            ) => {
                if let Some(caller) = self.lost {
                    let valid_until = now + Duration::from_secs(10);
                    told.push(Action::Tell { caller, notice: Notice::Renewed { valid_until } });
                }
                event
            }
            (Bug::ForgetsWaiter, event @ Event::CallerArrived { .. }) => {
                self.arrivals += 1;
                if self.arrivals.is_multiple_of(3) { Event::TimePassed } else { event }
            }
            (Bug::CancelEndsResumed, Event::CallerLeft { caller })
                if self.resumed.contains(&caller) =>
            {
                self.own_release(caller).unwrap_or(Event::TimePassed)
            }
            (Bug::CancelHandsOn, Event::CallerLeft { caller }) => {
                self.own_release(caller).unwrap_or(Event::CallerLeft { caller })
            }
            (Bug::SilenceHandsOn, Event::HolderDisconnected { caller }) => {
                self.own_release(caller).unwrap_or(Event::HolderDisconnected { caller })
            }
            (Bug::SilentIsRenewed, Event::HolderDisconnected { .. }) => Event::TimePassed,
            (
                Bug::LeftHandsOn,
                Event::Call { caller, generation, call: HolderCall::Release, .. },
            ) => {
                let release = Event::Call { caller, generation, call: HolderCall::Release };
                let newer = self.own.is_some_and(|(_, own)| generation > Some(own));
                self.own_release(caller).filter(|_| newer).unwrap_or(release)
            }
            (Bug::MarkNeverAges, event) => self.as_changed(event),
            (Bug::NoStandBackAlone, event @ Event::CallerArrived { .. }) => {
                if self.hold.is_idle() {
                    let Memory { known, highest, .. } = self.hold.clone().into_memory();
                    let memory = Memory { known, highest, ..Memory::default() };
                    self.arrivals += 1;
                    self.hold = PlainLock::new(self.settings, memory, self.arrivals, now);
                    if let Some(lease_id) = self.spare {
                        self.hold.supply(lease_id);
                    }
                }
                event
            }
            (Bug::IgnoresGeneration, event) => self.own_generation(event),
            (Bug::WaitIsFailure, Event::RenewHeldBack { request }) => {
                let answer = Err(unknown(StoreFailureKind::Throttled));
                Event::Answer { request, answer: Answer::Renew(answer) }
            }
            (Bug::TurnForgotten, Event::RenewTurnCame) => Event::TimePassed,
            (Bug::HandOverWithoutRenewal, Event::HandOverStarted { .. }) => {
                Event::HandOverStarted { ends: now }
            }
            (bug, event) => self.of_a_repeat(bug, event, now, told),
        }
    }

    /// What the bug makes of answers and saves, and of calls that are repeated with their request id.
    fn of_a_repeat(
        &mut self,
        bug: Bug,
        event: Event,
        now: Instant,
        told: &mut Vec<Action>,
    ) -> Event {
        let event = self.spoilt.before(bug, misread(bug, event));
        match (bug, event) {
            (Bug::RepeatIsAnother, Event::CallerArrived { caller, terms }) => {
                let request_id = String::new();
                let terms = Arc::new(Terms { request_id, ..Terms::clone(&terms) });
                Event::CallerArrived { caller, terms }
            }
            (Bug::RepeatDropsPlace, Event::CallerArrived { caller, terms }) => {
                let former = self.calls.insert(terms.request_id.clone(), caller);
                if let Some(former) = former.filter(|_| !terms.request_id.is_empty())
                    && self.hold.validity(former).is_none()
                {
                    let (left, waited) =
                        (Event::CallerLeft { caller: former }, self.hold.waiting());
                    told.extend(self.hold.handle_event(left, now));
                    let superseded =
                        Action::Tell { caller: former, notice: Notice::Superseded { by: caller } };
                    told.extend((self.hold.waiting() < waited).then_some(superseded));
                }
                Event::CallerArrived { caller, terms }
            }
            (Bug::CutTakesRepeat, Event::CallerArrived { caller, terms }) => {
                if !terms.request_id.is_empty() {
                    self.calls.insert(terms.request_id.clone(), caller);
                    self.ids.insert(caller, terms.request_id.clone());
                }
                Event::CallerArrived { caller, terms }
            }
            (Bug::CutTakesRepeat, Event::CallerLeft { caller }) => {
                let newest = self.ids.get(&caller).and_then(|id| self.calls.get(id));
                Event::CallerLeft { caller: newest.copied().unwrap_or(caller) }
            }
            (_, event) => event,
        }
    }

    /// A release by the holder, with the generation that is had here.
    fn own_release(&self, caller: CallerId) -> Option<Event> {
        let (_, generation) = self.own.filter(|(own, _)| *own == caller)?;
        Some(Event::Call { caller, generation: Some(generation), call: HolderCall::Release })
    }

    /// A call as if it carried the generation that is had here.
    fn own_generation(&self, event: Event) -> Event {
        let own = self.own.map(|(_, generation)| generation);
        match event {
            Event::Call { caller, call: HolderCall::Release, .. } => {
                Event::Call { caller, generation: own, call: HolderCall::Release }
            }
            Event::Call { caller, call: HolderCall::Extend { max_hold }, .. } => {
                Event::Call { caller, generation: own, call: HolderCall::Extend { max_hold } }
            }
            Event::Call { caller, call: HolderCall::Progress, .. } => {
                Event::Call { caller, generation: own, call: HolderCall::Progress }
            }
            Event::Call { caller, call: HolderCall::Validity, .. } => {
                Event::Call { caller, generation: own, call: HolderCall::Validity }
            }
            other => other,
        }
    }

    /// A record that was read, as if it were of another grant now.
    fn as_changed(&mut self, event: Event) -> Event {
        self.looks += 1;
        let looks = self.looks;
        let waits = self.hold.holding().is_none();
        let changed = |mut stored: Stored| {
            if let Some(lease) = stored.fields.get("leasehold_lease").filter(|_| waits) {
                let generation = format!("{lease}.{looks}");
                stored.fields.insert("leasehold_generation".to_owned(), generation);
            }
            stored
        };
        match event {
            Event::Answer { request, answer: Answer::Read(answer) } => {
                Event::Answer { request, answer: Answer::Read(answer.map(changed)) }
            }
            Event::Answer { request, answer: Answer::Acquire { lease: answer, read } } => {
                let read = read.map(|read| read.map(changed));
                Event::Answer { request, answer: Answer::Acquire { lease: answer, read } }
            }
            other => other,
        }
    }

    /// What the bug does beside an action.
    fn beside(&mut self, bug: Bug, action: &Action) -> Option<Action> {
        let lease_id = self.lease?;
        let beside = Beside::of(bug, action, self.hold.state())?;
        self.looks += 1;
        Some(beside.action(RequestId((1 << 32) + self.looks), lease_id))
    }

    /// What the bug makes of an action.
    fn behind(&mut self, bug: Bug, mut action: Action, now: Instant) -> Behind {
        if let Action::Tell { caller, notice: Notice::Granted(grant) } = &action {
            self.own = Some((*caller, grant.generation));
            self.lease = Some(grant.lease_id);
        }
        let instead = match &mut action {
            Action::Store { request, what, timeout } => {
                self.behind_request(bug, (*request, *timeout), what, now)
            }
            Action::Tell { caller, notice } => self.behind_notice(bug, *caller, notice),
            _ => None,
        };
        if let Some(instead) = instead {
            return instead;
        }
        self.about_generations(bug, &mut action);
        let assumed = self.assume_proof(bug, &action);
        match assumed.or_else(|| self.spoilt.behind(bug, &mut action, &self.hold)) {
            Some(event) => Behind::Event(event),
            None => Behind::Action(Box::new(action)),
        }
    }

    /// What the bug makes of a request, if it replaces it.
    fn behind_request(
        &mut self,
        bug: Bug,
        (request, timeout): (RequestId, Duration),
        what: &Request,
        now: Instant,
    ) -> Option<Behind> {
        match (bug, what) {
            (
                Bug::CountsFromAnswer | Bug::MatchesNewestSend,
                Request::Acquire { .. } | Request::Renew { .. },
            ) => {
                self.sent.insert(request, now);
                self.newest = Some(request);
                None
            }
            (Bug::AssumesRenewed, Request::Renew { .. }) => {
                let answer = Answer::Renew(Ok(UnixMillis(1_800_000_000_000)));
                Some(Behind::Event(Event::Answer { request, answer }))
            }
            (Bug::TokenNotStored, Request::Write { if_match, .. }) => {
                let answer = Answer::Write(Ok(if_match.clone()));
                Some(Behind::Event(Event::Answer { request, answer }))
            }
            (Bug::AcquiresToRenew, Request::Renew { lease_id, .. }) => {
                self.renewals.insert(request, ());
                let what = Request::Acquire {
                    lease_id: *lease_id,
                    duration: Duration::from_secs(15),
                    if_match: None,
                    read: false,
                };
                Some(Behind::Action(Box::new(Action::Store { request, what, timeout })))
            }
            _ => None,
        }
    }

    /// What the bug makes of a notice, if it replaces it.
    fn behind_notice(&mut self, bug: Bug, caller: CallerId, notice: &mut Notice) -> Option<Behind> {
        match (bug, notice) {
            (Bug::CountsFromAnswer, Notice::Granted(grant)) => {
                grant.valid_until = grant.valid_until + self.shift;
            }
            (Bug::CountsFromAnswer | Bug::NoMargin, Notice::Renewed { valid_until }) => {
                *valid_until = *valid_until + self.shift;
            }
            (Bug::NoMargin, Notice::Granted(grant)) => {
                self.shift = margin(grant.lease_duration);
                grant.valid_until = grant.valid_until + self.shift;
            }
            (Bug::HandOverTellsLost, Notice::Interrupted) => {
                let detail = "the sidecar shut down".to_owned();
                let notice = Notice::Lost { reason: LossReason::Shutdown, detail };
                return Some(Behind::Action(Box::new(Action::Tell { caller, notice })));
            }
            (Bug::RepeatUnanswered, Notice::SameGrant { .. }) => {
                return Some(Behind::Event(Event::TimePassed));
            }
            (Bug::LateRenewalRevives, Notice::Lost { .. }) => self.lost = Some(caller),
            (Bug::LateRenewalRevives, Notice::Granted(_)) => self.lost = None,
            (Bug::SameTokenOnHandOff, Notice::Granted(grant)) => {
                let own = grant.token;
                if let Some(token) = self.token.filter(|token| token.epoch() == own.epoch()) {
                    grant.token = token;
                }
                self.token = Some(own);
            }
            _ => {}
        }
        None
    }

    /// The renewal before a grant is taken to be good (S3).
    fn assume_proof(&self, bug: Bug, action: &Action) -> Option<Event> {
        let Action::Store { request, what: Request::Renew { .. }, .. } = action else {
            return None;
        };
        let assumes = bug == Bug::GrantsUnproven && self.suspects && self.hold.state() == "storing";
        let answer = Ok(UnixMillis(1_800_000_000_000));
        assumes.then_some(Event::Answer { request: *request, answer: Answer::Renew(answer) })
    }

    /// What the bug makes of versions, generations, rests and releases in an action (S10, S11, S13, S16).
    fn about_generations(&mut self, bug: Bug, action: &mut Action) {
        match (bug, &mut *action) {
            (
                Bug::UnconfirmedIsReleased,
                Action::Tell { caller, notice: Notice::NotConfirmed { .. } },
            ) => {
                let (caller, resting_until) = (*caller, None);
                *action = Action::Tell { caller, notice: Notice::Released { resting_until } };
            }
            (
                Bug::RenewsWithoutMatch,
                Action::Store { what: Request::Renew { if_match, .. }, .. },
            ) => *if_match = None,
            (
                Bug::GenerationNotStored,
                Action::Store { what: Request::Write { fields, .. }, .. },
            ) => {
                fields.retain(|name, _| !name.ends_with("_generation"));
            }
            (Bug::CancelEndsResumed, Action::Tell { caller, notice: Notice::Granted(grant) })
                if grant.resumed =>
            {
                self.resumed.insert(*caller);
            }
            (Bug::RestByStoreClock, Action::Store { what: Request::Write { fields, .. }, .. }) => {
                fields.retain(|name, _| !name.ends_with("_resting_for"));
            }
            _ => {}
        }
    }
}

/// What comes of an action.
enum Behind {
    Action(Box<Action>),
    /// It is answered without being done.
    Event(Event),
}
