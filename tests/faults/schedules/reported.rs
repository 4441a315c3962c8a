//! What users of schedulers report, and trials found here as well, played again with real processes at the
//! storage emulator: occurrences that are lost, repeated or withheld.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_client::{LockKey, ScheduleSpec, Subscription};
use tokio::sync::mpsc::unbounded_channel;

use super::reported_cast::{Every, next_due, now, operate, sidecar};
use super::{second, show};
use crate::faults::moving::{Clocks, Shift};
use crate::faults::process::{Environment, Sidecar, until};

const DAY: u64 = 86_400;

/// The schedule begins after this instant, as if nobody had been there since.
fn was_down_since(sidecar: &Sidecar, function: &str, since: SystemTime) {
    let since = humantime::format_rfc3339_seconds(since).to_string();
    operate(sidecar, function, &["reset", "--reason", "an outage", "--watermark", &since]);
}

/// The newest instants at this second of the day, the oldest first.
fn newest_days(second_of_day: u64, count: u64) -> Vec<u64> {
    let now = now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let newest = (now - second_of_day) / DAY * DAY + second_of_day;
    (0..count).rev().map(|back| newest - back * DAY).collect()
}

#[tokio::test]
async fn t13_t19_a_hundred_schedules_of_twenty_seconds_at_one_sidecar_lose_no_occurrence() {
    const SCHEDULES: usize = 100;
    const ROUNDS: usize = 3;
    let sidecar = sidecar("Crowd", &[]).await;
    let client = sidecar.client().await;
    let (sender, mut runs) = unbounded_channel();
    for schedule in 0..SCHEDULES {
        let spec = ScheduleSpec::every(Duration::from_secs(20));
        let key = LockKey::new(format!("often-{schedule}"), "");
        let (mut runs, sender) = (client.runs(Subscription::new(key, spec)), sender.clone());
        tokio::spawn(async move {
            loop {
                let run = runs.next().await.unwrap();
                let due = run.scheduled_at().duration_since(UNIX_EPOCH).unwrap().as_secs();
                sender.send((due, run.attempt(), run.missed_count(), run.lateness())).unwrap();
                run.succeeded().await.unwrap();
            }
        });
    }
    let mut rounds = BTreeMap::<u64, Vec<Duration>>::new();
    // Of the first round a part may have been due before it was subscribed to.
    let whole = |rounds: &BTreeMap<u64, Vec<Duration>>| {
        rounds.values().skip(1).filter(|runs| runs.len() == SCHEDULES).count()
    };
    while whole(&rounds) < ROUNDS {
        let (due, attempt, missed, late) = runs.recv().await.unwrap();
        assert_eq!((attempt, missed), (1, 0), "{due}");
        rounds.entry(due).or_default().push(late);
    }
    for (due, late) in &rounds {
        println!("{due}: {} runs, the last {:?} late", late.len(), late.iter().max().unwrap());
    }
    let dues: Vec<u64> = rounds.keys().copied().collect();
    assert!(dues.windows(2).all(|pair| pair[1] - pair[0] == 20), "{dues:?}");
}

#[tokio::test]
async fn t16_another_number_of_attempts_after_an_outage_loses_no_nightly_run() {
    let sidecar = sidecar("Policy", &[]).await;
    let nightly = |flags: &[&str]| {
        Every::start(&sidecar, "0 4 * * *", &[&["-f", "nightly"], flags].concat(), "")
    };
    let before = nightly(&["--retry", "3"]);
    next_due(&sidecar, "nightly").await;
    drop(before);
    let due = newest_days(4 * 3_600, 2);
    was_down_since(&sidecar, "nightly", UNIX_EPOCH + Duration::from_secs(due[0] - 1));
    let after = nightly(&["--retry", "4"]);
    let runs = after.runs(1).await;
    assert_eq!((runs[0].due, runs[0].missed, runs[0].attempt), (due[1], 1, 1), "{runs:?}");
}

#[tokio::test]
async fn t16_sidecars_with_other_defaults_have_one_definition() {
    let first = sidecar("Defaults", &["locks.lease_duration=20s"]).await;
    let second = sidecar("Defaults", &["locks.lease_duration=45s"]).await;
    let flags = ["-f", "same"];
    let one = Every::start(&first, "10s", &flags, "");
    next_due(&first, "same").await;
    let other = Every::start(&second, "10s", &flags, "");
    let look = || (one.journal().len() + other.journal().len() >= 3).then_some(());
    until("three runs", || format!("{}{}", one.notes(), other.notes()), look).await;
    for notes in [one.notes(), other.notes()] {
        assert!(!notes.contains("another definition"), "{notes}");
    }
}

#[tokio::test]
async fn t9_what_was_missed_is_caught_up_as_chosen() {
    let sidecar = sidecar("Missed", &[]).await;
    let every = |function: &str, expression: &str, flags: &[&str]| {
        Every::start(&sidecar, expression, &[&["-f", function], flags].concat(), "")
    };
    let (all, weekly) = ("all-seven", "weekly");
    let begun = [every(all, "0 4 * * *", &[]), every(weekly, "@weekly", &[])];
    next_due(&sidecar, all).await;
    next_due(&sidecar, weekly).await;
    drop(begun);
    let nights = newest_days(4 * 3_600, 10);
    was_down_since(&sidecar, all, UNIX_EPOCH + Duration::from_secs(nights[0]));
    let caught_up = every(all, "0 4 * * *", &["--catch-up", "all:7"]);
    let runs = caught_up.runs(8).await;
    let due: Vec<u64> = runs.iter().map(|run| run.due).collect();
    assert_eq!(due, nights[2..], "the newest, and seven before it");
    assert_eq!(runs[0].missed, 1, "the oldest");
    was_down_since(&sidecar, weekly, now() - Duration::from_secs(13 * DAY));
    let runs = every(weekly, "@weekly", &[]).runs(1).await;
    println!("a weekly job runs {} s after it was due", runs[0].late);
    // The epoch was a Thursday.
    assert_eq!((runs[0].due + 4 * DAY) % (7 * DAY), 0, "{runs:?}");
    assert!(now() < UNIX_EPOCH + Duration::from_secs(runs[0].due + 7 * DAY), "{runs:?}");
}

#[tokio::test]
async fn t18_a_run_by_hand_comes_though_runs_overlap_their_period() {
    let [with_subscriber, other] = [sidecar("ByHand", &[]).await, sidecar("ByHand", &[]).await];
    let flags = ["-f", "overlaps", "--timeout", "none", "--lease-duration", "15s"];
    let every = Every::start(&with_subscriber, "10s", &flags, "sleep 11");
    let before = every.runs(1).await.len();
    operate(&other, "overlaps", &["trigger", "--request-id", "ticket"]);
    let runs = every.runs(before + 3).await;
    let by_hand = runs.iter().position(|run| run.is_by_hand);
    println!("a run by hand is the {by_hand:?}th after {before}: {runs:?}");
    assert!(by_hand.is_some_and(|place| place <= before + 1), "{runs:?}");
}

#[tokio::test]
async fn t17_t18_a_run_by_hand_through_a_sidecar_without_subscribers_comes_with_the_next_look() {
    let clock = Clocks::new();
    let environment: Environment = vec![
        (
            "LEASEHOLD_STORE_AZURE_CONNECTION_STRING",
            super::reported_cast::azurite().connection_string(),
        ),
        clock.variable(),
    ];
    let quiet = Sidecar::start("ByHandQuiet", &[], environment).await;
    let other = sidecar("ByHandQuiet", &[]).await;
    let every = Every::start(&quiet, "@yearly", &["-f", "rarely"], "");
    next_due(&quiet, "rarely").await;
    operate(&other, "rarely", &["trigger", "--request-id", "ticket"]);
    assert!(every.journal().is_empty(), "nobody has told its sidecar");
    // A little more than the ten minutes between two looks (T17).
    clock.set(&Shift { boot: 601_000, ..Shift::default() });
    let runs = every.runs(1).await;
    assert!(runs[0].is_by_hand, "{runs:?}");
}

#[tokio::test]
async fn t16_who_comes_with_a_lower_revision_is_told() {
    let [first, second_one] = [sidecar("Overruled", &[]).await, sidecar("Overruled", &[]).await];
    let newer = Every::start(&first, "10s", &["-f", "both", "--revision", "2"], "");
    next_due(&first, "both").await;
    let older = Every::start(&second_one, "20s", &["-f", "both", "--revision", "1"], "");
    let told =
        || older.notes().contains("another definition is in force, of a higher").then_some(());
    until("it is told", || older.notes(), told).await;
    // Whoever subscribes may run what is due, by the definition in force.
    let run = || newer.journal().into_iter().chain(older.journal()).next();
    until("it is run", || newer.notes() + &older.notes(), run).await;
    let shown = show(&first, "both").unwrap();
    assert_eq!(shown["expression"], "@every 10s");
    assert!(second(&shown["next_at"]).is_some());
}
