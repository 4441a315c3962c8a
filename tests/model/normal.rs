//! One form for all situations that nothing can tell apart from then on: what no rule will look at again is
//! forgotten, so that more of what differs is visited.

use crate::model::state::{
    BreakStage, CallKind, Exchange, Lease, MOVER, Operation, Phase, Proof, Record, Reply, Request,
    Sidecar, Stage, World,
};

impl World {
    /// Brings it into that form.
    pub(crate) fn normalize(&mut self) {
        self.sidecars.iter_mut().for_each(Sidecar::forget_what_is_over);
        self.forget_vain_requests();
        self.forget_vain_calls();
        self.forget_vain_breaks();
        self.forget_vain_choices();
        self.forget_ended_leases();
        self.number_versions();
    }

    /// Whether anybody can still speak of this lease.
    fn is_known(&self, lease: Lease) -> bool {
        self.store.lease == lease
            || self.sidecars.iter().any(|sidecar| sidecar.lease == lease)
            || self.clients.iter().any(|client| client.lease == lease)
            || self.calls.iter().any(|call| call.lease == lease)
            || self.late.iter().any(|(_, request)| request.lease == lease)
    }

    /// Of the requests whose answer nobody waits for, those that the store will refuse whenever they come.
    fn forget_vain_requests(&mut self) {
        let (store, late) = (&self.store, &self.late);
        let may_come = |lease: Lease| {
            let is_acquire = |(_, request): &(usize, Request)| {
                request.lease == lease && request.operation == Operation::Acquire
            };
            late.iter().any(is_acquire)
                || self
                    .sidecars
                    .iter()
                    .any(|sidecar| sidecar.lease == lease && sidecar.phase == Phase::Acquiring)
        };
        let vain = |request: &Request| {
            let expected = match request.operation {
                Operation::Acquire => return false,
                Operation::Read => return true,
                Operation::Write { expected, .. } => Some(expected),
                Operation::Renew { expected } | Operation::Release { expected } => expected,
            };
            // Versions and leases never come again.
            expected.is_some_and(|expected| expected != store.record.version)
                || store.lease != request.lease && !may_come(request.lease)
        };
        let vain: Vec<bool> = late.iter().map(|(_, request)| vain(request)).collect();
        let mut vain = vain.into_iter();
        self.late.retain(|_| vain.next() != Some(true));
        for (at, request) in &mut self.late {
            (*at, request.fresh) = (0, 0);
        }
        self.late.sort();
    }

    /// Releases of a hold that no sidecar has, nor can take up any more. (To repeat one in vain would be a
    /// choice.)
    fn forget_vain_calls(&mut self) {
        if self.budget.repeated > 0 {
            return;
        }
        let sidecars = &self.sidecars;
        let resumes: Vec<Lease> = self
            .calls
            .iter()
            .filter(|call| call.what != CallKind::Release)
            .map(|call| call.lease)
            .collect();
        self.calls.retain(|call| {
            call.what != CallKind::Release
                || resumes.contains(&call.lease)
                || sidecars.iter().any(|sidecar| sidecar.lease == call.lease)
        });
    }

    /// A late break of a version that stands no more. What its sidecar knows it would be told of no more,
    /// either.
    fn forget_vain_breaks(&mut self) {
        let version = self.store.record.version;
        self.breaking
            .take_if(|breaking| breaking.stage == BreakStage::Late && breaking.expected != version);
        if let Some(breaking) = &mut self.breaking
            && breaking.stage == BreakStage::Late
        {
            breaking.again = false;
        }
    }

    /// What may still go wrong with a client that is gone.
    fn forget_vain_choices(&mut self) {
        if self.clients[MOVER].stage != Stage::Ended {
            return;
        }
        (self.budget.cuts, self.budget.resumes) = (0, 0);
        if self.calls.is_empty() {
            self.budget.repeated = 0;
            let has_it = |sidecar: &Sidecar| {
                let is_hold = match sidecar.phase {
                    Phase::Held | Phase::Silent | Phase::Renewing | Phase::Resuming => true,
                    Phase::Idle
                    | Phase::Acquiring
                    | Phase::Storing
                    | Phase::Revoked
                    | Phase::Ending { .. } => false,
                };
                is_hold && sidecar.holder == MOVER
            };
            if !self.sidecars.iter().any(has_it) {
                self.budget.bounds = 0;
            }
        }
    }

    fn forget_ended_leases(&mut self) {
        for lease in 1..8 {
            if !self.is_known(lease) {
                self.store.released &= !(1 << lease);
                self.ended_at_once &= !(1 << lease);
                self.met.take_if(|(_, met)| *met == lease);
            }
        }
        if !self.is_known(self.store.record.lease) {
            self.store.record.forget_whose();
        }
    }

    /// Versions are only compared, and only the store makes new ones: which number they have says nothing.
    fn number_versions(&mut self) {
        let mut seen = 1_u64;
        self.versions(&mut |version| seen |= 1 << *version);
        let rank = |version: u8| (seen & ((1 << version) - 1)).count_ones();
        self.versions(&mut |version| *version = u8::try_from(rank(*version)).unwrap());
    }

    fn versions(&mut self, visit: &mut impl FnMut(&mut u8)) {
        visit(&mut self.store.record.version);
        self.breaking.iter_mut().for_each(|breaking| visit(&mut breaking.expected));
        for sidecar in &mut self.sidecars {
            visit(&mut sidecar.version);
            if let Proof::Doubtful(version) = &mut sidecar.proof {
                visit(version);
            }
            if let Some(Exchange { request, reply }) = &mut sidecar.exchange {
                request.versions(visit);
                if let Some(Reply::Done(record)) = reply {
                    visit(&mut record.version);
                }
            }
        }
        self.late.iter_mut().for_each(|(_, request)| request.versions(visit));
    }
}

impl Request {
    fn versions(&mut self, visit: &mut impl FnMut(&mut u8)) {
        match &mut self.operation {
            Operation::Write { expected, .. } => visit(expected),
            Operation::Renew { expected } | Operation::Release { expected } => {
                expected.iter_mut().for_each(visit);
            }
            Operation::Acquire | Operation::Read => {}
        }
    }
}

impl Record {
    /// Of somebody else's write only these are ever read.
    fn forget_whose(&mut self) {
        let Self { version, epoch, number, .. } = *self;
        *self = Self { version, epoch, number, ..Self::default() };
    }
}

impl Sidecar {
    fn forget_what_is_over(&mut self) {
        if let Some(Exchange { request, reply: Some(Reply::Done(record)) }) = &mut self.exchange
            && record.lease != request.lease
        {
            record.forget_whose();
        }
        let is_resume = matches!(self.phase, Phase::Renewing | Phase::Resuming);
        if !is_resume {
            (self.claimed, self.trying) = (0, 0);
        }
        if self.phase != Phase::Held {
            self.bounded = false;
        }
        if self.phase != (Phase::Ending { asked: true }) {
            self.was_ours = false;
        }
        if let Phase::Ending { asked } = self.phase {
            (self.told, self.settling, self.own) = (0, 0, false);
            (self.epoch, self.number, self.stored, self.proof) = (0, 0, 0, Proof::Proven);
            if !asked {
                self.holder = MOVER;
            }
        }
        if self.phase == Phase::Revoked {
            (self.settling, self.proof) = (0, Proof::Proven);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use leasehold::testing::SeededRandom;

    use super::*;
    use crate::model::choices::actions;
    use crate::model::rules::{Rules, worlds};
    use crate::model::run::{Action, Run, start};

    fn next(world: &World, rules: &Rules, action: Action) -> Option<World> {
        let mut next = world.clone();
        let done = Run { world: &mut next, rules, effects: &mut Vec::new() }.step_as_it_is(action);
        done.then_some(next)
    }

    fn normal(mut world: World) -> World {
        world.normalize();
        world
    }

    /// Everything else that can come next, in the one form.
    fn all_next(world: &World, rules: &Rules) -> HashSet<World> {
        let mut found = Vec::new();
        actions(world, rules, &mut found);
        let all = found.into_iter().filter_map(|action| next(world, rules, action)).map(normal);
        let itself = normal(world.clone());
        all.filter(|next| *next != itself).collect()
    }

    #[test]
    fn what_is_forgotten_changes_nothing_that_can_come() {
        let mut random = SeededRandom::new(1);
        let mut forgotten = 0;
        for (name, rules) in worlds(0).into_iter().chain(worlds(1)) {
            for _ in 0..100 {
                let mut world = start(&rules);
                for _ in 0..100 {
                    let short = normal(world.clone());
                    forgotten += usize::from(short != world);
                    assert!(world.believers().eq(short.believers()), "{name}: {world:?}");
                    let (with, without) = (all_next(&world, &rules), all_next(&short, &rules));
                    let differing: Vec<_> = with.symmetric_difference(&without).collect();
                    assert_eq!(differing, [&world; 0], "{name}: {world:?}");
                    let mut found = Vec::new();
                    actions(&world, &rules, &mut found);
                    let chosen = usize::try_from(random.below(found.len() as u64)).unwrap();
                    world = next(&world, &rules, found[chosen]).unwrap_or(world);
                }
            }
        }
        println!("{forgotten} times something was forgotten");
        assert!(forgotten > 10_000, "nothing was forgotten");
    }
}
