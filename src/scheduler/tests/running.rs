//! Who runs what, and when.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::rig::{
    at, complete, minutely, news, next, run, run_within, spec, standby, subscribe, subscription,
};
use crate::coordinator::tests::rig::{
    Account, LEASE, MINUTE, SECOND, by_key, pass, request, settle,
};
use crate::coordinator::{HoldRequest, LockEvent, LockEventKind, Observer, ScheduleEventKind};
use crate::schedule::{CatchUp, Occasion, Report, Spec};
use crate::scheduler::{Completion, ScheduleEvent, ScheduleStream};
use crate::time::Clock as _;

#[tokio::test(start_paused = true)]
async fn t5_a_first_subscription_runs_nothing_of_the_past() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = minutely(&sidecar);
    let told = standby(&mut stream).await;
    assert_eq!((told.next_at, told.last, told.paused), (Some(at(60)), None, false));
    let first = run(&mut stream).await;
    assert_eq!((first.told.scheduled_at, first.told.attempt), (at(60), 1));
    assert!(first.told.lateness <= SECOND, "who has not run before looks up to 1.2 s later");
    assert_eq!(first.told.missed_count, 0);
    assert_eq!(first.told.next_at, Some(at(120)));
}

#[tokio::test(start_paused = true)]
async fn t1_each_occurrence_is_run_once_whichever_sidecar() {
    let account = Account::new();
    let sidecars = [account.sidecar(), account.sidecar(), account.sidecar()];
    let mut seen = Vec::new();
    let (sender, mut runs) = tokio::sync::mpsc::unbounded_channel();
    for sidecar in sidecars {
        let sender = sender.clone();
        tokio::spawn(async move {
            let mut stream = minutely(&sidecar);
            loop {
                let run = run(&mut stream).await;
                sender.send(run.told.clone()).unwrap();
                pass(SECOND).await;
                let completed = complete(&sidecar, &run, Report::Succeeded).await;
                assert_eq!(completed.completion, Completion::Recorded);
                assert!(matches!(news(&mut stream).await, ScheduleEvent::Recorded { .. }));
            }
        });
    }
    drop(sender);
    for _ in 0..20 {
        seen.push(runs.recv().await.unwrap());
    }
    let times: Vec<_> = seen.iter().map(|told| told.scheduled_at).collect();
    assert_eq!(times, (1..=20).map(|n| at(n * 60)).collect::<Vec<_>>());
    assert!(seen.iter().all(|told| told.attempt == 1 && told.missed_count == 0));
    assert!(seen.iter().all(|told| told.lateness <= 2 * SECOND));
    assert!(seen.is_sorted_by(|one, other| one.run_id.token < other.run_id.token));
}

#[tokio::test(start_paused = true)]
async fn t17_who_comes_and_goes_puts_off_no_look_at_a_run_elsewhere() {
    let account = Account::new();
    let (sidecar, other) = (account.sidecar(), account.sidecar());
    let mut there = minutely(&sidecar);
    let granted = run(&mut there).await;
    let mut here = minutely(&other);
    assert!(standby(&mut here).await.next_at.is_some());
    complete(&sidecar, &granted, Report::Succeeded).await;
    drop(there);
    let passers_by = async {
        loop {
            pass(LEASE / 3).await;
            standby(&mut minutely(&other)).await;
        }
    };
    let granted = tokio::select! {
        granted = run_within(&mut here, 5 * MINUTE) => granted,
        () = passers_by => None,
    };
    assert_eq!(granted.map(|run| run.told.scheduled_at), Some(at(120)));
}

#[tokio::test(start_paused = true)]
async fn t6_a_run_is_granted_only_once_its_start_is_stored() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = minutely(&sidecar);
    let granted = run(&mut stream).await;
    let info = sidecar.scheduler.schedule(&by_key("nightly")).await.unwrap();
    let state = info.state.unwrap();
    let run = state.run.unwrap();
    assert_eq!(run.occasion, Occasion::Scheduled(at(60)));
    assert_eq!((run.attempt, run.token), (1, granted.grant.token));
    assert_eq!(state.next, Some(at(60)), "not final yet");
}

#[tokio::test(start_paused = true)]
async fn t7_a_run_is_never_early_by_the_stores_time() {
    let account = Account::new();
    let sidecar = account.sidecar();
    // The store's answers are late, so what is known of its clock is behind.
    sidecar.delay_everything();
    let mut stream = minutely(&sidecar);
    for n in 1..5 {
        let granted = run(&mut stream).await;
        let wall = account.clock.wall();
        assert!(wall.0 / 1_000 >= at(n * 60).0.unsigned_abs(), "{wall:?}");
        complete(&sidecar, &granted, Report::Succeeded).await;
    }
}

#[tokio::test(start_paused = true)]
async fn t10_what_falls_due_during_a_run_follows() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = subscribe(
        &sidecar,
        Spec { run_timeout: crate::schedule::RunTimeout::None, ..spec("@every 60s") },
    );
    let first = run(&mut stream).await;
    // Until 205: what was due at 120 is older than the newest, 180.
    pass(145 * SECOND).await;
    complete(&sidecar, &first, Report::Succeeded).await;
    assert!(matches!(news(&mut stream).await, ScheduleEvent::Recorded { .. }));
    let second = run_within(&mut stream, SECOND).await.expect("it follows at once");
    assert_eq!(second.told.scheduled_at, at(180));
    assert_eq!(second.told.missed_count, 1);
    assert!(second.told.lateness.abs_diff(25 * SECOND) <= SECOND, "{:?}", second.told.lateness);
}

#[tokio::test(start_paused = true)]
async fn t9_all_runs_what_was_missed_oldest_first() {
    let account = Account::new();
    let down = account.sidecar();
    let all = || Spec { catch_up: CatchUp::All(100), ..spec("@every 60s") };
    drop(subscribe(&down, all()));
    settle().await;
    let mut stream = subscribe(&down, all());
    standby(&mut stream).await;
    drop(stream);
    pass(5 * MINUTE).await;
    let sidecar = account.sidecar();
    let mut stream = subscribe(&sidecar, all());
    for n in 1..=5 {
        let granted = run(&mut stream).await;
        assert_eq!(granted.told.scheduled_at, at(n * 60));
        complete(&sidecar, &granted, Report::Succeeded).await;
        news(&mut stream).await;
    }
}

/// Counts starts that wait long in the queue.
#[derive(Debug, Default)]
struct Queued(AtomicUsize);

impl Observer for Queued {
    fn observe(&self, event: &LockEvent<'_>) {
        if let LockEventKind::Schedule(ScheduleEventKind::StartQueued) = event.kind {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn t13_a_crowd_that_is_due_together_is_started_fifty_a_second() {
    let account = Account::new();
    let queued = Arc::new(Queued::default());
    let sidecar = account.sidecar_with(Arc::clone(&queued) as _, 1, |it| {
        it.max_waiters = 10_000;
    });
    let (sender, mut runs) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..300 {
        let (sidecar, sender) = (sidecar.clone(), sender.clone());
        tokio::spawn(async move {
            let mut request = subscription(spec("*/10 * * * *"));
            request.key = crate::coordinator::tests::rig::key(&format!("nightly-{number}"));
            let mut stream = sidecar.scheduler.subscribe(request).unwrap();
            let granted = run(&mut stream).await;
            sender.send((sidecar.coordinator.clock().now(), granted.told.missed_count)).unwrap();
            complete(&sidecar, &granted, Report::Succeeded).await;
        });
    }
    drop(sender);
    let mut starts = Vec::new();
    for _ in 0..300 {
        let (started, missed) = runs.recv().await.unwrap();
        assert_eq!(missed, 0);
        starts.push(started);
    }
    starts.sort();
    for window in starts.windows(60) {
        let (first, last) = (window.first().unwrap(), window.last().unwrap());
        assert!(*last - *first >= SECOND, "60 starts within {:?}", *last - *first);
    }
    // Those of the first second are not late by the queue.
    let queued = queued.0.load(Ordering::Relaxed);
    assert!((150..300).contains(&queued), "what is asked for beyond is counted: {queued}");
}

#[tokio::test(start_paused = true)]
async fn t16_a_later_definition_of_the_same_revision_is_in_force_and_everybody_is_told() {
    let account = Account::new();
    let (old, new) = (account.sidecar(), account.sidecar());
    let mut first = minutely(&old);
    assert_eq!(standby(&mut first).await.next_at, Some(at(60)));
    let mut second = subscribe(&new, spec("@every 300s"));
    assert_eq!(standby(&mut second).await.next_at, Some(at(300)));
    // The old one notices at its next look, when its own occurrence is due.
    let told = loop {
        match next(&mut first).await {
            ScheduleEvent::Standby(_) => {}
            other => break other,
        }
    };
    let ScheduleEvent::DefinitionInForce { definition, conflict } = told else {
        panic!("{told:?}");
    };
    assert!(conflict);
    assert_eq!(definition.timetable.canonical(), "@every 5m");
}

#[tokio::test(start_paused = true)]
async fn t19_a_plain_hold_excludes_runs() {
    let account = Account::new();
    let (sidecar, other) = (account.sidecar(), account.sidecar());
    let mut stream = minutely(&sidecar);
    standby(&mut stream).await;
    let maintenance = other.acquire(HoldRequest { max_hold: None, ..request("nightly") }).await;
    assert!(run_within(&mut stream, 2 * MINUTE).await.is_none());
    other.release(&maintenance).await;
    let granted = run_within(&mut stream, 2 * LEASE + 10 * MINUTE).await.expect("it runs then");
    assert!(granted.told.scheduled_at > at(60));
    assert!(granted.told.missed_count > 0);
}

#[tokio::test(start_paused = true)]
async fn s37_a_subscriber_is_told_what_it_waits_for_before_a_run_that_is_due() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = minutely(&sidecar);
    standby(&mut stream).await;
    drop(stream);
    pass(90 * SECOND).await;
    let mut stream = minutely(&sidecar);
    assert_eq!(standby(&mut stream).await.next_at, Some(at(60)), "it is due");
    assert_eq!(run(&mut stream).await.told.scheduled_at, at(60));
}

/// Whether it is told now that a run goes on elsewhere.
async fn hears_of_a_run(stream: &mut ScheduleStream) -> bool {
    let mut hears = false;
    while let Ok(event) = tokio::time::timeout(2 * SECOND, next(stream)).await {
        if let ScheduleEvent::Standby(standby) = event {
            hears = standby.running_elsewhere;
        }
    }
    hears
}

#[tokio::test(start_paused = true)]
async fn t11_t17_who_waits_for_a_retry_is_not_told_that_somebody_runs() {
    let account = Account::new();
    let (sidecar, other) = (account.sidecar(), account.sidecar());
    let terms = || Spec { backoff: Some(10 * MINUTE), ..spec("@every 3600s") };
    let mut there = subscribe(&sidecar, terms());
    let granted = run(&mut there).await;
    let mut here = subscribe(&other, terms());
    assert!(hears_of_a_run(&mut here).await);
    complete(&sidecar, &granted, Report::Failed).await;
    pass(2 * LEASE).await;
    assert!(!hears_of_a_run(&mut here).await);
    drop(here);
    // Nor where who is here has given it back.
    let again = run(&mut there).await;
    complete(&sidecar, &again, Report::Returned).await;
    assert!(!hears_of_a_run(&mut there).await);
}
