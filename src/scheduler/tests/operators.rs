//! Pauses, runs by hand, and what operators see (T3, T18, T21).

use super::rig::{
    at, complete, minutely, news, next, run, run_within, spec, standby, subscribe, subscription,
};
use crate::coordinator::tests::rig::{
    Account, MINUTE, SECOND, Sidecar, by_key, key, pass, request, settle,
};
use crate::coordinator::{CallError, LockRecord, NoObserver, Under};
use crate::schedule::{Occasion, Report};
use crate::scheduler::{ScheduleChange, ScheduleEvent, ScheduleListRequest, SubscribeRequest};
use crate::store::{DocumentPath, LeaseStoreExt as _, Operation};
use crate::testing::FaultPlan;

async fn change(sidecar: &Sidecar, change: ScheduleChange) {
    sidecar.scheduler.change_schedule(&by_key("nightly"), change, "a test").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn t18_what_falls_due_during_a_pause_is_skipped() {
    let account = Account::new();
    let (sidecar, other) = (account.sidecar(), account.sidecar());
    let mut stream = minutely(&sidecar);
    standby(&mut stream).await;
    // Through a sidecar that has no subscriber: it is noticed before the next start all the same.
    change(&other, ScheduleChange::Pause).await;
    assert!(run_within(&mut stream, 5 * MINUTE).await.is_none());
    change(&sidecar, ScheduleChange::Resume).await;
    let granted = run(&mut stream).await;
    assert_eq!((granted.told.scheduled_at, granted.told.missed_count), (at(360), 0));
}

#[tokio::test(start_paused = true)]
async fn t18_a_run_by_hand_comes_at_once_and_a_repeated_request_is_the_same_run() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = subscribe(&sidecar, spec("@every 600s"));
    standby(&mut stream).await;
    let trigger = || ScheduleChange::Trigger { request_id: "ticket-7".to_owned() };
    change(&sidecar, trigger()).await;
    let granted = run_within(&mut stream, SECOND).await.expect("at once");
    let by_hand = Occasion::ByHand { number: 1, request_id: "ticket-7".to_owned() };
    assert_eq!(granted.told.run_id.occasion, by_hand);
    complete(&sidecar, &granted, Report::Succeeded).await;
    news(&mut stream).await;
    change(&sidecar, trigger()).await;
    let scheduled = run(&mut stream).await;
    assert_eq!(scheduled.told.scheduled_at, at(600), "the watermark was not moved");
}

#[tokio::test(start_paused = true)]
async fn t18_a_schedule_whose_plan_was_deleted_is_resumed_through_its_subscribers_sidecar() {
    let account = Account::new();
    let (sidecar, other) = (account.sidecar(), account.sidecar());
    let mut stream = minutely(&sidecar);
    standby(&mut stream).await;
    change(&sidecar, ScheduleChange::Pause).await;
    let info = sidecar.scheduler.schedule(&by_key("nightly")).await.unwrap();
    let path = info.record.path;
    let read = account.store.read_document(DocumentPath::Plan(path.clone())).await.unwrap();
    account.store.delete_plan(&path, read.document.unwrap().etag).await.unwrap();
    let elsewhere =
        other.scheduler.change_schedule(&by_key("nightly"), ScheduleChange::Resume, "").await;
    assert!(matches!(elsewhere, Err(CallError::NoSuchSchedule { .. })), "{elsewhere:?}");
    change(&sidecar, ScheduleChange::Resume).await;
    run(&mut stream).await;
}

#[tokio::test(start_paused = true)]
async fn t3_eight_runs_by_hand_may_wait() {
    let account = Account::new();
    let sidecar = account.sidecar();
    drop(subscribe(&sidecar, spec("@every 600s")));
    settle().await;
    let trigger = |n: usize| ScheduleChange::Trigger { request_id: format!("request-{n}") };
    for n in 0..8 {
        change(&sidecar, trigger(n)).await;
    }
    let ninth = sidecar.scheduler.change_schedule(&by_key("nightly"), trigger(8), "").await;
    assert!(matches!(ninth, Err(CallError::TooManyTriggers)), "{ninth:?}");
}

#[tokio::test(start_paused = true)]
async fn t18_changes_need_the_operators_leave() {
    let account = Account::new();
    let sidecar = account.sidecar_with(std::sync::Arc::new(NoObserver), 1, |settings| {
        settings.allow_schedule_changes = false;
    });
    let mut stream = minutely(&sidecar);
    standby(&mut stream).await;
    let refused =
        sidecar.scheduler.change_schedule(&by_key("nightly"), ScheduleChange::Pause, "").await;
    assert!(matches!(refused, Err(CallError::ScheduleChangesNotEnabled)), "{refused:?}");
    run(&mut stream).await;
}

#[tokio::test(start_paused = true)]
async fn t3_a_schedule_can_be_seen() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let none = sidecar.scheduler.schedule(&by_key("nightly")).await;
    assert!(matches!(none, Err(CallError::NoSuchSchedule { .. })), "{none:?}");
    let mut stream = minutely(&sidecar);
    standby(&mut stream).await;
    let granted = run(&mut stream).await;
    complete(&sidecar, &granted, Report::Succeeded).await;
    let info = sidecar.scheduler.schedule(&by_key("nightly")).await.unwrap();
    assert_eq!(info.subscribers_here, 1);
    let plan = info.plan.unwrap().unwrap();
    assert_eq!(plan.definition().timetable.canonical(), "@every 1m");
    assert_eq!(info.state.unwrap().next, Some(at(120)));
    let request = ScheduleListRequest { under: Under::OwnHostId, page_size: 10, page_token: None };
    let page = sidecar.scheduler.list_schedules(request, |_| true).await;
    let page = page.unwrap();
    assert_eq!(page.schedules.len(), 1);
    assert!(page.next_page_token.is_none());
}

/// All pages of this many, by function.
async fn listed(sidecar: &Sidecar, page_size: usize) -> Vec<String> {
    let (mut functions, mut token) = (Vec::new(), None);
    loop {
        let request = ScheduleListRequest { under: Under::OwnHostId, page_size, page_token: token };
        let visible = |record: &LockRecord| !record.path.as_str().contains("hidden");
        let page = sidecar.scheduler.list_schedules(request, visible).await.unwrap();
        assert!(page.schedules.len() <= page_size, "{page:?}");
        assert!(page.schedules.iter().all(|info| info.plan.as_ref().unwrap().is_ok()));
        functions.extend(page.schedules.into_iter().map(|info| info.record.record.function));
        match page.next_page_token {
            Some(next) => token = Some(next),
            None => return functions,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn t3_schedules_that_nobody_has_run_yet_are_listed_last() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let named = |name: &str, expression: &str| {
        let request = SubscribeRequest { key: key(name), ..subscription(spec(expression)) };
        sidecar.scheduler.subscribe(request).unwrap()
    };
    let later = ["b", "d", "hidden", "e"].map(|name| named(name, "@every 1h"));
    let mut soon = ["a", "c"].map(|name| named(name, "@every 60s"));
    for stream in &mut soon {
        let granted = run(stream).await;
        complete(&sidecar, &granted, Report::Succeeded).await;
    }
    // A lock without a schedule, which somebody holds.
    let (_hold, _) = sidecar.hold(&request("plain")).await;
    for page_size in [1, 2, 3, 10] {
        assert_eq!(listed(&sidecar, page_size).await, ["a", "c", "b", "d", "e"], "{page_size}");
    }
    sidecar.counts();
    listed(&sidecar, 10).await;
    let asked = [(Operation::List, 2), (Operation::ReadRecord, 4), (Operation::ReadPlan, 5)];
    assert_eq!(sidecar.counts(), asked.into());
    drop(later);
}

#[tokio::test(start_paused = true)]
async fn t3_a_token_of_another_listing_is_refused() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let _streams = ["a", "b"].map(|name| {
        let request = SubscribeRequest { key: key(name), ..subscription(spec("@every 1h")) };
        sidecar.scheduler.subscribe(request).unwrap()
    });
    settle().await;
    let request = ScheduleListRequest { under: Under::OwnHostId, page_size: 1, page_token: None };
    let page = sidecar.scheduler.list_schedules(request.clone(), |_| true).await;
    let page_token = page.unwrap().next_page_token;
    assert!(page_token.is_some());
    let under = Under::Prefix("leasehold/locks/".to_owned());
    let elsewhere = ScheduleListRequest { under, page_token, ..request };
    let refused = sidecar.scheduler.list_schedules(elsewhere, |_| true).await;
    assert!(matches!(refused, Err(CallError::PageToken)), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn t21_a_store_that_goes_back_repeats_nothing() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = minutely(&sidecar);
    standby(&mut stream).await;
    let first = run(&mut stream).await;
    complete(&sidecar, &first, Report::Succeeded).await;
    news(&mut stream).await;
    let path = crate::coordinator::tests::rig::path("nightly");
    let copy = account.store.locks().copy_record(&path).unwrap();
    let second = run(&mut stream).await;
    complete(&sidecar, &second, Report::Succeeded).await;
    news(&mut stream).await;
    account.store.locks().rewind_record(&path, copy);
    pass(SECOND).await;
    loop {
        match next(&mut stream).await {
            ScheduleEvent::Run(run) => {
                assert_eq!(run.told.scheduled_at, at(180));
                break;
            }
            ScheduleEvent::Standby(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn t18_a_run_by_hand_is_started_at_once_also_where_a_run_elsewhere_was_seen_that_is_over() {
    let account = Account::new();
    let (here, elsewhere) = (account.sidecar(), account.sidecar());
    let mut there = subscribe(&elsewhere, spec("0 * * * *"));
    let granted = run(&mut there).await;
    let mut stream = subscribe(&here, spec("0 * * * *"));
    assert!(run_within(&mut stream, 20 * MINUTE).await.is_none(), "it looks each ten minutes");
    complete(&elsewhere, &granted, Report::Succeeded).await;
    drop(there);
    change(&here, ScheduleChange::Trigger { request_id: "ticket-7".to_owned() }).await;
    let by_hand = run_within(&mut stream, SECOND).await.expect("at once");
    assert!(matches!(by_hand.told.run_id.occasion, Occasion::ByHand { .. }));
}

#[tokio::test(start_paused = true)]
async fn t16_t18_a_new_subscriber_makes_a_deleted_plan_again_as_it_is_known_here() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = minutely(&sidecar);
    standby(&mut stream).await;
    change(&sidecar, ScheduleChange::Pause).await;
    let path = sidecar.scheduler.schedule(&by_key("nightly")).await.unwrap().record.path;
    let read = account.store.read_document(DocumentPath::Plan(path.clone())).await.unwrap();
    account.store.delete_plan(&path, read.document.unwrap().etag).await.unwrap();
    let mut new = minutely(&sidecar);
    assert!(standby(&mut new).await.paused);
    assert!(run_within(&mut new, 5 * MINUTE).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn t18_an_answer_that_comes_late_brings_no_older_plan_back() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = subscribe(&sidecar, spec("@every 3600s"));
    assert!(!standby(&mut stream).await.paused);
    let longest_delay = 10 * SECOND;
    let slow = FaultPlan { delay_answer: 1_000, longest_delay, ..FaultPlan::default() };
    sidecar.faults().set_plan(slow);
    let pausing = tokio::spawn({
        let sidecar = sidecar.clone();
        async move { change(&sidecar, ScheduleChange::Pause).await }
    });
    let other = account.sidecar();
    let is_paused = async || {
        let info = other.scheduler.schedule(&by_key("nightly")).await.unwrap();
        info.plan.unwrap().unwrap().is_paused()
    };
    while !is_paused().await {
        pass(SECOND / 100).await;
    }
    sidecar.faults().set_plan(FaultPlan::default());
    change(&sidecar, ScheduleChange::Resume).await;
    assert!(!pausing.is_finished(), "its answer is under way");
    pausing.await.unwrap();
    let mut paused = false;
    while let Ok(event) = tokio::time::timeout(SECOND, next(&mut stream)).await {
        if let ScheduleEvent::Standby(standby) = event {
            paused = standby.paused;
        }
    }
    assert!(!paused);
}
