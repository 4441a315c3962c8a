//! One list of scenarios for the clients of all languages, each driven as a process against the real binary.
//!
//! `LEASEHOLD_TEST_CLIENTS=go,python` runs those only, `LEASEHOLD_TEST_SCENARIOS=watch,busy` those rows of
//! the table only.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails says where")]

pub(crate) mod cargo;
mod checkpoints;
mod contention;
mod driver;
mod ends;
mod following;
mod newcomer;
mod notice;
mod older;
mod permits;
mod permits_sample;
mod proxy;
mod samples;
mod scenarios;
mod schedules;
mod sharing;
mod sidecar;
mod table;
mod test_support;
mod test_support_rust;

/// The languages that have a client, by the names of their folders.
const LANGUAGES: [&str; 5] = ["go", "java", "python", "rust", "typescript"];

/// Those that were asked for; all, if none were.
fn languages() -> Vec<&'static str> {
    let asked = std::env::var("LEASEHOLD_TEST_CLIENTS").unwrap_or_default();
    if asked.is_empty() {
        return LANGUAGES.to_vec();
    }
    let chosen: Vec<&str> =
        LANGUAGES.into_iter().filter(|name| asked.split(',').any(|one| one == *name)).collect();
    assert!(!chosen.is_empty(), "LEASEHOLD_TEST_CLIENTS names none of {LANGUAGES:?}: {asked:?}");
    chosen
}
