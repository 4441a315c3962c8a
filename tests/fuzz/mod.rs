//! Untrusted input: names, records, configuration, credentials, messages, the store's answers, and events in
//! any order. Nothing panics, nothing hangs, and every refusal has a message.
//!
//! `LEASEHOLD_TEST_FUZZ_CASES=N` says how many cases each target has. A case that fails is shrunk, printed,
//! and kept beside its test, to be run first from then on.

#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that fails says where"
)]

mod answers;
mod configuration;
mod deciding;
mod machine;
mod messages;
mod names;
mod queue;

use proptest::test_runner::Config;

/// How many cases: `usual` in the test command.
fn cases(usual: u32) -> Config {
    let asked = std::env::var("LEASEHOLD_TEST_FUZZ_CASES").ok();
    Config::with_cases(asked.map_or(usual, |number| number.parse().unwrap()))
}
