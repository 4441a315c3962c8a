//! Permits through the coordinator: one task a lock, a path a permit (S28 to S32).

use std::sync::{Arc, Mutex};

use super::rig::{
    Account, MINUTE, SECOND, Sidecar, by_key, counts, granted, key, next, pass, path, request,
    settle, waiting,
};
use crate::coordinator::{
    BreakPeriod, BreakRequest, CallError, Grant, HeldEvent, HoldEvent, HoldRequest, LockEvent,
    LockEventKind, LockSelector, LockState, LossReason, NoObserver, Observer, ResumeRequest,
    TokenStatus,
};
use crate::lock::{Layout, LockPath, Permit, Permits};
use crate::record::CheckpointValue;
use crate::store::{LeaseState, LeaseStoreExt as _, Operation};
use crate::testing::FaultPlan;

fn of(permits: u32, request: HoldRequest) -> HoldRequest {
    HoldRequest { permits: Permits::new(permits).unwrap(), ..request }
}

fn permit(number: u8) -> Permit {
    Permit::new(number).unwrap()
}

fn path_of(number: u8) -> LockPath {
    path("nightly").permit(permit(number))
}

fn by_permit(number: u8) -> LockSelector {
    LockSelector::Key(key("nightly"), permit(number))
}

/// Both permits of a lock that has two, in the order of their numbers.
async fn both(here: &Sidecar, there: &Sidecar) -> [(Grant, Sidecar); 2] {
    let one = here.acquire(of(2, request("nightly"))).await;
    let other = there.acquire(of(2, request("nightly"))).await;
    let mut grants = [(one, here.clone()), (other, there.clone())];
    grants.sort_by_key(|(grant, _)| grant.permit);
    grants
}

#[tokio::test(start_paused = true)]
async fn s28_s29_so_many_hold_a_lock_at_once_and_each_permit_has_a_path_of_its_own() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let [(first, _), (second, _)] = both(&here, &there).await;
    assert_eq!((first.permit, second.permit), (permit(0), permit(1)));
    assert_eq!((&first.path, &second.path), (&path_of(0), &path_of(1)));
    for sidecar in [&here, &there] {
        let busy = sidecar.busy(of(2, request("nightly"))).await;
        assert_eq!((busy.held_permits, busy.record.state), (2, LockState::Held));
        let busy = sidecar.busy(request("nightly")).await;
        assert_eq!((busy.held_permits, busy.record.path), (1, path_of(0)), "a plain lock");
    }
    let third = there.acquire(of(3, request("nightly"))).await;
    assert_eq!(third.permit, permit(2), "the greatest number limits");
}

#[tokio::test(start_paused = true)]
async fn s31_a_grant_of_a_permit_is_2_requests_and_the_failed_tries() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let plain = here.acquire(request("nightly")).await;
    there.counts();
    let grant = there.acquire(of(2, request("nightly"))).await;
    assert_eq!((plain.permit, grant.permit), (permit(0), permit(1)));
    let cost = there.counts();
    let tries = cost.of(Operation::Acquire);
    assert!(tries <= 2, "the one that is free, and perhaps the other before: {cost}");
    let reads = cost.of(Operation::ReadRecord);
    assert!(reads <= tries, "S5: beside the first try at a path: {cost}");
    assert_eq!(cost.of(Operation::WriteRecord), 1, "{cost}");
}

#[tokio::test(start_paused = true)]
async fn s30_a_permit_that_is_released_here_goes_to_who_waits_here_without_a_request() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let [(first, at), _] = both(&here, &there).await;
    let mut waits = at.coordinator.hold(&of(2, waiting("nightly", MINUTE))).unwrap();
    let HoldEvent::Waiting { place: 1, .. } = next(&mut waits).await else { panic!("no place") };
    settle().await;
    at.counts();
    at.release(&first).await;
    let next = granted(&mut waits).await;
    assert_eq!((next.permit, next.path), (first.permit, first.path));
    assert!(next.token > first.token);
    assert_eq!(at.counts(), counts([]));
}

#[tokio::test(start_paused = true)]
async fn s31_who_waits_is_served_when_a_permit_comes_free_elsewhere() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let [_, (second, at)] = both(&here, &there).await;
    let third = account.sidecar();
    let mut waits = third.coordinator.hold(&of(2, waiting("nightly", MINUTE))).unwrap();
    let HoldEvent::Waiting { place: 1, .. } = next(&mut waits).await else { panic!("no place") };
    at.release(&second).await;
    let (released, grant) = (account.now(), granted(&mut waits).await);
    assert_eq!((grant.permit, grant.path), (permit(1), path_of(1)));
    assert!(account.now() - released <= 5 * SECOND, "two tries at a fifth of the cap each");
}

#[tokio::test(start_paused = true)]
async fn s28_each_permit_is_seen_broken_and_checked_by_itself() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let first = here.acquire(request("nightly")).await;
    let (mut stream, second) = there.hold(&of(2, request("nightly"))).await;
    assert_eq!((first.permit, second.permit), (permit(0), permit(1)));
    for sidecar in [&here, &there] {
        for (number, grant) in [(0, &first), (1, &second)] {
            let shown = sidecar.coordinator.get(&by_permit(number)).await.unwrap();
            assert_eq!((shown.state, &shown.path), (LockState::Held, &path_of(number)));
            assert_eq!(shown.record.token, Some(grant.token));
            let checked = sidecar.coordinator.check_token(&by_permit(number), grant.token).await;
            assert_eq!(checked.unwrap(), (TokenStatus::Current, Some(grant.token)));
        }
    }
    let shown = there.coordinator.get(&by_permit(1)).await.unwrap();
    assert_eq!(shown.record.permits, Permits::new(2).ok());
    let held = there.coordinator.get_hold(second.lease_id, None).await.unwrap();
    assert_eq!((held.permit, held.path), (permit(1), path_of(1)));
    let request = BreakRequest {
        token: None,
        lock: by_permit(1),
        period: BreakPeriod::RunOut,
        reason: "too many".to_owned(),
        by: None,
        caller: String::new(),
    };
    there.coordinator.break_lock(request).await.unwrap();
    let HoldEvent::Held(HeldEvent::Revoked { break_note: Some(note), .. }) =
        next(&mut stream).await
    else {
        panic!("no notice")
    };
    assert_eq!(note.reason, "too many");
    let shown = there.coordinator.get(&by_permit(1)).await.unwrap();
    assert_eq!((shown.state, shown.break_note), (LockState::Breaking, Some(note)));
    assert_eq!(there.coordinator.get(&by_key("nightly")).await.unwrap().state, LockState::Held);
    let HoldEvent::Held(HeldEvent::Lost {
        reason: LossReason::Broken, break_note: Some(_), ..
    }) = next(&mut stream).await
    else {
        panic!("not lost")
    };
    assert!(here.coordinator.get_hold(first.lease_id, None).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn s23_s28_each_permit_has_a_checkpoint_of_its_own() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let grants = both(&here, &there).await;
    for (number, (grant, at)) in grants.iter().enumerate() {
        let value = CheckpointValue::new(format!("page {number}").as_bytes()).unwrap();
        at.coordinator.save(grant.lease_id, Some(grant.generation), value).await.unwrap();
    }
    for (grant, at) in &grants {
        at.release(grant).await;
    }
    let third = account.sidecar();
    for _ in 0..2 {
        let grant = third.acquire(of(2, request("nightly"))).await;
        let checkpoint = grant.checkpoint.unwrap();
        assert_eq!(checkpoint.value.as_bytes(), format!("page {}", grant.permit).as_bytes());
    }
}

#[tokio::test(start_paused = true)]
async fn s16_s28_a_permit_is_resumed_at_another_sidecar() {
    let account = Account::new();
    let here = account.sidecar();
    let _plain = here.acquire(request("nightly")).await;
    let (stream, grant) = here.hold(&of(2, request("nightly"))).await;
    assert_eq!(grant.permit, permit(1));
    stream.disconnected();
    let resume = ResumeRequest {
        attempt_id: "one".to_owned(),
        resume_token: grant.resume_token.clone(),
        told_valid_until: Some(grant.validity.valid_until.clone()),
        trace_context: None,
    };
    let there = account.sidecar();
    let mut resumed = there.coordinator.resume(&resume).unwrap();
    let again = granted(&mut resumed).await;
    assert_eq!((again.permit, again.token, &again.path), (permit(1), grant.token, &grant.path));
    pass(3 * MINUTE).await;
    assert_eq!(there.coordinator.gauges().holds, 1, "it is renewed");
    let busy = there.busy(of(2, request("nightly"))).await;
    assert_eq!(busy.held_permits, 2);
    there.release(&again).await;
    let next = there.acquire(of(2, request("nightly"))).await;
    assert!(next.permit == permit(1) && next.token > grant.token);
}

#[tokio::test(start_paused = true)]
async fn s28_what_is_known_of_a_permit_outlives_the_task_of_its_lock() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let grants = [0, 1].map(|_| sidecar.acquire(of(2, request("nightly"))));
    let grants = futures_util::future::join_all(grants).await;
    for grant in &grants {
        sidecar.release(grant).await;
    }
    settle().await;
    sidecar.assert_idle();
    for grant in &grants {
        let at = LockSelector::Path(grant.path.clone());
        let checked = sidecar.coordinator.check_token(&at, grant.token).await.unwrap();
        assert_eq!(checked.0, TokenStatus::Current);
    }
    sidecar.counts();
    let mut again = Vec::new();
    for _ in 0..2 {
        again.push(sidecar.acquire(of(2, request("nightly"))).await.permit);
    }
    again.sort();
    assert_eq!(again, [permit(0), permit(1)]);
    let cost = sidecar.counts();
    assert_eq!(cost.of(Operation::ReadRecord), 0, "their records are known: {cost}");
}

#[tokio::test(start_paused = true)]
async fn s6_a_caller_that_goes_away_leaves_no_permit_behind() {
    let account = Account::new();
    let sidecar = account.sidecar();
    sidecar.delay_everything();
    for _ in 0..20 {
        let waits = sidecar.coordinator.hold(&of(3, waiting("nightly", MINUTE))).unwrap();
        pass(SECOND / 200).await;
        drop(waits);
    }
    pass(2 * MINUTE).await;
    sidecar.assert_idle();
    for number in 0..3 {
        if let Ok(lock) = account.store.read_record(&path_of(number)).await {
            assert_eq!(lock.lease, LeaseState::Available, "permit {number}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s15_a_drain_ends_every_permit() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut holders = Vec::new();
    for _ in 0..3 {
        holders.push(sidecar.hold(&of(3, request("nightly"))).await);
    }
    let mut waits = sidecar.coordinator.hold(&of(3, waiting("nightly", MINUTE))).unwrap();
    let HoldEvent::Waiting { .. } = next(&mut waits).await else { panic!("it does not wait") };
    let ending = async {
        settle().await;
        drop(holders);
    };
    tokio::join!(sidecar.coordinator.drain(10 * SECOND), ending);
    let HoldEvent::Failed(CallError::StoreFailure(_)) = next(&mut waits).await else {
        panic!("it still waits")
    };
    sidecar.assert_idle();
    for number in 0..3 {
        let lock = account.store.read_record(&path_of(number)).await.unwrap();
        assert_eq!(lock.lease, LeaseState::Available, "permit {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn s15_s16_each_permit_goes_on_at_the_replacement() {
    let account = Account::new();
    let (old, new) = (account.sidecar(), account.sidecar());
    let mut holders = Vec::new();
    for _ in 0..3 {
        holders.push(old.hold(&of(3, request("nightly"))).await);
    }
    let mut waits = old.coordinator.hold(&of(3, waiting("nightly", MINUTE))).unwrap();
    let HoldEvent::Waiting { .. } = next(&mut waits).await else { panic!("it does not wait") };
    old.counts();
    old.coordinator.hand_over(20 * SECOND).await;
    assert_eq!(old.counts(), counts([(Operation::Renew, 3)]), "nothing is released");
    old.assert_idle();
    let HoldEvent::Failed(_) = next(&mut waits).await else { panic!("it still waits") };
    let mut resumed = Vec::new();
    for (_, grant) in &holders {
        let request = ResumeRequest {
            attempt_id: "one".to_owned(),
            resume_token: grant.resume_token.clone(),
            told_valid_until: Some(grant.validity.valid_until.clone()),
            trace_context: None,
        };
        let mut stream = new.coordinator.resume(&request).unwrap();
        let again = granted(&mut stream).await;
        assert_eq!((again.permit, again.token), (grant.permit, grant.token));
        resumed.push(stream);
    }
    let busy = new.busy(of(3, request("nightly"))).await;
    assert_eq!(busy.held_permits, 3);
    assert_eq!(new.coordinator.gauges().holds, 3);
}

#[tokio::test(start_paused = true)]
async fn s18_a_store_that_cannot_be_reached_fails_one_try_and_lets_others_wait() {
    let account = Account::new();
    let sidecar = account.sidecar();
    sidecar.faults().set_plan(FaultPlan { lose_request: 1_000, ..FaultPlan::default() });
    let failed = sidecar.ask(of(2, request("nightly"))).await.unwrap_err();
    assert!(matches!(failed, CallError::StoreFailure(_)), "{failed}");
    let mut waits = sidecar.coordinator.hold(&of(2, waiting("nightly", 5 * MINUTE))).unwrap();
    pass(MINUTE).await;
    sidecar.faults().set_plan(FaultPlan::default());
    granted(&mut waits).await;
}

/// Counts what it is told of differing numbers.
#[derive(Debug, Default)]
struct Differences(Mutex<usize>);

impl Observer for Differences {
    fn observe(&self, event: &LockEvent<'_>) {
        if let LockEventKind::PermitsDiffer { .. } = event.kind {
            *self.0.lock().unwrap() += 1;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s29_another_number_elsewhere_is_counted() {
    let account = Account::new();
    let here = account.sidecar();
    let _held = here.acquire(of(2, request("nightly"))).await;
    let _other = here.acquire(of(2, request("nightly"))).await;
    let differences = Arc::<Differences>::default();
    let there = account.sidecar_with(Arc::clone(&differences) as _, 2, |_| {});
    let third = there.acquire(of(3, request("nightly"))).await;
    assert_eq!(third.permit, permit(2), "never fatal");
    // It may have found the free permit without meeting another.
    let _busy = there.busy(of(3, request("nightly"))).await;
    assert_eq!(*differences.0.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn s28_locks_that_are_shared_with_webjobs_have_one_permit() {
    let account = Account::new();
    let shared = account.sidecar_with(Arc::new(NoObserver), 1, |settings| {
        settings.host.namespace.layout = Layout::WebJobs;
    });
    shared.counts();
    let refused = shared.ask(of(2, request("nightly"))).await.unwrap_err();
    assert!(matches!(refused, CallError::NoPermits { field: "spec.permits" }), "{refused}");
    let refused = shared.coordinator.get(&by_permit(1)).await.unwrap_err();
    assert!(matches!(refused, CallError::NoPermits { field: "lock.permit" }), "{refused}");
    assert_eq!(shared.counts(), counts([]));
    shared.acquire(of(1, request("nightly"))).await;
}

#[tokio::test(start_paused = true)]
async fn s5_a_token_of_a_permit_that_was_handed_on_is_stale_whoever_holds_the_lock_now() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let plain = sidecar.acquire(request("nightly")).await;
    let first = sidecar.acquire(of(2, request("nightly"))).await;
    let caller = sidecar.clone();
    let second =
        tokio::spawn(async move { caller.acquire(of(2, waiting("nightly", MINUTE))).await });
    settle().await;
    sidecar.release(&first).await;
    let second = second.await.unwrap();
    assert!(second.permit == first.permit && second.token > first.token);
    for grant in [&second, &plain] {
        sidecar.release(grant).await;
    }
    settle().await;
    sidecar.assert_idle();
    let at = by_permit(first.permit.number());
    let expected = (TokenStatus::Stale, Some(second.token));
    assert_eq!(sidecar.coordinator.check_token(&at, first.token).await.unwrap(), expected);
    // The lock's task knows only of permit 0 now.
    let _plain = sidecar.acquire(request("nightly")).await;
    assert_eq!(sidecar.coordinator.check_token(&at, first.token).await.unwrap(), expected);
}
