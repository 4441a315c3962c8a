//! The model as the checker sees it: what must always hold, and what must be reached.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use stateright::{Checker as _, HasDiscoveries, Model, Property};

use crate::model::choices::actions;
use crate::model::rules::Rules;
use crate::model::run::{Action, Run, start};
use crate::model::state::{Breach, Effect, World};

/// The model, and what its steps did.
#[derive(Debug)]
pub(crate) struct Lock {
    pub(crate) rules: Rules,
    pub(crate) sought: Sought,
    pub(crate) effects: Mutex<BTreeSet<Effect>>,
}

/// What an exploration ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sought {
    AnyBreach,
    /// Two clients that believe, whatever broke before that: what clients can see.
    TwoBelievers,
}

const ONE_BELIEVES: &str = "S1: one believes";

impl Model for Lock {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![start(&self.rules)]
    }

    fn actions(&self, world: &World, found: &mut Vec<Action>) {
        // Past a breach nothing more is to be learned.
        if world.breach.is_none() || self.sought == Sought::TwoBelievers {
            actions(world, &self.rules, found);
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        let mut effects = Vec::new();
        let rules = &self.rules;
        let done = Run { world: &mut next, rules, effects: &mut effects }.step(action);
        if !effects.is_empty() {
            self.effects.lock().unwrap_or_else(PoisonError::into_inner).extend(effects);
        }
        done.then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let one = Property::always(ONE_BELIEVES, |_, world: &World| world.believers().count() <= 1);
        if self.sought == Sought::TwoBelievers {
            return vec![one];
        }
        vec![
            one,
            Property::always("S4: lost is final", |_, world: &World| {
                world.breach != Some(Breach::Revived)
            }),
            Property::always("S5: tokens grow", |_, world: &World| {
                world.breach != Some(Breach::Token)
            }),
            Property::always("S13: RELEASED is true", |_, world: &World| {
                world.breach != Some(Breach::Released)
            }),
            Property::always(
                "S13, S16: nothing broken or unsettled is handed on",
                |_, world: &World| world.breach != Some(Breach::HandedOn),
            ),
            Property::always("S16: generations grow", |_, world: &World| {
                world.breach != Some(Breach::Generation)
            }),
            Property::always("S16: a foreign generation is refused", |_, world: &World| {
                world.breach != Some(Breach::ForeignGeneration)
            }),
            Property::always(
                "S16: a resumed hold ends early by its release alone",
                |_, world: &World| world.breach != Some(Breach::EarlyEnd),
            ),
            Property::always("S16: nothing is renewed over another's write", |_, world: &World| {
                world.breach != Some(Breach::RenewedOver)
            }),
            Property::always(
                "S16: nothing is released over another's write",
                |_, world: &World| world.breach != Some(Breach::ReleasedOver),
            ),
            Property::always("S13: nothing is released under a holder", |_, world: &World| {
                world.breach != Some(Breach::ReleasedUnder)
            }),
            Property::always("S10, S16: a recorded hand-off stands", |_, world: &World| {
                world.breach != Some(Breach::OlderToken)
            }),
            Property::always("S17: a break is for the grant that it names", |_, world: &World| {
                world.breach != Some(Breach::BrokeAnother)
            }),
            Property::always("S17: nothing is handed on where it is broken", |_, world: &World| {
                world.breach != Some(Breach::HandedOnBroken)
            }),
        ]
    }
}

/// What an exploration found.
#[derive(Debug)]
pub(crate) struct Explored {
    pub(crate) states: usize,
    pub(crate) effects: BTreeSet<Effect>,
    /// The broken property, and the steps that lead there.
    pub(crate) broken: Option<(String, Vec<Action>)>,
}

/// Explores everything that can happen; ends at the first property that is broken. Depth first: what waits to
/// be explored takes little room then, however large the world is.
pub(crate) fn explore(rules: Rules, sought: Sought) -> Explored {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let lock = Lock { rules, sought, effects: Mutex::default() };
    let checker =
        lock.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join();
    let broken = checker.discoveries().into_iter().next();
    assert!(broken.is_some() || checker.is_done(), "it was not explored in full");
    Explored {
        states: checker.unique_state_count(),
        effects: checker.model().effects.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        broken: broken.map(|(name, path)| (name.to_owned(), path.into_actions())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rules::{LARGE, Mistake, worlds};
    use crate::model::state::{How, MOVER, SIDECARS};
    use crate::model::traces::Walk;
    use leasehold::testing::{SeededRandom, accepts};

    fn variable(name: &str) -> Option<String> {
        std::env::var(format!("LEASEHOLD_TEST_MODEL_{name}")).ok()
    }

    fn longer() -> u8 {
        variable("LONGER").map_or(0, |ticks| ticks.parse().unwrap())
    }

    /// Whether this world is visited: the large ones when asked for with `LEASEHOLD_TEST_MODEL_LONGER=0`, or
    /// by name.
    fn is_visited(name: &str) -> bool {
        match variable("WORLD") {
            Some(chosen) => chosen == name,
            None => variable("LONGER").is_some() || !LARGE.contains(&name),
        }
    }

    /// In which nothing but a hand-over ends a stream that its client goes on without.
    const AFTER_HAND_OVERS: &str = "hand-overs";

    /// What the worlds must reach, or the model says nothing.
    const MUST_OCCUR: [Effect; 31] = [
        Effect::Granted { sidecar: 0, client: 0, how: How::Acquired },
        Effect::Granted { sidecar: 0, client: 0, how: How::Resumed },
        Effect::Granted { sidecar: 0, client: 1, how: How::Acquired },
        Effect::Granted { sidecar: 0, client: 1, how: How::HandedOn },
        Effect::Granted { sidecar: 1, client: 0, how: How::Resumed },
        Effect::Granted { sidecar: 1, client: 2, how: How::Acquired },
        Effect::Granted { sidecar: 1, client: 2, how: How::HandedOn },
        Effect::Told { client: 0 },
        Effect::Lost { client: 0 },
        Effect::Lost { client: 1 },
        Effect::Outcome { client: 0, released: true },
        Effect::Outcome { client: 0, released: false },
        Effect::ResumedUnheard,
        Effect::ResumeRepeated,
        Effect::Interrupted,
        Effect::ComeAgain,
        Effect::ResumeRefused { stale: true },
        Effect::Left,
        Effect::ReleaseRefusedHere,
        Effect::Settled,
        Effect::SilentWaitedOut,
        Effect::RanOut,
        Effect::LateRequestApplied,
        Effect::OwnLateWrite,
        Effect::Recorded,
        Effect::ResumedAhead,
        Effect::OlderRefused,
        Effect::BreakGoesOn,
        Effect::BreakRefused,
        Effect::BrokeUnrecorded,
        Effect::KeptFromWaiter,
    ];

    #[test]
    fn s1_s5_s13_s16_hold_in_each_state_of_the_model() {
        let mut states = 0;
        let mut effects = BTreeSet::new();
        for (name, rules) in worlds(longer()) {
            if !is_visited(name) {
                continue;
            }
            let explored = explore(rules, Sought::AnyBreach);
            println!("{name}: {} states, explored in full", explored.states);
            assert_eq!(explored.broken, None, "{name}");
            if name == AFTER_HAND_OVERS {
                let resumed = SIDECARS.map(|sidecar| {
                    let how = How::Resumed;
                    explored.effects.contains(&Effect::Granted { sidecar, client: MOVER, how })
                });
                assert_eq!(resumed, [true; 2], "nothing went on after a hand-over");
            }
            states += explored.states;
            effects.extend(explored.effects);
        }
        println!("{states} states in all");
        assert!(states > 0, "there is no such world");
        if variable("WORLD").is_some() {
            return;
        }
        let missing: Vec<_> =
            MUST_OCCUR.into_iter().filter(|effect| !effects.contains(effect)).collect();
        assert!(missing.is_empty(), "never occurred, so they were not tested: {missing:?}");
    }

    #[test]
    fn every_mistake_is_found_in_the_model() {
        let chosen = variable("MISTAKE");
        let mut missed = Vec::new();
        for mistake in Mistake::ALL {
            if chosen.as_ref().is_some_and(|chosen| *chosen != format!("{mistake:?}")) {
                continue;
            }
            let all = worlds(longer());
            let (name, rules) = *all.iter().find(|(name, _)| *name == mistake.world()).unwrap();
            let wrong = Rules { mistake: Some(mistake), ..rules };
            let explored = explore(wrong, Sought::AnyBreach);
            let Some((property, steps)) = explored.broken else {
                missed.push(mistake);
                continue;
            };
            println!("{mistake:?}: {property}, after {} states", explored.states);
            if chosen.is_some() {
                println!("{name}: {steps:#?}");
            }
            if mistake.makes_two_believe() {
                let explored = explore(wrong, Sought::TwoBelievers);
                let (_, steps) = explored.broken.unwrap();
                let mut walk = Walk::new(&wrong);
                steps.into_iter().for_each(|step| walk.step(step));
                assert!(accepts(&walk.trace).is_err(), "{mistake:?}: {:#?}", walk.trace);
            }
        }
        assert!(missed.is_empty(), "not found: {missed:?}");
    }

    /// The monitor that judges the simulator and the storm allows what the model does.
    #[test]
    fn every_trace_of_the_model_is_accepted() {
        let mut random = SeededRandom::new(1);
        let (mut events, mut grants) = (0, 0);
        for (name, rules) in worlds(longer()) {
            for _ in 0..800 {
                let mut walk = Walk::new(&rules);
                walk.wander(&mut random, 150);
                events += walk.trace.len();
                let is_grant = |event: &&leasehold::testing::TraceEvent| {
                    matches!(event.what, leasehold::testing::Traced::Granted { .. })
                };
                grants += walk.trace.iter().filter(is_grant).count();
                assert_eq!(accepts(&walk.trace), Ok(()), "{name}: {:#?}", walk.trace);
            }
        }
        println!("{events} events, {grants} grants");
        assert!(grants > 500, "the walks were too short");
    }
}
