//! Runs every scenario in every language, and prints the results.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

use crate::driver::Driver;
use crate::scenarios;
use crate::sidecar::Sidecar;

/// Calls `$run` with each scenario's name and function.
macro_rules! for_each_scenario {
    ($run:ident) => {
        $run!(acquire);
        $run!(busy);
        $run!(wait);
        $run!(wait_without_end);
        $run!(cancel_while_waiting);
        $run!(exception_in_the_block);
        $run!(bad_input);
        $run!(calls_of_their_own);
        $run!(progress);
        $run!(watch);
        $run!(loss_by_break);
        $run!(release_says_already_lost);
        $run!(at_risk_and_recovered);
        $run!(restart_with_resume);
        $run!(release_carries_the_newest_generation);
        $run!(client_stopped_past_its_validity);
        $run!(sidecar_stopped_past_the_lease);
        $run!(quick_locks);
        $run!(sidecar_gone_for_good);
    };
}

/// Whether each scenario went well, by its name.
async fn all(language: &'static str) -> Vec<(&'static str, bool)> {
    let mut results = Vec::new();
    let mut sidecar = Sidecar::start().await;
    let mut driver = Driver::start(language, &sidecar.endpoint()).await;
    macro_rules! run {
        ($scenario:ident) => {
            driver.forget();
            let running = scenarios::$scenario(&mut driver, &mut sidecar);
            let went_well = AssertUnwindSafe(running).catch_unwind().await.is_ok();
            results.push((stringify!($scenario), went_well));
            if !went_well {
                // What is left of it must not spoil the next one.
                sidecar = Sidecar::start().await;
                driver = Driver::start(language, &sidecar.endpoint()).await;
            }
        };
    }
    for_each_scenario!(run);
    drop((driver, sidecar));
    results
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s4_s13_s14_s16_s21_hold_in_every_language() {
    let languages = crate::languages();
    let running: Vec<_> = languages.iter().map(|language| tokio::spawn(all(language))).collect();
    let mut columns = Vec::new();
    for language in running {
        columns.push(language.await.unwrap());
    }
    let names: Vec<&str> = columns.first().unwrap().iter().map(|(name, _)| *name).collect();
    println!("{:<40}{}", "", languages.map_words());
    let mut failed = Vec::new();
    for (row, name) in names.iter().enumerate() {
        let cells: Vec<&str> = columns
            .iter()
            .zip(&languages)
            .map(|(column, language)| {
                let went_well = column.get(row).unwrap().1;
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
