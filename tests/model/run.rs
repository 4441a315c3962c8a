//! The outcome of each step.

use crate::model::client::End;
use crate::model::rules::{Mistake, Rules};
use crate::model::state::{
    Breach, Call, CallKind, Client, Effect, Exchange, Lease, MOVER, Operation, Phase, Reply,
    Request, SIDECARS, Sidecar, Stage, Store, World,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Tick,
    /// Begins to acquire for a client that waits here.
    Acquire(usize, usize),
    /// Sends what its phase needs next.
    Send(usize),
    /// The request reaches the store; `doubled`: and will do so once more.
    Apply(usize, bool),
    Answer(usize),
    /// No answer comes; `arrives`: but the request will.
    GiveUp(usize, bool),
    ApplyLate(usize),
    /// The stream broke, and the sidecar notices.
    Notice(usize),
    /// The stream was closed by the client's side, and the sidecar trusts that (S14).
    NoticeClosed(usize),
    /// What was last told is over.
    Over(usize),
    Bound(usize),
    /// A resume whose caller has gone is not gone on with.
    DropResume(usize),
    Crash(usize, bool),
    /// The sidecar is told to end, and a replacement follows (S15); `arrives`: what a resume there has sent
    /// will.
    HandOver(usize, bool),
    /// Its time is over: what is not settled is left as it is; `arrives`: what was sent will.
    LeftAtLast(usize, bool),
    /// A hold that was handed on is written to the record (S10).
    Record(usize),
    /// An operator looks at the lock through a sidecar, and asks it to break the grant that stands: at once,
    /// or not (S17).
    Break(bool, usize),
    /// That reaches the store, and perhaps will once more.
    BreakArrives(bool),
    BreakAnswered,
    /// No answer comes; the request has arrived, or will, late.
    BreakGivenUp,
    WaiterReleases(usize),
    Cut,
    Resume(usize),
    StopsWaiting,
    Release(usize),
    Close,
    /// A call arrives, and perhaps once more, behind one address at either sidecar.
    Deliver(usize, Option<usize>),
}

/// One step.
pub(crate) struct Run<'a> {
    pub(crate) world: &'a mut World,
    pub(crate) rules: &'a Rules,
    pub(crate) effects: &'a mut Vec<Effect>,
}

pub(crate) fn start(rules: &Rules) -> World {
    let client = Client { stage: Stage::Waiting, until: 0, lease: 0, number: 0 };
    World {
        store: Store::new(),
        sidecars: [Sidecar::default(); 2],
        clients: [client; 3],
        mover: crate::model::state::Mover::default(),
        calls: Vec::new(),
        late: Vec::new(),
        budget: rules.budget,
        used: [0; 2],
        greatest: (0, 0),
        ended_at_once: 0,
        breaking: None,
        met: None,
        breach: None,
    }
}

impl World {
    /// The clients that believe, but for those whose lease an operator ended at once (S17).
    pub(crate) fn believers(&self) -> impl Iterator<Item = &Client> {
        let is_honoured = |client: &Client| self.ended_at_once & (1 << client.lease) == 0;
        self.clients.iter().filter(move |client| client.until > 0 && is_honoured(client))
    }
}

fn lease_of(world: &World, at: usize) -> Lease {
    u8::try_from(at + 1).unwrap() + 2 * world.used[at]
}

impl Run<'_> {
    pub(crate) fn breach(&mut self, breach: Breach) {
        self.world.breach.get_or_insert(breach);
    }

    /// False where nothing comes of it.
    pub(crate) fn step(&mut self, action: Action) -> bool {
        let done = self.step_as_it_is(action);
        self.world.normalize();
        done
    }

    /// One step that forgets nothing.
    pub(crate) fn step_as_it_is(&mut self, action: Action) -> bool {
        let done = self.act(action);
        for at in SIDECARS {
            self.go_on(at);
            self.leave_what_is_silent(at);
        }
        done
    }

    fn act(&mut self, action: Action) -> bool {
        match action {
            Action::Tick => self.tick(),
            Action::Acquire(at, client) => {
                let lease = lease_of(self.world, at);
                let sidecar = &mut self.world.sidecars[at];
                (sidecar.phase, sidecar.lease) = (Phase::Acquiring, lease);
                sidecar.holder = client;
                return self.proceed(at);
            }
            Action::Send(at) => return self.proceed(at),
            Action::Record(at) => self.record(at),
            Action::Apply(at, doubled) => self.apply(at, doubled),
            Action::Answer(at) => self.answer(at),
            Action::GiveUp(at, arrives) => {
                self.world.budget.unknown -= 1;
                self.give_up(at, arrives);
            }
            Action::ApplyLate(index) => {
                let (_, request) = self.world.late.remove(index);
                if let Reply::Done(_) = self.at_store(request) {
                    self.effects.push(Effect::LateRequestApplied);
                }
            }
            Action::Notice(at) => {
                let sidecar = &mut self.world.sidecars[at];
                sidecar.phase = Phase::Silent;
                sidecar.exchange.take_if(|exchange| !exchange.request.is_write());
            }
            Action::NoticeClosed(at) => self.end_hold(at, End::Closed),
            Action::Over(at) => self.over(at),
            Action::Bound(at) => {
                self.world.budget.bounds -= 1;
                self.world.sidecars[at].bounded = true;
            }
            Action::DropResume(at) => {
                self.world.sidecars[at].exchange = None;
                self.drop_resume(at);
            }
            Action::Crash(at, arrives) => {
                self.world.budget.crashes -= 1;
                self.crash(at, arrives);
            }
            Action::HandOver(at, arrives) => self.hand_over(at, arrives),
            Action::LeftAtLast(at, arrives) => self.left_at_last(at, arrives),
            Action::Break(at_once, through) => return self.begin_break(at_once, through),
            Action::BreakArrives(again) => self.break_arrives(again),
            Action::BreakAnswered => self.break_answered(),
            Action::BreakGivenUp => self.break_given_up(),
            Action::WaiterReleases(client) => self.waiter_releases(client),
            Action::Cut
            | Action::Resume(_)
            | Action::StopsWaiting
            | Action::Release(_)
            | Action::Close => self.mover_acts(action),
            Action::Deliver(index, again) => return self.deliver(index, again),
        }
        true
    }

    fn tick(&mut self) {
        self.world.store.tick();
        for sidecar in &mut self.world.sidecars {
            sidecar.valid = sidecar.valid.saturating_sub(1);
            sidecar.told = sidecar.told.saturating_sub(1);
            sidecar.settling = sidecar.settling.saturating_sub(1);
            if let Some(exchange) = &mut sidecar.exchange {
                exchange.request.fresh = exchange.request.fresh.saturating_sub(1);
            }
        }
        for client in &mut self.world.clients {
            client.until = client.until.saturating_sub(1);
        }
        // S4: lost is final.
        for client in 0..self.world.clients.len() {
            let it = self.world.clients[client];
            let revives = client == MOVER && self.rules.has(Mistake::LateResumeRevives);
            if it.stage == Stage::Holding && it.until == 0 && !revives {
                self.stop(client);
            }
        }
    }

    /// A request reaches the store.
    fn at_store(&mut self, request: Request) -> Reply {
        let before = self.world.store.record;
        let reply = self.world.store.apply(request, self.rules.duration);
        if let (Operation::Write { record, claimed, .. }, Reply::Done(_)) =
            (request.operation, reply)
            && claimed != 0
        {
            if before.generation != claimed && before.attempt != record.attempt {
                self.breach(Breach::ForeignGeneration);
            }
            // What stands in the record, and what a sidecar takes for written there.
            let written = |sidecar: &Sidecar| sidecar.lease == record.lease && sidecar.own;
            let here = self.world.sidecars.iter().filter(|sidecar| written(sidecar));
            let recorded = here.map(|sidecar| sidecar.stored).max();
            if before.number.max(recorded.unwrap_or(0)) > record.number {
                self.breach(Breach::OlderToken);
            }
        }
        if let (Operation::Release { .. }, Reply::Done(_)) = (request.operation, reply)
            && self.world.believers().any(|client| client.lease == request.lease)
        {
            self.breach(Breach::ReleasedUnder);
        }
        reply
    }

    fn apply(&mut self, at: usize, doubled: bool) {
        let Some(Exchange { request, .. }) = self.world.sidecars[at].exchange else { return };
        let reply = self.at_store(request);
        self.world.sidecars[at].exchange = Some(Exchange { request, reply: Some(reply) });
        // Busy: nothing has happened, so the answer may as well be there at once.
        if request.operation == Operation::Acquire && reply == Reply::NotOurs && !doubled {
            self.answer(at);
        }
        if doubled {
            self.world.budget.doubled -= 1;
            self.world.late.push((at, Request { fresh: 0, ..request }));
        }
    }

    /// The validity last told is over, or what was to be released can no longer be valid.
    fn over(&mut self, at: usize) {
        let sidecar = self.world.sidecars[at];
        match sidecar.phase {
            // S4, S15: it is lost, and runs out.
            Phase::Held if sidecar.ending => {
                if sidecar.holder != MOVER || self.world.mover.stream == Some(at) {
                    self.stop(sidecar.holder);
                }
                self.forget(at);
            }
            Phase::Held => {
                if sidecar.holder != MOVER || self.world.mover.stream == Some(at) {
                    self.stop(sidecar.holder);
                }
                self.end_hold(at, End::Over);
            }
            Phase::Silent => {
                self.effects.push(Effect::SilentWaitedOut);
                self.leave_exchange(at);
                self.world.sidecars[at].phase = Phase::Ending { asked: false };
            }
            Phase::Ending { asked } => {
                if asked {
                    self.tell_outcome(at, true, true);
                }
                self.forget(at);
            }
            Phase::Revoked => self.forget(at),
            Phase::Idle | Phase::Acquiring | Phase::Storing | Phase::Renewing | Phase::Resuming => {
            }
        }
    }

    /// The process ends; another begins in its place, and knows nothing.
    pub(crate) fn crash(&mut self, at: usize, arrives: bool) {
        let sidecar = self.world.sidecars[at];
        self.forget_breaks_of(at);
        if let (Some(exchange), true) = (sidecar.exchange, arrives) {
            self.world.late.push((at, Request { fresh: 0, ..exchange.request }));
        }
        // S6: an id is never used again.
        if matches!(sidecar.phase, Phase::Acquiring) {
            self.world.used[at] += 1;
        }
        if self.world.mover.stream == Some(at) {
            self.world.mover.stream = None;
        }
        if self.world.mover.awaiting == Some(at) {
            self.world.mover.awaiting = None;
        }
        self.forget(at);
    }

    fn waiter_releases(&mut self, client: usize) {
        let at = client - 1;
        self.effects.push(Effect::EndsBelief { client });
        self.stop(client);
        let sidecar = self.world.sidecars[at];
        let is_holding = matches!(sidecar.phase, Phase::Held | Phase::Revoked);
        if is_holding && sidecar.holder == client && sidecar.own {
            self.end_hold(at, End::Release);
        }
    }

    fn mover_acts(&mut self, action: Action) {
        match action {
            Action::Cut => {
                self.world.budget.cuts -= 1;
                self.world.mover.stream = None;
            }
            Action::Resume(to) => {
                self.world.budget.resumes -= 1;
                let mover = &mut self.world.mover;
                mover.attempt += u8::from(!mover.unsure);
                (mover.unsure, mover.awaiting) = (true, Some(to));
                let attempt = mover.attempt;
                self.push_call(to, CallKind::Resume { attempt });
            }
            Action::StopsWaiting => self.world.mover.awaiting = None,
            Action::Release(to) => {
                self.push_call(to, CallKind::Release);
                self.effects.push(Effect::EndsBelief { client: MOVER });
                self.stop(MOVER);
            }
            Action::Close => {
                self.effects.push(Effect::EndsBelief { client: MOVER });
                self.stop(MOVER);
            }
            Action::Tick
            | Action::Acquire(..)
            | Action::Send(_)
            | Action::Apply(..)
            | Action::Answer(_)
            | Action::GiveUp(..)
            | Action::ApplyLate(_)
            | Action::Notice(_)
            | Action::NoticeClosed(_)
            | Action::Over(_)
            | Action::Bound(_)
            | Action::DropResume(_)
            | Action::Crash(..)
            | Action::HandOver(..)
            | Action::LeftAtLast(..)
            | Action::Record(_)
            | Action::Break(..)
            | Action::BreakArrives(_)
            | Action::BreakAnswered
            | Action::BreakGivenUp
            | Action::WaiterReleases(_)
            | Action::Deliver(..) => {}
        }
    }

    fn push_call(&mut self, to: usize, what: CallKind) {
        let call = self.call(to, what);
        self.world.calls.push(call);
        self.world.calls.sort();
    }

    fn deliver(&mut self, index: usize, again: Option<usize>) -> bool {
        let call = self.world.calls.remove(index);
        if let Some(to) = again {
            self.world.budget.repeated -= 1;
            self.world.calls.push(Call { to, ..call });
            self.world.calls.sort();
        }
        self.arrive(call)
    }
}
