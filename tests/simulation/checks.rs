//! What must hold at every step. The first thing that does not is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::hold::{
    Action, Answer, CallerId, Event, Hold, HolderCall, Holding, LossReason, Notice, Request,
};
use leasehold::lock::LeaseId;
use leasehold::time::Instant;

use crate::simulation::counters::Counters;
use crate::simulation::hand_over::HandOvers;
use crate::simulation::idle::Idle;
use crate::simulation::moved::Moved;
use crate::simulation::notices::Notices;
use crate::simulation::occurrences::Occurrences;
use crate::simulation::places::Places;
use crate::simulation::plan::Mode;
use crate::simulation::promises::{Look, Promises};
use crate::simulation::truth::Truth;
use crate::simulation::turns::Turns;

/// What a caller has been told of its hold (S4, S9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Held,
    AtRisk,
    Over,
}

/// The polls of a sidecar in a window of time, and what gave it a reason to ask.
#[derive(Clone, Copy, Debug, Default)]
struct Polls {
    since: Duration,
    asked: u32,
    reasons: u32,
}

const POLLS_WINDOW: Duration = Duration::from_secs(10);
/// One every 250 ms, with a read now and then (S10, S12).
const MOST_POLLS: u32 = 60;
/// For each caller that came, was served or went.
const POLLS_A_REASON: u32 = 6;

#[derive(Debug)]
pub(crate) struct Checks {
    /// The rule that was broken, and how.
    pub(crate) violation: Option<String>,
    told: BTreeMap<CallerId, Told>,
    /// Who has asked for a release, and is told what became of the hold (S13).
    asked: BTreeSet<CallerId>,
    places: Places,
    /// The leases under which sidecars have granted the lock.
    granted: BTreeSet<(usize, LeaseId)>,
    /// The leases that an operator ended at once: until that is noticed, two may believe (S17).
    pub(crate) broken: BTreeSet<LeaseId>,
    /// The leases of sidecars that stood still.
    pub(crate) moved: Moved,
    tokens: BTreeSet<u64>,
    pub(crate) truth: Truth,
    pub(crate) promises: Promises,
    pub(crate) idle: Idle,
    pub(crate) hand_overs: HandOvers,
    pub(crate) notices: Notices,
    pub(crate) counters: Counters,
    pub(crate) occurrences: Occurrences,
    pub(crate) turns: Turns,
    /// Those that resumed after they had released, and when one was served (S16).
    pub(crate) ghosts: BTreeMap<CallerId, Option<Duration>>,
    mode: Mode,
    /// Leases that were asked for.
    proposed: BTreeSet<(usize, LeaseId)>,
    pub(crate) newest_grant: Duration,
    polls: Vec<Polls>,
    /// How far a token has run ahead of the store's clock, at the most (S5).
    pub(crate) farthest_ahead: Duration,
    /// That is measured here, and judged by who runs the schedule.
    pub(crate) measures_only: bool,
    pub(crate) grants: u64,
    /// The greatest token that the resource has seen.
    accepted: u64,
    /// Writes that came with an older one: what a resource without the check would have done.
    pub(crate) stale_writes: u64,
    pub(crate) writes: u64,
}

impl Checks {
    pub(crate) fn new(sidecars: usize, mode: Mode) -> Self {
        Self {
            violation: None,
            told: BTreeMap::new(),
            asked: BTreeSet::new(),
            places: Places::new(sidecars),
            granted: BTreeSet::new(),
            broken: BTreeSet::new(),
            moved: Moved::default(),
            tokens: BTreeSet::new(),
            truth: Truth::default(),
            promises: Promises::default(),
            idle: Idle::default(),
            hand_overs: HandOvers::default(),
            notices: Notices::default(),
            counters: Counters::default(),
            occurrences: Occurrences::default(),
            turns: Turns::default(),
            ghosts: BTreeMap::new(),
            mode,
            proposed: BTreeSet::new(),
            newest_grant: Duration::ZERO,
            polls: vec![Polls::default(); sidecars],
            farthest_ahead: Duration::ZERO,
            measures_only: false,
            grants: 0,
            accepted: 0,
            stale_writes: 0,
            writes: 0,
        }
    }

    pub(crate) fn fail(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    pub(crate) fn judge(&mut self, judged: Result<(), String>) {
        if let Err(what) = judged {
            self.fail(what);
        }
    }

    /// A request of `sent` has reached the store, and `event` is its answer.
    pub(crate) fn reached(&mut self, look: Look, done: (&Action, &Event), sent: Duration) {
        let (action, event) = done;
        let judged = self.idle.reached(done, sent, look.now);
        self.judge(judged);
        self.notices.reached(look, done);
        let saves = self.counters.reached(action);
        if let (
            Action::Store { what: Request::Write { fields, .. }, .. },
            Event::Answer { answer: Answer::Write(Ok(_)), .. },
        ) = done
        {
            let judged = self.counters.ledger.wrote(fields);
            self.judge(judged);
        }
        let is_done = matches!(
            event,
            Event::Answer {
                answer: Answer::Write(Ok(_)) | Answer::Renew(Ok(_)) | Answer::Release(Ok(())),
                ..
            }
        );
        // S5: a store that went back to an older copy has older versions again.
        let honoured = !self.truth.has_ended(action);
        if is_done && honoured && !saves {
            let judged = self.promises.done(look, action);
            self.judge(judged);
        }
    }

    /// S6: an acquire is never used to prove that a hold goes on.
    pub(crate) fn sent(&mut self, look: Look, action: &Action, state: &str) {
        let sidecar = look.sidecar;
        let judged = self.notices.sent(look, action);
        self.judge(judged);
        let judged = self.counters.sent(look, action, state);
        self.judge(judged);
        if self.promises.sent(look, action, state) {
            self.idle.sent(action, look.now);
        }
        self.truth.sent(sidecar, action);
        self.moved.sent(sidecar, action);
        if let Action::Store { what: Request::Acquire { lease_id, .. }, .. } = action {
            self.proposed.insert((sidecar, *lease_id));
        }
        if matches!(action, Action::Store { what: Request::Acquire { .. } | Request::Read, .. }) {
            self.polls[sidecar].asked += 1;
        }
        if let Action::Store { what: Request::Acquire { lease_id, .. }, .. } = action
            && self.granted.contains(&(sidecar, *lease_id))
        {
            self.fail(format!("S6: sidecar {sidecar} acquires again under {lease_id}"));
        }
    }

    pub(crate) fn came_in(
        &mut self,
        sidecar: usize,
        event: &Event,
        (now, local): (Duration, Instant),
    ) {
        self.places.came_in(sidecar, event, local);
        self.truth.came_in(sidecar, event);
        self.promises.came_in(sidecar, event);
        self.notices.came_in(sidecar, event);
        let leases = &self.truth.leases;
        self.counters.came_in(sidecar, event, |caller| leases.get(&caller).copied());
        self.turns.came_in(sidecar, event, local);
        self.check_polls(sidecar, event, now);
        if let Event::Call { caller, call: HolderCall::Release, .. } = event {
            self.asked.insert(*caller);
        }
    }

    /// S10, S12: a lock path costs so many requests and no more.
    fn check_polls(&mut self, sidecar: usize, event: &Event, now: Duration) {
        let polls = &mut self.polls[sidecar];
        if now >= polls.since + POLLS_WINDOW {
            let Polls { asked, reasons, .. } = *polls;
            *polls = Polls { since: now, ..Polls::default() };
            if asked > MOST_POLLS + POLLS_A_REASON * reasons {
                let text =
                    format!("S12: sidecar {sidecar} polled {asked} times in {POLLS_WINDOW:?}");
                return self.fail(text);
            }
        }
        let answered = matches!(
            event,
            Event::TimePassed
                | Event::Answer { answer: Answer::Acquire { .. } | Answer::Read(_), .. }
        );
        self.polls[sidecar].reasons += u32::from(!answered);
    }

    /// S3: no clock of this sidecar has counted a pause: what was promised under its leases and these is
    /// outside S1.
    pub(crate) fn excuse(&mut self, sidecar: usize, mut leases: Vec<LeaseId>) {
        let own = self.proposed.iter().chain(&self.granted);
        leases.extend(own.filter(|(at, _)| *at == sidecar).map(|(_, lease)| *lease));
        self.moved.stood_still(sidecar, leases);
    }

    /// Whether this lease was ended at once, or may have run out for its sidecar's clock (S3, S17).
    pub(crate) fn may_have_ended(&self, lease: LeaseId) -> bool {
        self.broken.contains(&lease) || self.moved.may_have_ended(lease)
    }

    /// The same, and nothing was known of it when this was granted.
    pub(crate) fn excuses(&self, lease: LeaseId, token: u64, now: Duration) -> bool {
        self.broken.contains(&lease) || self.moved.excuses(lease, token, now)
    }

    /// All is told that came of an event: of the arrival of this caller, if it was one.
    pub(crate) fn settled(
        &mut self,
        sidecar: usize,
        of: (Option<CallerId>, Option<&Holding>),
        local: Instant,
    ) {
        let judged = self.places.settled(sidecar, of, local);
        self.judge(judged);
    }

    pub(crate) fn stops_waiting(&mut self, sidecar: usize, caller: CallerId) {
        self.places.stops_waiting(sidecar, caller);
    }

    pub(crate) fn restarted(&mut self, sidecar: usize) {
        self.places.restarted(sidecar);
        self.truth.restarted(sidecar);
        self.moved.restarted(sidecar);
        self.promises.restarted(sidecar);
        self.hand_overs.restarted(sidecar);
        self.notices.restarted(sidecar);
        self.counters.restarted(sidecar);
        self.turns.restarted(sidecar);
    }

    /// S4, on the sidecar's side: nobody is kept past the end of its validity by a machine that was just
    /// looked at.
    pub(crate) fn machine(&mut self, sidecar: usize, hold: &Hold, now: Instant) {
        if let Some(holding) = hold.holding()
            && holding.active
            && holding.valid_until <= now
        {
            self.fail(format!(
                "S4: sidecar {sidecar} keeps {:?} past its validity",
                holding.caller
            ));
        }
    }

    /// Whether this is a grant under a lease that may be over, without anybody's knowing.
    fn may_be_late(&self, action: &Action, now: Duration) -> bool {
        matches!(
            action,
            Action::Tell { notice: Notice::Granted(grant), .. }
                if self.excuses(grant.lease_id, grant.token.value(), now)
        )
    }

    /// What a sidecar tells: HELD, (AT_RISK, HELD)*, then the end, and never back.
    pub(crate) fn told(&mut self, look: Look, action: &Action) {
        let Look { sidecar, now, .. } = look;
        let judged = self.places.told(sidecar, action);
        self.judge(judged);
        self.check_truth(sidecar, action);
        let judged = self.promises.told(look, action);
        self.judge(judged);
        let judged = self.notices.told(look, action);
        self.judge(judged);
        // A resume that is answered late may have been followed by another (S16).
        let outdated = match action {
            Action::Tell { notice: Notice::Granted(grant), .. } if grant.resumed => {
                !self.promises.goes_on(grant.lease_id, grant.generation)
            }
            _ => false,
        };
        let (broken, moved) = (&self.broken, &self.moved);
        let is_excused = |lease| outdated || broken.contains(&lease) || moved.may_have_ended(lease);
        let judged = self.counters.told(sidecar, action, is_excused);
        self.judge(judged);
        let may_be_late = self.may_be_late(action, now);
        let judged = self.occurrences.told(action, may_be_late);
        self.judge(judged);
        if let Action::Tell { notice: Notice::Granted(grant), .. } = action
            && grant.token.hand_offs() > 0
            && !grant.resumed
        {
            self.idle.handed_on(grant.lease_id, now);
        }
        let Action::Tell { caller, notice } = action else { return };
        let next = match notice {
            Notice::Granted(grant) => {
                self.granted.insert((sidecar, grant.lease_id));
                self.moved.granted(grant.lease_id, grant.token.value());
                if !grant.resumed {
                    let judged = self.places.served(sidecar, *caller);
                    self.judge(judged);
                    self.check_token(grant.token.value(), grant.lease_id, now);
                    self.newest_grant = now;
                }
                Told::Held
            }
            Notice::Renewed { .. } | Notice::Recovered { .. } => Told::Held,
            Notice::AtRisk { .. } => Told::AtRisk,
            Notice::Lost { .. } | Notice::ResumeRefused { .. } => Told::Over,
            Notice::Released { .. } | Notice::NotConfirmed { .. } => {
                self.told.insert(*caller, Told::Over);
                return;
            }
            Notice::Busy(_)
            | Notice::Failed(_)
            | Notice::Settled { .. }
            | Notice::Superseded { .. } => {
                self.stops_waiting(sidecar, *caller);
                return;
            }
            _ => return,
        };
        let caller = *caller;
        let before = self.told.insert(caller, next);
        // Who has lost a hold and releases it all the same is told so once more (S13).
        if before == Some(Told::Over) && next == Told::Over && self.asked.remove(&caller) {
            return;
        }
        let wrong = match (before, next) {
            (Some(Told::Over), _) | (Some(Told::AtRisk), Told::AtRisk) => true,
            (None, Told::AtRisk) => true,
            (None, Told::Held | Told::Over) | (Some(_), _) => false,
        };
        if wrong {
            self.fail(format!("S4: {caller:?} is told {action:?} after {before:?}"));
        }
    }

    /// Whether a caller's lease may have run out for its sidecar's clock, or was ended at once (S3, S17).
    fn is_excused(&self, caller: CallerId) -> bool {
        self.truth.leases.get(&caller).is_some_and(|lease| self.may_have_ended(*lease))
    }

    /// What is told must be so (S3, S8, S13).
    fn check_truth(&mut self, sidecar: usize, action: &Action) {
        let lie = match action {
            Action::Tell { notice: Notice::Lost { reason, .. }, .. }
                if self.mode == Mode::Clocks && !by_its_bounds(*reason) =>
            {
                Some(format!("S3: nothing but clocks was wrong, and yet {action:?}"))
            }
            Action::Tell { notice: Notice::AtRisk { .. }, .. } if self.mode == Mode::Clocks => {
                Some(format!("S3: nothing but clocks was wrong, and yet {action:?}"))
            }
            Action::Tell { caller, notice: Notice::Lost { reason, .. } }
                if !self.is_excused(*caller) =>
            {
                self.truth.lost(*caller, *reason)
            }
            Action::Tell { caller, notice: Notice::Released { .. } } => {
                self.truth.released(sidecar, *caller)
            }
            _ => None,
        };
        if let Some(lie) = lie {
            self.fail(lie);
        }
    }

    /// S5: tokens grow in the order of their grants. Under a lease that was ended at once they may come too
    /// late, and are refused then; but no token is given twice.
    fn check_token(&mut self, token: u64, lease_id: LeaseId, now: Duration) {
        let highest = self.tokens.last().copied().unwrap_or_default();
        let late = token < highest && self.excuses(lease_id, token, now);
        if !self.tokens.insert(token) || token <= highest && !late {
            self.fail(format!("S5: token {token} is granted after {highest}"));
        }
        self.grants += 1;
    }

    /// Nobody wants anything any more: nobody is left without an answer.
    pub(crate) fn ended(&mut self) {
        let judged = self.counters.ended();
        self.judge(judged);
    }

    /// A write at the protected resource, which refuses older tokens than it has seen.
    pub(crate) fn write(&mut self, token: u64, now: Duration) {
        self.writes += 1;
        if !self.tokens.contains(&token) {
            self.fail(format!("S5: {token} was never granted, and is written with at {now:?}"));
        }
        if token < self.accepted {
            self.stale_writes += 1;
        } else {
            self.accepted = token;
        }
    }
}

/// Whether a hold ended as its caller had asked (S11).
const fn by_its_bounds(reason: LossReason) -> bool {
    matches!(reason, LossReason::MaxHoldReached | LossReason::NoProgress)
}
