//! The model's own runs as traces: the monitor that judges the simulator and the storm must accept what the
//! model allows, and reject what a mistake leads to.

use leasehold::testing::{HAND_OFFS, SeededRandom, TraceEvent, Traced};

use crate::model::choices::actions;
use crate::model::rules::Rules;
use crate::model::run::{Action, Run, start};
use crate::model::state::{Effect, How, MOVER, World};

/// A tick in microseconds.
const TICK: u64 = 1_000_000;

/// Follows a run of the model.
pub(crate) struct Walk<'a> {
    rules: &'a Rules,
    pub(crate) world: World,
    ticks: u64,
    steps: u64,
    /// The token of each client's hold.
    tokens: [u64; 3],
    /// Whose lease an operator had ended at once before they were granted the lock (S17): a trace cannot
    /// excuse that.
    left_out: [bool; 3],
    pub(crate) trace: Vec<TraceEvent>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(rules: &'a Rules) -> Self {
        let world = start(rules);
        Self {
            rules,
            world,
            ticks: 0,
            steps: 0,
            tokens: [0; 3],
            left_out: [false; 3],
            trace: Vec::new(),
        }
    }

    pub(crate) fn step(&mut self, action: Action) {
        let mut effects = Vec::new();
        let (world, rules) = (&mut self.world, self.rules);
        Run { world, rules, effects: &mut effects }.step(action);
        if action == Action::Tick {
            (self.ticks, self.steps) = (self.ticks + 1, 0);
        }
        for effect in effects {
            self.steps += 1;
            self.note(effect);
        }
    }

    /// Takes steps by chance.
    pub(crate) fn wander(&mut self, random: &mut SeededRandom, steps: usize) {
        for _ in 0..steps {
            let mut found = Vec::new();
            actions(&self.world, self.rules, &mut found);
            let chosen = random.below(found.len() as u64);
            let action = found[usize::try_from(chosen).unwrap()];
            let before = self.world.clone();
            let length = self.trace.len();
            self.step(action);
            // A call that has to wait stays on its way.
            if matches!(action, Action::Deliver(..)) && self.trace.len() == length {
                let waits = self.world.sidecars == before.sidecars;
                if waits {
                    self.world = before;
                }
            }
        }
    }

    fn note(&mut self, effect: Effect) {
        let mut of = MOVER;
        let what = match effect {
            Effect::Granted { sidecar, client, how } => {
                let holder = &self.world.sidecars[sidecar];
                let token = u64::from(holder.epoch) * HAND_OFFS + u64::from(holder.number);
                self.tokens[client] = token;
                self.left_out[client] = self.world.ended_at_once & (1 << holder.lease) != 0;
                let until = u64::from(self.world.clients[client].until);
                Traced::Granted {
                    token,
                    generation: Some(holder.generation.into()),
                    lease: Some(holder.lease.to_string()),
                    resumed: how == How::Resumed,
                    valid_until: (self.ticks + until) * TICK,
                }
            }
            Effect::Told { client } => {
                let until = u64::from(self.world.clients[client].until);
                Traced::Told {
                    token: self.tokens[client],
                    valid_until: (self.ticks + until) * TICK,
                }
            }
            Effect::EndsBelief { client } => Traced::Ending { token: self.tokens[client] },
            Effect::Lost { client } => Traced::Lost { token: self.tokens[client] },
            Effect::Outcome { client, released } => {
                Traced::Released { token: self.tokens[client], released }
            }
            Effect::BrokenNow => Traced::LeaseVoided,
            Effect::ResumedUnheard
            | Effect::ResumeRefused { .. }
            | Effect::ResumeRepeated
            | Effect::Interrupted
            | Effect::ComeAgain
            | Effect::Left
            | Effect::ReleaseRefusedHere
            | Effect::Settled
            | Effect::SilentWaitedOut
            | Effect::RanOut
            | Effect::Revoked
            | Effect::OwnLateWrite
            | Effect::Recorded
            | Effect::ResumedAhead
            | Effect::OlderRefused
            | Effect::BreakGoesOn
            | Effect::BreakRefused
            | Effect::BrokeUnrecorded
            | Effect::KeptFromWaiter
            | Effect::LateRequestApplied => return,
        };
        if let Effect::Granted { client, .. }
        | Effect::Told { client }
        | Effect::EndsBelief { client }
        | Effect::Lost { client }
        | Effect::Outcome { client, .. } = effect
        {
            of = client;
            if self.left_out[client] {
                return;
            }
        }
        self.trace.push(TraceEvent {
            at: self.ticks * TICK + self.steps,
            process: format!("client {of}"),
            path: "lock".to_owned(),
            what,
        });
    }
}
