//! Three processes without a sidecar, one of which is killed while it runs.

use std::time::Duration;

use leasehold::testing::Azurite;

use super::cast::{Line, Replica, Timer, problems};
use super::{REPLICAS, now};
use crate::faults::process::{Environment, number, until};

/// Which of the occurrences its runner does not survive.
const KILLED: usize = 2;

fn story(timer: &Timer) -> String {
    format!("{:#?}", timer.journal())
}

/// The runs that began, once there are so many.
async fn starts(timer: &Timer, count: usize) -> Vec<Line> {
    let look = || {
        let starts = timer.journal().into_iter().filter(|line| line.step == "start");
        let starts: Vec<Line> = starts.collect();
        (starts.len() >= count).then_some(starts)
    };
    until("a run begins", || story(timer), look).await
}

#[tokio::test]
async fn t2_t11_who_dies_in_a_run_has_it_run_again_by_another_as_the_next_attempt() {
    let azurite = Azurite::start().unwrap();
    let timer = Timer::new("table", 10, Duration::from_secs(2));
    let environment: Environment =
        vec![("LEASEHOLD_STORE_AZURE_CONNECTION_STRING", azurite.connection_string())];
    let way = ["--store", "azure", "--set", "host_id.host_type=Table"];
    let way = [&way[..], &["--set", "store.azure.create_container=true"]].concat();
    let start = |index: usize| {
        Replica::start(&timer, &format!("replica-{index}"), &way, environment.clone())
    };
    let mut replicas: Vec<Replica> = (0..REPLICAS).map(start).collect();
    let killed = starts(&timer, KILLED).await.pop().unwrap();
    let runner = replicas.iter_mut().find(|replica| replica.name == killed.replica).unwrap();
    runner.kill();
    let minutes = number("LEASEHOLD_TEST_SCHEDULES_MINUTES", 0).min(5);
    let last = (now() + minutes * 60).max(killed.due + 20) / timer.period * timer.period;
    let done = || timer.effects().contains(&last).then_some(());
    for _ in 0..minutes {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    until("the last one is done", || story(&timer), done).await;

    let starts = starts(&timer, KILLED).await;
    println!("due         started by  attempt  lateness  token");
    for line in &starts {
        println!(
            "{}  {}   {:>7}  {:>6} s  {}",
            line.due, line.replica, line.attempt, line.late, line.token
        );
    }
    let again = starts.iter().find(|line| line.due == killed.due && line.token > killed.token);
    let again = again.expect("it is run again");
    assert_eq!(again.attempt, killed.attempt + 1);
    assert_ne!(again.replica, killed.replica);
    let recorded: Vec<u64> = replicas.iter().flat_map(Replica::recorded).collect();
    assert_eq!(problems(&timer, starts[0].due, last, &recorded), [""; 0]);
}
