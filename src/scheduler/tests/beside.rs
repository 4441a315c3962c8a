//! Schedules beside hosts of .NET: who goes on where the other has stopped (T22).

use std::sync::Arc;

use super::dotnet::{Dotnet, Ledger, NEVER, beside, listening, local, lock, subscribe, timer};
use super::rig::{
    at, complete, completion, late, news, run, run_within, spec, standby, subscription,
};
use crate::coordinator::tests::rig::{
    Account, MINUTE, SECOND, Sidecar, counts, pass, request, settle,
};
use crate::coordinator::{CallError, HoldRequest, LockSelector, NoObserver};
use crate::lock::Layout;
use crate::schedule::Report;
use crate::scheduler::{Completion, ScheduleEvent, ScheduleStream};
use crate::store::{DocumentPath, LeaseStoreExt as _, Operation, StoreError};

pub(super) const EVERY: &str = "@every 600s";

/// A sidecar, and the host of .NET that it shares with.
pub(super) fn pair(account: &Account) -> (Sidecar, Dotnet) {
    let sidecar = beside(account);
    let dotnet = Dotnet::new(account, &sidecar, EVERY, &Ledger::default());
    (sidecar, dotnet)
}

async fn failed(stream: &mut ScheduleStream) -> CallError {
    match news(stream).await {
        ScheduleEvent::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn t22_a_host_of_dotnet_and_sidecars_in_turns_run_each_occurrence_once() {
    let account = Account::new();
    let ledger = Ledger::default();
    for sidecar in [beside(&account), beside(&account)] {
        let ledger = Arc::clone(&ledger);
        tokio::spawn(async move {
            let mut stream = subscribe(&sidecar, spec(EVERY));
            loop {
                let granted = run(&mut stream).await;
                ledger.lock().unwrap().push((granted.told.scheduled_at, "sidecar"));
                pass(2 * SECOND).await;
                let completed = complete(&sidecar, &granted, Report::Succeeded).await;
                assert_eq!(completed.completion, Completion::Recorded);
            }
        });
    }
    settle().await;
    let mut dotnet = Dotnet::new(&account, &beside(&account), EVERY, &ledger);
    // It looks for the lock each minute, has it for a while, and leaves gracefully or dies.
    for round in 0..12 {
        while !dotnet.start().await {
            pass(MINUTE).await;
        }
        dotnet.listen((7 + 4 * (round % 5)) * MINUTE + 13 * SECOND).await;
        if round % 3 != 2 {
            dotnet.stop().await;
        }
        pass((5 + 7 * (round % 4)) * MINUTE).await;
    }
    assert_eq!(dotnet.resets, 0, "it understands what it finds");
    let ledger = ledger.lock().unwrap();
    let expected: Vec<_> = (1..).map(|n| at(n * 600)).take(ledger.len()).collect();
    assert_eq!(ledger.iter().map(|(at, _)| *at).collect::<Vec<_>>(), expected, "{ledger:?}");
    for who in ["dotnet", "sidecar"] {
        let count = ledger.iter().filter(|(_, ran)| *ran == who).count();
        assert!(count >= 5, "{who}: {ledger:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn t22_what_is_missed_by_next_is_run_and_counted() {
    for zulu in [false, true] {
        let account = Account::new();
        let (sidecar, dotnet) = pair(&account);
        // Done up to 20 minutes ago; what was due 10 minutes ago and now is missed.
        let last = if zulu {
            "2027-01-15T07:40:00.1075034Z".to_owned()
        } else {
            local(at(-1_200), ".1075034")
        };
        dotnet.write(&last, at(-600), at(-1_200));
        let mut stream = subscribe(&sidecar, spec(EVERY));
        let granted = run_within(&mut stream, 5 * SECOND).await.expect("it is due");
        assert_eq!((granted.told.scheduled_at, granted.told.missed_count), (at(0), 1), "{last}");
        complete(&sidecar, &granted, Report::Succeeded).await;
        let stored = [dotnet.field("Last").await, dotnet.field("Next").await];
        let expected = [at(0), at(600)].map(|at| Some(at.to_string().replace('Z', "+00:00")));
        assert_eq!(stored, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn t22_what_dotnet_has_done_is_not_run_again() {
    let account = Account::new();
    let (sidecar, dotnet) = pair(&account);
    dotnet.write(&local(at(0), ".2"), at(600), at(0));
    let mut stream = subscribe(&sidecar, spec(EVERY));
    assert_eq!(standby(&mut stream).await.next_at, Some(at(600)));
    assert_eq!(run(&mut stream).await.told.scheduled_at, at(600));
}

#[tokio::test(start_paused = true)]
async fn t22_a_timer_that_never_ran_begins_where_it_was_set_up() {
    let account = Account::new();
    let (sidecar, dotnet) = pair(&account);
    // A host wrote it when it started, and was gone before its first run.
    dotnet.write(NEVER, at(-600), at(-900));
    let mut stream = subscribe(&sidecar, spec(EVERY));
    let granted = run_within(&mut stream, 5 * SECOND).await.expect("it is due");
    assert_eq!((granted.told.scheduled_at, granted.told.missed_count), (at(0), 1));
}

#[tokio::test(start_paused = true)]
async fn t22_the_first_subscription_leaves_a_status_for_dotnet() {
    let account = Account::new();
    let (sidecar, mut dotnet) = pair(&account);
    let mut stream = subscribe(&sidecar, spec(EVERY));
    standby(&mut stream).await;
    drop(stream);
    settle().await;
    assert_eq!(dotnet.field("Last").await.as_deref(), Some(NEVER));
    pass(11 * MINUTE).await;
    // What nobody ran is missed by the host too.
    assert!(dotnet.start().await);
    assert_eq!((dotnet.resets, dotnet.last().await), (0, Some(at(660))));
}

#[tokio::test(start_paused = true)]
async fn t22_a_broken_status_is_told_and_nothing_is_written() {
    let broken = [
        "",
        "{",
        r#"{"Last":"2026-11-22T02:00:00","Next":"2026-11-22T03:00:00","LastUpdated":"2026-11-22T02:00:00"}"#,
        &"x".repeat(20_000),
    ];
    for text in broken {
        let account = Account::new();
        let (sidecar, dotnet) = pair(&account);
        dotnet.write_text(text.to_owned());
        let mut stream = subscribe(&sidecar, spec(EVERY));
        let error = failed(&mut stream).await.to_string();
        assert!(error.contains(&timer(&sidecar).to_string()), "{error}");
        assert!(error.contains("repair") && error.contains("delete"), "{error}");
        let asked = sidecar.counts();
        let writes = [Operation::WritePlan, Operation::WriteTimer, Operation::WriteRecord];
        assert!(writes.iter().all(|write| asked.of(*write) == 0), "{asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn t22_a_status_that_breaks_during_a_run_is_told_to_who_completes_it() {
    let account = Account::new();
    let (sidecar, dotnet) = pair(&account);
    let mut stream = subscribe(&sidecar, spec(EVERY));
    let granted = run(&mut stream).await;
    dotnet.write_text("{".to_owned());
    let error = sidecar.scheduler.complete_run(completion(&granted, Report::Succeeded)).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains(&timer(&sidecar).to_string()), "{error}");
    // Once it is gone, the record says what is done, and the outcome can be told.
    let (now, store) = (at(600), &account.store);
    dotnet.write(&local(at(0), ""), now, at(0));
    let again = sidecar.scheduler.complete_run(late(&granted.told.run_id, Report::Succeeded));
    assert_eq!(again.await.unwrap().completion, Completion::RecordedLate);
    assert_eq!(dotnet.last().await, Some(at(600)));
    assert!(!store.read_record(&lock(&sidecar)).await.unwrap().lease.is_held());
}

#[tokio::test(start_paused = true)]
async fn t22_while_a_host_of_dotnet_listens_everybody_waits() {
    let account = Account::new();
    let (sidecar, mut dotnet) = pair(&account);
    assert!(dotnet.start().await);
    let mut stream = subscribe(&sidecar, spec(EVERY));
    assert!(standby(&mut stream).await.next_at.is_some());
    let waiting = run_within(&mut stream, 31 * MINUTE);
    let (granted, ()) = tokio::join!(waiting, dotnet.listen(31 * MINUTE));
    assert!(granted.is_none(), "{granted:?}");
    assert_eq!(dotnet.last().await, Some(at(1_800)));
    // It hangs, and its lease runs out: what it did not do is missed.
    let granted = run_within(&mut stream, 20 * MINUTE).await.expect("it is free");
    assert_eq!((granted.told.scheduled_at, granted.told.missed_count), (at(2_400), 0));
}

#[tokio::test(start_paused = true)]
async fn t22_a_status_that_changed_since_it_was_read_is_read_and_decided_again() {
    let account = Account::new();
    let (sidecar, mut dotnet) = pair(&account);
    let mut stream = subscribe(&sidecar, spec("@every 300s"));
    let first = run(&mut stream).await;
    complete(&sidecar, &first, Report::Succeeded).await;
    // The last runner reads nothing before it starts. A host whose clock is ahead was faster, and leaves no
    // version.
    pass(295 * SECOND).await;
    assert!(dotnet.lock().await);
    dotnet.write(&local(at(600), ""), at(900), at(600));
    dotnet.stop().await;
    sidecar.counts();
    pass(30 * SECOND).await;
    let asked = sidecar.counts();
    let writes = (asked.of(Operation::WriteTimer), asked.of(Operation::WriteRecord));
    assert_eq!((asked.of(Operation::Acquire), writes), (1, (1, 0)), "{asked}");
    let next = run(&mut stream).await;
    assert_eq!((next.told.scheduled_at, next.told.missed_count), (at(900), 0));
}

#[tokio::test(start_paused = true)]
async fn t22_a_status_ahead_of_the_stores_time_is_refused() {
    let account = Account::new();
    let (sidecar, dotnet) = pair(&account);
    dotnet.write(&local(at(86_400), ".2"), at(87_000), at(86_400));
    let mut stream = subscribe(&sidecar, spec(EVERY));
    let error = failed(&mut stream).await.to_string();
    assert!(error.contains("ahead of the store's time"), "{error}");
    // Once it is put right, nobody remembers it.
    dotnet.write(&local(at(0), ".2"), at(600), at(0));
    let mut stream = subscribe(&sidecar, spec(EVERY));
    assert_eq!(run(&mut stream).await.told.scheduled_at, at(600));
}

#[tokio::test(start_paused = true)]
async fn t22_a_plain_hold_leaves_the_status_alone_also_a_broken_one() {
    let account = Account::new();
    let (sidecar, dotnet) = pair(&account);
    let mut stream = subscribe(&sidecar, spec(EVERY));
    let granted = run(&mut stream).await;
    complete(&sidecar, &granted, Report::Succeeded).await;
    settle().await;
    dotnet.write_text("{".to_owned());
    let _ = sidecar.scheduler.schedule(&LockSelector::Path(lock(&sidecar))).await.unwrap_err();
    sidecar.counts();
    let key = listening(spec(EVERY)).key;
    let maintenance = sidecar.acquire(HoldRequest { key, ..request("nightly") }).await;
    sidecar.release(&maintenance).await;
    let asked = sidecar.counts();
    assert_eq!(asked.of(Operation::ReadTimer) + asked.of(Operation::WriteTimer), 0, "{asked}");
}

#[tokio::test(start_paused = true)]
async fn t22_fields_that_somebody_else_keeps_in_the_status_stay() {
    let account = Account::new();
    let (sidecar, dotnet) = pair(&account);
    let [last, next] = [local(at(0), ".2"), local(at(600), "")];
    dotnet.write_text(format!(
        r#"{{"Last":"{last}","Next":"{next}","LastUpdated":"{last}","Owner":"somebody"}}"#
    ));
    let mut stream = subscribe(&sidecar, spec(EVERY));
    let granted = run(&mut stream).await;
    assert_eq!(dotnet.field("Last").await, Some(last), "a start changes nothing");
    complete(&sidecar, &granted, Report::Succeeded).await;
    assert_eq!(dotnet.last().await, Some(at(600)));
    assert_eq!(dotnet.field("Owner").await.as_deref(), Some("somebody"));
}

#[tokio::test(start_paused = true)]
async fn t22_a_lock_without_our_record_goes_on_from_the_status() {
    let account = Account::new();
    let (sidecar, _) = pair(&account);
    let mut stream = subscribe(&sidecar, spec(EVERY));
    let granted = run(&mut stream).await;
    complete(&sidecar, &granted, Report::Succeeded).await;
    drop(stream);
    settle().await;
    // An older SDK has dropped what it does not know.
    let (path, now) = (lock(&sidecar), account.now());
    let time = crate::time::Clock::wall(account.clock.as_ref());
    let fields = crate::record::Fields::new();
    account.store.locks().write_without_lease(&path, fields, now, time).unwrap();
    let other = beside(&account);
    let mut stream = subscribe(&other, spec(EVERY));
    let told = standby(&mut stream).await;
    assert_eq!(told.next_at, Some(at(1_200)));
    let shown = other.scheduler.schedule(&LockSelector::Path(path)).await.unwrap();
    assert_eq!(shown.state.unwrap().watermark, at(600));
}

#[tokio::test(start_paused = true)]
async fn t22_what_a_run_beside_dotnet_takes_is_counted() {
    let account = Account::new();
    let (runner, idle) = (beside(&account), beside(&account));
    let mut stream = subscribe(&runner, spec("@every 300s"));
    standby(&mut stream).await;
    let new = [
        (Operation::ReadPlan, 1),
        (Operation::ReadRecord, 1),
        (Operation::ReadTimer, 1),
        (Operation::WritePlan, 1),
        (Operation::WriteTimer, 1),
    ];
    assert_eq!(runner.counts(), counts(new));
    let first = run(&mut stream).await;
    complete(&runner, &first, Report::Succeeded).await;
    news(&mut stream).await;
    let mut other = subscribe(&idle, spec("@every 300s"));
    standby(&mut other).await;
    let known = [Operation::ReadPlan, Operation::ReadRecord, Operation::ReadTimer];
    assert_eq!(idle.counts(), counts(known.map(|operation| (operation, 1))));
    pass(4 * MINUTE).await;
    let (_, _) = (runner.counts(), idle.counts());
    let second = run(&mut stream).await;
    complete(&runner, &second, Report::Succeeded).await;
    news(&mut stream).await;
    settle().await;
    let expected = [
        (Operation::ReadPlan, 1),
        (Operation::Acquire, 1),
        (Operation::WriteTimer, 2),
        (Operation::WriteRecord, 2),
        (Operation::Release, 1),
    ];
    assert_eq!(runner.counts(), counts(expected));
    pass(2 * SECOND).await;
    assert_eq!(idle.counts(), counts([(Operation::ReadRecord, 1), (Operation::ReadTimer, 1)]));
}

#[tokio::test(start_paused = true)]
async fn t22_only_listeners_have_schedules_beside_dotnet() {
    let account = Account::new();
    let sidecar = beside(&account);
    let refused = sidecar.scheduler.subscribe(subscription(spec(EVERY))).map(drop);
    assert!(matches!(refused, Err(CallError::ScheduleMode)), "{refused:?}");
    // Elsewhere there is no timer, whatever the mode.
    let elsewhere = account.sidecar_with(Arc::new(NoObserver), 1, |it| {
        it.host.namespace.layout = Layout::Readable;
    });
    let mut stream = elsewhere.scheduler.subscribe(listening(spec(EVERY))).unwrap();
    standby(&mut stream).await;
    let asked = elsewhere.counts();
    assert_eq!(asked.of(Operation::ReadTimer) + asked.of(Operation::WriteTimer), 0);
    let status = DocumentPath::TimerStatus(timer(&sidecar));
    let none = account.store.read_document(status).await.map(|read| read.document);
    assert!(matches!(none, Ok(None) | Err(StoreError::NotFound)), "{none:?}");
}
