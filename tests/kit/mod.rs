//! What all worlds have in common, so that each is a scene and its checks: chance that a seed repeats and
//! from which a fault can be left out, the store as machines ask it, schedules run in number, the shortest
//! that still fails, and the search for mistakes that are planted.
//!
//! Each world has a name, with which its variables begin (here `NAME`); their values in the test command are
//! constants of the world:
//!
//! - `LEASEHOLD_TEST_NAME_SCHEDULES=N` says how many schedules the test runs, `LEASEHOLD_TEST_NAME_FROM=N`
//!   from which seed. With `LEASEHOLD_TEST_NAME_GO_ON=1` it tells each seed that fails and goes on.
//! - `LEASEHOLD_TEST_NAME_SEED=N` replays one and prints its timeline; with `LEASEHOLD_TEST_NAME_ONLY=…`,
//!   with these faults only, as a failing run prints them; with `LEASEHOLD_TEST_NAME_BUG=NoMargin`, with a
//!   planted mistake. The search for planted mistakes tells the schedule that finds this one then.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    clippy::print_stdout,
    reason = "a test that fails says where, and the others what they have seen"
)]

mod caught;
pub(crate) mod chance;
pub(crate) mod explore;
mod many;
pub(crate) mod store;
mod tests;
mod world;

pub(crate) use caught::panic_of;
pub(crate) use chance::{Chance, Fault, Only, Topic, millis, one_of};
pub(crate) use many::{Sums, run_many, survey};
pub(crate) use tests::{
    asked, assert_one_is_shrunk_and_told, assert_planted_are_found, assert_same_timelines,
    assert_sound, chosen, finds_by_chance, replay, variable,
};
pub(crate) use world::{Counts, Outcome, Planted, World, named};

/// An enum all of whose values are listed.
macro_rules! listed {
    ($(#[$of:meta])* pub(crate) enum $name:ident { $($(#[$meta:meta])* $value:ident,)+ }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name {
            $($(#[$meta])* $value,)+
        }

        impl $crate::kit::Listed for $name {
            const ALL: &'static [Self] = &[$(Self::$value),+];
        }
    };
}

pub(crate) use listed;

/// What all values of a type are.
pub(crate) trait Listed: Copy + PartialEq + std::fmt::Debug + 'static {
    const ALL: &'static [Self];

    /// The value of this name.
    fn named(name: &str) -> Self {
        *Self::ALL.iter().find(|value| format!("{value:?}") == name).unwrap()
    }
}
