//! Every order in which a bounded set of things can happen, not only those that chance picks.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// A state, and what can happen next.
pub(crate) trait State: Clone {
    type Step: Copy + Debug;

    fn steps(&self) -> Vec<Self::Step>;

    /// Takes a step, if no rule is broken by it.
    fn take(&mut self, step: Self::Step) -> Result<(), String>;

    /// All that what comes next hangs on: two states with one text go on alike.
    fn text(&self) -> String;
}

/// What was explored.
#[derive(Debug, Default)]
pub(crate) struct Explored {
    pub(crate) states: u64,
    /// Steps from the beginning to the farthest of them.
    pub(crate) depth: u32,
    /// Whether those are all there are.
    pub(crate) complete: bool,
    /// The rule that was broken, and the steps that lead there.
    pub(crate) violation: Option<String>,
}

fn fingerprint(state: &impl State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.text().hash(&mut hasher);
    hasher.finish()
}

/// Takes every step that is possible, from every state that is new, the shortest ways first, until `most`
/// states were looked at.
pub(crate) fn explore<S: State>(first: S, most: u64, mut look: impl FnMut(&S)) -> Explored {
    let mut explored = Explored::default();
    let begin = fingerprint(&first);
    // From where each state was reached, and by what.
    let mut ways: HashMap<u64, Option<(u64, S::Step)>> = HashMap::from([(begin, None)]);
    let mut open = VecDeque::from([(0, begin, first)]);
    while let Some((depth, at, state)) = open.pop_front() {
        explored.depth = depth;
        look(&state);
        if explored.states == most {
            return explored;
        }
        explored.states += 1;
        for step in state.steps() {
            let mut next = state.clone();
            if let Err(violation) = next.take(step) {
                let mut steps = vec![step];
                let mut way = ways[&at];
                while let Some((before, step)) = way {
                    steps.push(step);
                    way = ways[&before];
                }
                steps.reverse();
                explored.violation = Some(format!("{violation}, after {steps:?}"));
                return explored;
            }
            let there = fingerprint(&next);
            ways.entry(there).or_insert_with(|| {
                open.push_back((depth + 1, there, next));
                Some((at, step))
            });
        }
    }
    explored.complete = true;
    explored
}
