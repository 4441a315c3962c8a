//! Runs every scenario in every language, and prints the results.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::clients::driver::Driver;
use crate::clients::sidecar::Sidecar;
use crate::clients::{
    checkpoints, ends, following, notice, older, permits, scenarios, schedules, sharing,
};

/// Calls `$run` with each scenario's module and name.
macro_rules! for_each_scenario {
    ($run:ident) => {
        $run!(scenarios, acquire);
        $run!(scenarios, busy);
        $run!(scenarios, wait);
        $run!(scenarios, wait_without_end);
        $run!(scenarios, cancel_while_waiting);
        $run!(scenarios, exception_in_the_block);
        $run!(scenarios, bad_input);
        $run!(scenarios, calls_of_their_own);
        $run!(scenarios, progress);
        $run!(scenarios, watch);
        $run!(scenarios, loss_by_break);
        $run!(scenarios, release_says_already_lost);
        $run!(scenarios, at_risk_and_recovered);
        $run!(scenarios, restart_with_resume);
        $run!(scenarios, release_carries_the_newest_generation);
        $run!(scenarios, client_stopped_past_its_validity);
        $run!(scenarios, sidecar_stopped_past_the_lease);
        $run!(scenarios, quick_locks);
        $run!(checkpoints, save_and_read_back);
        $run!(checkpoints, checkpoint_too_large);
        $run!(checkpoints, late_save);
        $run!(checkpoints, release_with_checkpoint);
        $run!(checkpoints, save_across_a_restart);
        $run!(checkpoints, checkpoint_unknown);
        $run!(notice, notice);
        $run!(notice, broken_during_the_notice);
        $run!(permits, permits);
        $run!(sharing, greater_priority_takes_over);
        $run!(sharing, share_is_said_back);
        $run!(older, older_sidecar);
        $run!(older, older_sidecar_beside_a_newer);
        $run!(older, resume_past_an_older_sidecar);
        $run!(following, lead);
        $run!(following, stop_waiting_to_lead);
        $run!(following, watch_locks);
        $run!(following, what_a_sidecar_says);
        $run!(following, wait_forever_across_a_restart);
        $run!(ends, exit_with_an_open_iterator);
        $run!(ends, interrupt_from_outside);
        $run!(ends, release_is_bounded);
        $run!(ends, silent_network);
        $run!(ends, hand_over);
        $run!(schedules, run_on_a_schedule);
        $run!(schedules, run_again_after_a_failure);
        $run!(schedules, share_a_schedule);
        $run!(schedules, run_across_a_restart);
        $run!(schedules, function_that_hangs);
        $run!(schedules, named_occurrence);
        $run!(scenarios, sidecar_gone_for_good);
    };
}

/// How many scenarios of a language run at once: most of their time goes on waiting for leases to end.
const AT_ONCE: usize = 2;

/// One row of the table.
type Scenario = for<'a> fn(&'a mut Driver, &'a mut Sidecar) -> BoxFuture<'a, ()>;

/// The rows that were asked for.
fn asked_for() -> Vec<(&'static str, Scenario)> {
    let mut rows: Vec<(&'static str, Scenario)> = Vec::new();
    macro_rules! add {
        ($module:ident, $scenario:ident) => {
            if is_asked_for(stringify!($scenario)) {
                let run: Scenario = |driver, sidecar| Box::pin($module::$scenario(driver, sidecar));
                rows.push((stringify!($scenario), run));
            }
        };
    }
    for_each_scenario!(add);
    assert!(!rows.is_empty(), "LEASEHOLD_TEST_SCENARIOS names no scenario");
    rows
}

/// Whether each scenario went well, by its place in the table.
async fn all(language: &'static str) -> BTreeMap<usize, bool> {
    let rows = Arc::new(asked_for());
    let next = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = std::iter::repeat_with(|| {
        tokio::spawn(some(language, Arc::clone(&rows), Arc::clone(&next)))
    })
    .take(AT_ONCE)
    .collect();
    let mut results = BTreeMap::new();
    for worker in workers {
        results.extend(worker.await.unwrap());
    }
    results
}

/// Runs scenarios one after the other, with a sidecar and a driver of their own, until none is left.
async fn some(
    language: &'static str,
    rows: Arc<Vec<(&'static str, Scenario)>>,
    next: Arc<AtomicUsize>,
) -> Vec<(usize, bool)> {
    let mut results = Vec::new();
    let mut pair = None;
    while let place = next.fetch_add(1, Ordering::Relaxed)
        && let Some((name, scenario)) = rows.get(place)
    {
        let (mut driver, mut sidecar) = match pair.take() {
            Some(pair) => pair,
            None => {
                let sidecar = Sidecar::start().await;
                (Driver::start(language, &sidecar.endpoint()).await, sidecar)
            }
        };
        driver.forget();
        let running = scenario(&mut driver, &mut sidecar);
        let went_well = AssertUnwindSafe(running).catch_unwind().await.is_ok();
        results.push((place, went_well));
        // What is left of one that failed must not spoil the next one.
        if went_well && *name != "sidecar_gone_for_good" {
            pair = Some((driver, sidecar));
        }
    }
    results
}

/// Whether this scenario was asked for; all are, if none were.
fn is_asked_for(scenario: &str) -> bool {
    let asked = std::env::var("LEASEHOLD_TEST_SCENARIOS").unwrap_or_default();
    asked.is_empty() || asked.split(',').any(|one| one == scenario)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s4_s13_s14_s16_s21_to_s28_s33_s34_t2_t8_t11_t12_t24_hold_in_every_language() {
    let languages = crate::clients::languages();
    let running: Vec<_> = languages.iter().map(|language| tokio::spawn(all(language))).collect();
    let mut columns = Vec::new();
    for language in running {
        columns.push(language.await.unwrap());
    }
    let names = asked_for().into_iter().map(|(name, _)| name);
    println!("{:<40}{}", "", languages.map_words());
    let mut failed = Vec::new();
    for (row, name) in names.enumerate() {
        let cells: Vec<&str> = columns
            .iter()
            .zip(&languages)
            .map(|(column, language)| {
                let went_well = column[&row];
                if !went_well {
                    failed.push(format!("{language}: {name}"));
                }
                if went_well { "ok" } else { "FAILED" }
            })
            .collect();
        println!("{:<40}{}", name.replace('_', " "), cells.map_words());
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Words in columns.
trait Columns {
    fn map_words(&self) -> String;
}

impl Columns for Vec<&str> {
    fn map_words(&self) -> String {
        self.iter().map(|word| format!("{word:<12}")).collect()
    }
}
