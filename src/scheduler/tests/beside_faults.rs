//! Crashes between the two writes beside hosts of .NET, and writers that come late (T22).

use super::beside::{EVERY, pair};
use super::dotnet::{beside, listening, local, lock, subscribe};
use super::rig::{at, complete, completion, late, run, run_within, spec, standby};
use crate::coordinator::tests::rig::{Account, LEASE, MINUTE, SECOND, pass, request, settle};
use crate::coordinator::{HoldRequest, LockSelector, Outcome};
use crate::schedule::Report;
use crate::scheduler::{Completion, ScheduleChange};
use crate::store::Operation;
use crate::testing::Fault;

#[tokio::test(start_paused = true)]
async fn t22_a_crash_after_the_status_was_written_repeats_and_loses_nothing() {
    let account = Account::new();
    let (dying, mut dotnet) = pair(&account);
    let other = beside(&account);
    let mut stream = subscribe(&dying, spec(EVERY));
    let granted = run(&mut stream).await;
    dying.faults().die_before(Operation::WriteRecord);
    let scheduler = dying.scheduler.clone();
    let request = completion(&granted, Report::Succeeded);
    let _never = tokio::spawn(async move { scheduler.complete_run(request).await });
    settle().await;
    assert_eq!(dotnet.last().await, Some(at(600)), "the first of the two writes");
    pass(2 * LEASE).await;
    // A host of .NET goes on after it.
    assert!(dotnet.start().await);
    assert_eq!((dotnet.resets, dotnet.last().await), (0, Some(at(600))));
    dotnet.stop().await;
    // Another sidecar too, and it knows the outcome.
    let mut stream = subscribe(&other, spec(EVERY));
    assert_eq!(standby(&mut stream).await.next_at, Some(at(1_200)));
    let again = other.scheduler.complete_run(late(&granted.told.run_id, Report::Succeeded));
    assert_eq!(again.await.unwrap().completion, Completion::Recorded);
    let contrary = other.scheduler.complete_run(late(&granted.told.run_id, Report::Failed));
    assert_eq!(contrary.await.unwrap().completion, Completion::Superseded);
    assert_eq!(run(&mut stream).await.told.scheduled_at, at(1_200));
}

#[tokio::test(start_paused = true)]
async fn t22_a_crash_before_the_status_was_written_leaves_the_run_to_others() {
    for to_dotnet in [false, true] {
        let account = Account::new();
        let (dying, mut dotnet) = pair(&account);
        let other = beside(&account);
        let mut stream = subscribe(&dying, spec(EVERY));
        let granted = run(&mut stream).await;
        dying.faults().die_before(Operation::WriteTimer);
        let scheduler = dying.scheduler.clone();
        let request = completion(&granted, Report::Succeeded);
        let _never = tokio::spawn(async move { scheduler.complete_run(request).await });
        pass(2 * LEASE).await;
        if to_dotnet {
            assert!(dotnet.start().await);
            assert_eq!(dotnet.resets, 0);
            assert!(dotnet.last().await > Some(at(600)), "it ran what was missed");
            let late = late(&granted.told.run_id, Report::Succeeded);
            dotnet.stop().await;
            let completed = other.scheduler.complete_run(late).await.unwrap();
            assert_eq!(completed.completion, Completion::Superseded, "it was repeated");
        } else {
            let mut stream = subscribe(&other, spec(EVERY));
            let again = run_within(&mut stream, 5 * SECOND).await.expect("it has no outcome");
            assert_eq!((again.told.scheduled_at, again.told.attempt), (at(600), 2));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn t22_an_outcome_that_wakes_up_after_its_lease_ends_nothing() {
    let account = Account::new();
    let (paused, dotnet) = pair(&account);
    let other = beside(&account);
    let mut stream = subscribe(&paused, spec(EVERY));
    let granted = run(&mut stream).await;
    // Its write is under way when it is paused, and goes on when another one has started the next attempt.
    let let_go = paused.faults().hold_before(Operation::WriteTimer);
    let scheduler = paused.scheduler.clone();
    let request = completion(&granted, Report::FailedFinal);
    let ending = tokio::spawn(async move { scheduler.complete_run(request).await });
    settle().await;
    account.store.locks().forget_lease(&lock(&paused));
    let mut stream = subscribe(&other, spec(EVERY));
    let again = run_within(&mut stream, 5 * SECOND).await.expect("its lease is over");
    assert_eq!((again.told.scheduled_at, again.told.attempt), (at(600), 2));
    let_go.notify_one();
    pass(5 * SECOND).await;
    assert!(dotnet.last().await < Some(at(600)), "{:?}", dotnet.last().await);
    complete(&other, &again, Report::Failed).await;
    let third = run_within(&mut stream, MINUTE).await.expect("the outcome of another counts not");
    assert_eq!((third.told.scheduled_at, third.told.attempt), (at(600), 3));
    complete(&other, &third, Report::Succeeded).await;
    let late = ending.await.unwrap().map(|completed| completed.completion);
    assert!(!matches!(late, Ok(Completion::Recorded | Completion::RecordedLate)), "{late:?}");
    assert_eq!(dotnet.last().await, Some(at(600)));
}

#[tokio::test(start_paused = true)]
async fn t22_an_outcome_that_is_sent_again_overwrites_no_status_that_was_read_without_the_lease() {
    let account = Account::new();
    let (sidecar, mut dotnet) = pair(&account);
    let mut stream = subscribe(&sidecar, spec(EVERY));
    let granted = run(&mut stream).await;
    // The status is not written, and is to be written again.
    sidecar.faults().throttle_next(1);
    let scheduler = sidecar.scheduler.clone();
    let request = completion(&granted, Report::Succeeded);
    let ending = tokio::spawn(async move { scheduler.complete_run(request).await });
    settle().await;
    assert_eq!(sidecar.faults().injected(Fault::Throttled), 1);
    // Meanwhile the lease is a host's, which writes; and somebody asks what there is.
    account.store.locks().forget_lease(&lock(&sidecar));
    assert!(dotnet.lock().await);
    dotnet.write(&local(at(0), ".7"), at(600), at(0));
    let there = sidecar.scheduler.schedule(&LockSelector::Path(lock(&sidecar))).await;
    there.expect("it is read");
    sidecar.counts();
    pass(20 * SECOND).await;
    assert!(sidecar.counts().of(Operation::WriteTimer) > 0, "it was sent again");
    assert_eq!(dotnet.field("Last").await, Some(local(at(0), ".7")), "under another's lease");
    drop(ending);
}

#[tokio::test(start_paused = true)]
async fn t22_a_host_that_writes_long_after_its_lease_takes_nothing_back() {
    let account = Account::new();
    let (sidecar, dotnet) = pair(&account);
    let mut stream = subscribe(&sidecar, spec(EVERY));
    for n in 1..=2 {
        let granted = run(&mut stream).await;
        assert_eq!(granted.told.scheduled_at, at(n * 600));
        complete(&sidecar, &granted, Report::Succeeded).await;
    }
    dotnet.write(&local(at(600), ".3"), at(1_200), at(600));
    drop(stream);
    // One that has seen nothing of it.
    let other = beside(&account);
    let mut stream = subscribe(&other, spec(EVERY));
    assert_eq!(standby(&mut stream).await.next_at, Some(at(1_800)));
    let granted = run(&mut stream).await;
    assert_eq!(granted.told.scheduled_at, at(1_800));
    assert_eq!(dotnet.last().await, Some(at(1_200)), "brought forward at the start");
}

#[tokio::test(start_paused = true)]
async fn t22_what_was_to_be_written_long_ago_keeps_no_plain_hold_from_the_lock() {
    let account = Account::new();
    let (slow, mut dotnet) = pair(&account);
    let other = beside(&account);
    let mut stream = subscribe(&slow, spec(EVERY));
    let granted = run(&mut stream).await;
    // Its outcome is decided here, and then recorded elsewhere: the status never says it for this sidecar.
    let let_go = slow.faults().hold_before(Operation::WriteTimer);
    let scheduler = slow.scheduler.clone();
    let request_here = completion(&granted, Report::Succeeded);
    let ending = tokio::spawn(async move { scheduler.complete_run(request_here).await });
    settle().await;
    ending.abort();
    account.store.locks().forget_lease(&lock(&slow));
    let elsewhere = other.scheduler.complete_run(late(&granted.told.run_id, Report::Succeeded));
    assert_eq!(elsewhere.await.unwrap().completion, Completion::RecordedLate);
    let_go.notify_one();
    // A host of .NET runs the next one: its status is ahead of the record, and known here.
    pass(9 * MINUTE + 30 * SECOND).await;
    assert!(dotnet.lock().await);
    pass(31 * SECOND).await;
    dotnet.write(&local(at(1_200), ".2"), at(1_800), at(1_200));
    dotnet.stop().await;
    slow.scheduler.schedule(&LockSelector::Path(lock(&slow))).await.unwrap();
    slow.delay_everything();
    slow.counts();
    let maintenance = HoldRequest { key: listening(spec(EVERY)).key, ..request("nightly") };
    let held = tokio::time::timeout(MINUTE, slow.ask(maintenance)).await;
    let asked = slow.counts();
    assert!(matches!(held, Ok(Ok(Outcome::Granted(_)))), "{held:?}: {asked}");
    assert!(asked.total() <= 8, "{asked}");
    assert_eq!(dotnet.last().await, Some(at(1_200)), "it leaves the status alone");
}

#[tokio::test(start_paused = true)]
async fn t22_t25_a_reset_beside_a_host_of_dotnet_begins_where_it_says() {
    let account = Account::new();
    let (sidecar, dotnet) = pair(&account);
    let mut stream = subscribe(&sidecar, spec(EVERY));
    for n in 1..=3 {
        let granted = run(&mut stream).await;
        assert_eq!(granted.told.scheduled_at, at(n * 600));
        complete(&sidecar, &granted, Report::Succeeded).await;
    }
    // What was done is to be done again, and the status says that it was.
    let change = ScheduleChange::Reset {
        reason: "again".to_owned(),
        watermark: Some(at(700)),
        revision: None,
    };
    sidecar.delay_everything();
    sidecar.counts();
    let selector = LockSelector::Path(lock(&sidecar));
    sidecar.scheduler.change_schedule(&selector, change, "ann").await.unwrap();
    let granted = run_within(&mut stream, MINUTE).await.expect("it begins after 700");
    let asked = sidecar.counts();
    assert!(asked.total() <= 12, "{asked}");
    assert_eq!((granted.told.scheduled_at, granted.told.missed_count), (at(1_800), 1));
    assert_eq!(dotnet.last().await, Some(at(1_200)), "a host would go on there, too");
    complete(&sidecar, &granted, Report::Succeeded).await;
    assert_eq!(dotnet.last().await, Some(at(1_800)));
    // Once: what follows goes on as ever.
    assert_eq!(run(&mut stream).await.told.scheduled_at, at(2_400));
}
