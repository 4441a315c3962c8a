//! What a schedule costs between occurrences, counted in the storage emulator's own log.

use leasehold::testing::Azurite;

use super::cast::{Replica, Timer};
use super::{REPLICAS, show};
use crate::faults::moving::{Clocks, Shift};
use crate::faults::process::{Environment, Sidecar, until};

/// A little more than the ten minutes between two reads, in milliseconds.
const TEN_MINUTES: i64 = 601_000;
const ROUNDS: i64 = 3;
/// The plan, and the record.
const READS: usize = 2;

/// Not due while the test runs.
const RARELY: u64 = 300 * 86_400;

/// Nobody's: it is asked for last.
const LAST: &str = "asked-for-last";

/// The requests that the emulator has answered for the locks and plans of a function.
fn requests(azurite: &Azurite, function: &str) -> Vec<String> {
    azurite.log().lines().filter(|line| line.contains(function)).map(str::to_owned).collect()
}

#[tokio::test]
async fn t17_an_idle_replica_reads_plan_and_record_once_in_ten_minutes_and_nothing_else() {
    let azurite = Azurite::start().unwrap();
    let timer = Timer::new("rarely", RARELY, std::time::Duration::ZERO);
    let (mut clocks, mut sidecars, mut replicas) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..REPLICAS {
        let clock = Clocks::new();
        let environment: Environment = vec![
            ("LEASEHOLD_STORE_AZURE_CONNECTION_STRING", azurite.connection_string()),
            clock.variable(),
        ];
        let sidecar = Sidecar::start("Quiet", &[], environment).await;
        let way = ["--endpoint", &sidecar.endpoint()];
        replicas.push(Replica::start(&timer, &format!("replica-{index}"), &way, Vec::new()));
        clocks.push(clock);
        sidecars.push(sidecar);
    }
    for sidecar in &sidecars {
        let subscribed = || {
            let schedule = show(sidecar, &timer.function)?;
            (schedule["subscribers_here"] == 1).then_some(())
        };
        until("each replica has subscribed", || azurite.log(), subscribed).await;
    }
    // The emulator answers before it logs, and logs in order: what stands there once this does is all.
    show(&sidecars[0], LAST);
    let logged = || (!requests(&azurite, LAST).is_empty()).then_some(());
    until("what was asked for until now is logged", || azurite.log(), logged).await;
    let before = requests(&azurite, &timer.function).len();
    let mut due = before;
    for round in 1..=ROUNDS {
        // One after the other: a clock that moved before its sidecar has looked would be one look less.
        for clock in &clocks {
            clock.set(&Shift { boot: round * TEN_MINUTES, ..Shift::default() });
            due += READS;
            let read = || (requests(&azurite, &timer.function).len() >= due).then_some(());
            until("the replica reads", || azurite.log(), read).await;
        }
    }
    let since = requests(&azurite, &timer.function).split_off(before);
    // What one has asked for too much in a round stands before the reads of the next.
    assert_eq!(since.len(), READS * REPLICAS * usize::try_from(ROUNDS).unwrap(), "{since:#?}");
    let reads = |line: &&String| line.contains("\"HEAD ") || line.contains("\"GET ");
    assert!(since.iter().all(|line| reads(&line)), "{since:#?}");
}
