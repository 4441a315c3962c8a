//! Processes of every language at one lock.

use std::collections::BTreeSet;

use serde_json::json;

use crate::clients::driver::Driver;
use crate::clients::sidecar::Sidecar;

const PROCESSES: u64 = 2;
const TIMES: u64 = 20;

#[tokio::test]
async fn s1_s5_all_languages_at_one_lock_lose_no_increment() {
    let languages = crate::clients::languages();
    let sidecar = Sidecar::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("counter");
    let mut drivers = Vec::new();
    for language in &languages {
        for _ in 0..PROCESSES {
            let mut driver = Driver::start(language, &sidecar.endpoint()).await;
            driver.tell("n", "contend", json!({ "file": file, "times": TIMES })).await;
            drivers.push(driver);
        }
    }
    let all = drivers.len() as u64 * TIMES;
    let mut tokens = BTreeSet::new();
    for driver in &mut drivers {
        let done = driver.event("n", "done").await;
        for token in done["tokens"].as_array().unwrap() {
            assert!(tokens.insert(token.as_u64().unwrap()), "granted twice: {token}");
        }
    }
    assert_eq!(tokens.len() as u64, all);
    let counted: u64 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    assert_eq!(counted, all, "increments were lost");
    println!("{} processes of {languages:?} added {counted} times; none was lost", drivers.len());
}
