//! What once went wrong: requests without a pause, attempts that nobody saw, outcomes said too early, runs
//! forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::rig::{
    at, complete, minutely, news, next, resume, run, run_within, spec, standby, subscribe,
};
use crate::coordinator::tests::rig::{
    Account, LEASE, MINUTE, SECOND, Sidecar, by_key, pass, path, request, settle,
};
use crate::coordinator::{
    HeldEvent, HoldRequest, LockEvent, LockEventKind, NoObserver, Observer, ScheduleEventKind,
};
use crate::schedule::{CatchUp, Occasion, Outcome, Overlap, Report, Spec};
use crate::scheduler::{ScheduleChange, ScheduleEvent, ScheduleStream};
use crate::store::Operation;
use crate::time::{Clock as _, UnixMillis};

#[tokio::test(start_paused = true)]
async fn t17_a_start_that_is_refused_for_long_is_tried_once_a_minute() {
    let account = Account::new();
    let sidecar = account.sidecar_with(Arc::new(NoObserver), 1, |it| it.max_holds = 1);
    let _other = sidecar.acquire(HoldRequest { max_hold: None, ..request("other") }).await;
    let mut stream = minutely(&sidecar);
    standby(&mut stream).await;
    pass(3 * MINUTE).await;
    sidecar.counts();
    pass(10 * MINUTE).await;
    let asked = sidecar.counts();
    let looks = asked.of(Operation::ReadRecord) + asked.of(Operation::ReadPlan);
    assert!(looks <= 30, "{asked}");
}

#[tokio::test(start_paused = true)]
async fn t2_who_does_not_read_its_stream_uses_up_no_attempt() {
    let account = Account::new();
    let (first, second) = (account.sidecar(), account.sidecar());
    // Its buffer is full after a quarter of an hour.
    let _stalled = subscribe(&first, spec("@every 3600s"));
    pass(61 * MINUTE).await;
    let info = first.scheduler.schedule(&by_key("nightly")).await.unwrap();
    let failures = info.state.map(|state| (state.attempts.failures, state.run));
    assert_eq!(failures, None, "nobody can have run it");
    let mut other = subscribe(&second, spec("@every 3600s"));
    let granted = run_within(&mut other, 2 * LEASE).await.expect("it can run it");
    assert_eq!((granted.told.scheduled_at, granted.told.attempt), (at(3_600), 1));
}

#[tokio::test(start_paused = true)]
async fn t9_t10_skip_leaves_out_nothing_that_was_due_before_the_run() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let all = || Spec { catch_up: CatchUp::All(100), overlap: Overlap::Skip, ..spec("@every 60s") };
    let mut stream = subscribe(&sidecar, all());
    standby(&mut stream).await;
    drop(stream);
    pass(5 * MINUTE).await;
    let mut stream = subscribe(&sidecar, all());
    for n in 1..=5 {
        let granted = run(&mut stream).await;
        assert_eq!(granted.told.scheduled_at, at(n * 60));
        complete(&sidecar, &granted, Report::Succeeded).await;
        news(&mut stream).await;
    }
}

#[tokio::test(start_paused = true)]
async fn t20_a_run_that_goes_on_here_after_its_stream_broke_is_not_forgotten() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = subscribe(&sidecar, spec("@every 600s"));
    let granted = run(&mut stream).await;
    stream.disconnected();
    let request = resume(spec("@every 600s"), &granted);
    let mut stream = sidecar.scheduler.subscribe(request).unwrap();
    let resumed = loop {
        match next(&mut stream).await {
            ScheduleEvent::Run(run) => break run,
            ScheduleEvent::Standby(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(resumed.told.run_id, granted.told.run_id);
    let until = account.now() + 2 * MINUTE;
    while account.now() < until {
        let event = next(&mut stream).await;
        assert!(matches!(event, ScheduleEvent::Held(HeldEvent::Renewed(_))), "{event:?}");
    }
    let draining = sidecar.coordinator.clone();
    tokio::spawn(async move { draining.drain(30 * SECOND).await });
    let ScheduleEvent::Held(HeldEvent::Draining { time_left }) = next(&mut stream).await else {
        panic!("it is not told")
    };
    assert!(time_left > 20 * SECOND, "{time_left:?}");
    settle().await;
    complete(&sidecar, &resumed, Report::Succeeded).await;
}

#[tokio::test(start_paused = true)]
async fn t17_a_clock_that_was_set_back_a_little_makes_no_crowd_of_requests() {
    let account = Account::new();
    let sidecar = account.sidecar();
    sidecar.delay_everything();
    let mut stream = minutely(&sidecar);
    standby(&mut stream).await;
    account.clock.set_wall(UnixMillis(account.clock.wall().0 - 900));
    let mut most = 0;
    for n in 1..5 {
        sidecar.counts();
        let granted = run(&mut stream).await;
        assert!(account.clock.wall().0 >= at(n * 60).0.unsigned_abs() * 1_000, "T7");
        complete(&sidecar, &granted, Report::Succeeded).await;
        news(&mut stream).await;
        most = most.max(sidecar.counts().total());
    }
    assert!(most <= 12, "{most}");
}

#[tokio::test(start_paused = true)]
async fn t18_a_run_by_hand_comes_after_the_run_that_goes_on() {
    for (gap, length) in [(40, 1), (40, 6), (40, 20), (20, 1), (20, 6), (20, 12), (600, 40)] {
        let account = Account::new();
        let sidecar = account.sidecar();
        let mut stream = subscribe(&sidecar, spec(&format!("@every {gap}s")));
        for n in 0..6 {
            let granted = run(&mut stream).await;
            let request_id = format!("ticket-{n}");
            let trigger = ScheduleChange::Trigger { request_id };
            sidecar.scheduler.change_schedule(&by_key("nightly"), trigger, "").await.unwrap();
            pass(Duration::from_secs(length)).await;
            complete(&sidecar, &granted, Report::Succeeded).await;
            let by_hand = run_within(&mut stream, 2 * SECOND).await;
            let by_hand = by_hand.unwrap_or_else(|| panic!("{gap}, {length}: run {n}"));
            assert!(matches!(by_hand.told.run_id.occasion, Occasion::ByHand { .. }));
            complete(&sidecar, &by_hand, Report::Succeeded).await;
        }
    }
}

/// How often it was said that a record has gone back.
#[derive(Debug, Default)]
struct WentBack(AtomicUsize);

impl Observer for WentBack {
    fn observe(&self, event: &LockEvent<'_>) {
        if let LockEventKind::Schedule(ScheduleEventKind::WentBack) = event.kind {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl WentBack {
    fn said(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// The last runner of a schedule whose record has gone back by a minute: it reads nothing before it
    /// starts the run that is due in a minute.
    async fn runner(self: &Arc<Self>, account: &Account) -> (Sidecar, ScheduleStream) {
        let sidecar = account.sidecar_with(Arc::clone(self) as _, 1, |_| {});
        let mut stream = minutely(&sidecar);
        let mut copy = None;
        for _ in 0..2 {
            let granted = run(&mut stream).await;
            copy = copy.or_else(|| account.store.locks().copy_record(&path("nightly")));
            complete(&sidecar, &granted, Report::Succeeded).await;
            news(&mut stream).await;
        }
        account.store.locks().rewind_record(&path("nightly"), copy.unwrap());
        (sidecar, stream)
    }
}

#[tokio::test(start_paused = true)]
async fn t21_a_record_that_has_gone_back_is_said_once_and_not_before_that_is_put_right() {
    let (account, back) = (Account::new(), Arc::<WentBack>::default());
    let (sidecar, mut stream) = back.runner(&account).await;
    // The start is decided over it, and cannot be written.
    sidecar.faults().die_before(Operation::WriteRecord);
    pass(MINUTE + 2 * SECOND).await;
    assert!(sidecar.counts().of(Operation::WriteRecord) > 0, "it was tried");
    assert_eq!(back.said(), 0, "nothing has come of it");
    sidecar.faults().go_down(Duration::ZERO);
    for number in 1..=3 {
        let granted = run_within(&mut stream, 3 * MINUTE).await.expect("it goes on");
        assert!(granted.told.scheduled_at > at(120), "what was done is not repeated");
        assert_eq!(back.said(), 1, "run {number}");
        complete(&sidecar, &granted, Report::Succeeded).await;
        news(&mut stream).await;
    }
}

#[tokio::test(start_paused = true)]
async fn t21_a_record_that_has_gone_back_is_said_with_what_puts_it_right() {
    for paused in [false, true] {
        let (account, back) = (Account::new(), Arc::<WentBack>::default());
        let (sidecar, mut stream) = back.runner(&account).await;
        if paused {
            let (nightly, pause) = (by_key("nightly"), ScheduleChange::Pause);
            sidecar.scheduler.change_schedule(&nightly, pause, "").await.unwrap();
        }
        let granted = run_within(&mut stream, MINUTE + 2 * SECOND).await;
        assert_eq!((granted.is_some(), back.said()), (!paused, 1), "paused: {paused}");
        let info = sidecar.scheduler.schedule(&by_key("nightly")).await.unwrap();
        assert!(info.state.is_some_and(|state| state.watermark >= at(120)), "it is put right");
        assert_eq!(back.said(), 1, "paused: {paused}");
    }
}

#[tokio::test(start_paused = true)]
async fn t6_a_start_that_was_written_while_the_machine_slept_uses_up_no_attempt() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let once = Spec { max_attempts: Some(1), ..spec("@every 600s") };
    let mut stream = subscribe(&sidecar, once);
    standby(&mut stream).await;
    pass(9 * MINUTE + 55 * SECOND).await;
    account.sleep_over_a_write(&sidecar, "leasehold_schedule_run").await;
    let granted = run_within(&mut stream, 2 * LEASE).await.expect("nobody was granted it");
    assert_eq!((granted.told.scheduled_at, granted.told.attempt), (at(600), 1));
    let before = granted.told.previous.map(|ended| ended.outcome);
    assert_eq!(before, Some(Outcome::Returned), "it was written");
}

#[tokio::test(start_paused = true)]
async fn t21_what_was_read_before_an_outcome_was_written_here_is_no_record_that_went_back() {
    let (account, back) = (Account::new(), Arc::<WentBack>::default());
    let sidecar = account.sidecar_with(Arc::clone(&back) as _, 1, |_| {});
    let mut stream = subscribe(&sidecar, spec("@every 600s"));
    let granted = run(&mut stream).await;
    // A rollout: the new one has read, and its plan is on its way while the run ends.
    let let_go = sidecar.faults().hold_before(Operation::WritePlan);
    let mut new = subscribe(&sidecar, Spec { max_attempts: Some(7), ..spec("@every 600s") });
    settle().await;
    complete(&sidecar, &granted, Report::Succeeded).await;
    sidecar.counts();
    let_go.notify_one();
    standby(&mut new).await;
    pass(MINUTE).await;
    assert_eq!((back.said(), sidecar.counts().of(Operation::Acquire)), (0, 0));
}
