//! The order of those who wait, and turns between sidecars (S10, S12).

use std::time::Duration;

use super::rig::{
    Account, MINUTE, SECOND, Sidecar, by_key, granted, next, pass, request, settle, waiting,
};
use crate::coordinator::{
    CallError, HeldEvent, HoldEvent, HoldRequest, HoldStream, ListRequest, LockSelector, LockState,
    TokenStatus, Under,
};
use crate::lock::Permits;
use crate::record::{HOLDER_FIELD, Labels};
use crate::store::Operation;
use crate::testing::FaultPlan;
use crate::time::Instant;

#[tokio::test(start_paused = true)]
async fn s10_the_lock_is_handed_on_in_the_order_of_arrival_with_growing_tokens() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (_first, grant) = sidecar.hold(&request("nightly")).await;
    let mut streams = Vec::new();
    for place in 1..=5 {
        let mut stream = sidecar.coordinator.hold(&waiting("nightly", MINUTE)).unwrap();
        let HoldEvent::Waiting { place: told, record } = next(&mut stream).await else {
            panic!("not told that it waits")
        };
        assert_eq!((told, record.held_here), (place, true));
        assert_eq!(record.waiting_here, [""; 0], "thousands are not told of each other");
        streams.push(stream);
    }
    // One in the middle goes away.
    drop(streams.remove(2));
    sidecar.release(&grant).await;
    let mut tokens = vec![grant.token];
    let lock = LockSelector::Path(super::rig::path("nightly"));
    for mut stream in streams {
        let grant = granted(&mut stream).await;
        assert_eq!(sidecar.coordinator.gauges().holds, 1);
        assert_eq!(grant.token.epoch(), tokens[0].epoch(), "no acquisition");
        assert!(Some(&grant.token) > tokens.last());
        // S5: hand-offs are not in the record, and known here while the lock is held.
        let (status, newest) = sidecar.coordinator.check_token(&lock, tokens[0]).await.unwrap();
        assert_eq!((status, newest), (TokenStatus::Stale, Some(grant.token)));
        tokens.push(grant.token);
        sidecar.release(&grant).await;
    }
    assert_eq!(tokens.len(), 5);
    settle().await;
    sidecar.assert_idle();
    // S5: nor are they forgotten when nobody holds it.
    let (status, newest) = sidecar.coordinator.check_token(&lock, tokens[3]).await.unwrap();
    assert_eq!((status, newest), (TokenStatus::Stale, tokens.last().copied()));
}

/// The lock is had in the store, and the answer that tells this here is on its way.
async fn granted_late(account: &Account, sidecar: &Sidecar) -> HoldStream {
    let stream = sidecar.coordinator.hold(&waiting("nightly", MINUTE)).unwrap();
    account.answers_late(sidecar, HOLDER_FIELD).await;
    sidecar.faults().set_plan(FaultPlan::default());
    stream
}

#[tokio::test(start_paused = true)]
async fn s10_a_caller_whose_lock_the_store_shows_as_held_is_not_said_to_wait_for_it() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = granted_late(&account, &sidecar).await;
    let record = sidecar.coordinator.get(&by_key("nightly")).await.unwrap();
    assert_eq!((record.state, record.waiters_here, record.held_here), (LockState::Held, 0, true));
    assert_eq!(granted(&mut stream).await.token, record.record.token.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_look_at_a_lock_waits_a_second_at_most_for_what_becomes_of_a_try_for_it() {
    let account = Account::new();
    let (there, here) = (account.sidecar(), account.sidecar());
    let _held = there.hold(&request("nightly")).await;
    let _waits = here.coordinator.hold(&waiting("nightly", MINUTE)).unwrap();
    let tried = here.faults().hold_before(Operation::Acquire);
    while here.counts().of(Operation::Acquire) == 0 {
        pass(SECOND / 100).await;
    }
    let from = account.now();
    let record = here.coordinator.get(&by_key("nightly")).await.unwrap();
    assert_eq!((record.state, record.waiters_here, record.held_here), (LockState::Held, 1, false));
    assert_eq!(account.now().saturating_since(from), SECOND);
    tried.notify_one();
}

#[tokio::test(start_paused = true)]
async fn s12_who_waits_for_another_sidecars_lock_is_told_whose_it_is() {
    let account = Account::new();
    let (there, here) = (account.sidecar(), account.sidecar());
    let (_held, grant) = there.hold(&request("nightly")).await;
    let mut stream = here.coordinator.hold(&waiting("nightly", MINUTE)).unwrap();
    let HoldEvent::Waiting { record, .. } = next(&mut stream).await else {
        panic!("not told that it waits")
    };
    assert_eq!((record.held_here, record.record.token), (false, Some(grant.token)));
}

/// Takes the lock for a second, again and again; when it had it.
async fn work(sidecar: Sidecar, account: Account, until: Instant) -> Vec<Instant> {
    let mut had = Vec::new();
    while account.now() < until {
        let mut stream = sidecar.coordinator.hold(&waiting("nightly", 10 * MINUTE)).unwrap();
        granted(&mut stream).await;
        had.push(account.now());
        pass(SECOND).await;
    }
    had
}

#[tokio::test(start_paused = true)]
async fn s10_no_sidecar_keeps_the_lock_to_itself() {
    let account = Account::new();
    let until = account.now() + 10 * MINUTE;
    let mut workers = Vec::new();
    let sidecars = [account.sidecar(), account.sidecar(), account.sidecar()];
    for (number, sidecar) in sidecars.iter().enumerate() {
        for _ in 0..3 {
            let worker = tokio::spawn(work(sidecar.clone(), account.clone(), until));
            workers.push((number, worker));
        }
    }
    let mut turns = Vec::new();
    for (number, worker) in workers {
        turns.extend(worker.await.unwrap().into_iter().map(|at| (at, number)));
    }
    turns.sort_unstable();
    for number in 0..sidecars.len() {
        let own: Vec<_> = turns.iter().filter(|turn| turn.1 == number).collect();
        let longest = own.windows(2).map(|pair| pair[1].0 - pair[0].0).max().unwrap();
        assert!(own.len() > 60, "sidecar {number} had the lock {} times", own.len());
        assert!(longest < 2 * MINUTE, "sidecar {number} waited {longest:?}");
    }
    settle().await;
    sidecars.iter().for_each(Sidecar::assert_idle);
}

#[tokio::test(start_paused = true)]
async fn s10_after_five_seconds_of_handing_on_a_waiter_elsewhere_gets_its_turn() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let until = account.now() + 30 * SECOND;
    let local: Vec<_> =
        (0..4).map(|_| tokio::spawn(work(here.clone(), account.clone(), until))).collect();
    pass(SECOND).await;
    let began = account.now();
    let mut other = there.coordinator.hold(&waiting("nightly", MINUTE)).unwrap();
    granted(&mut other).await;
    let waited = account.now() - began;
    // Once handed on for five seconds at most, or twice if the first turn is missed by a poll.
    assert!(waited <= 15 * SECOND, "{waited:?}");
    drop(other);
    for worker in local {
        worker.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn s12_a_wait_ends_when_it_said_and_names_the_holder() {
    let account = Account::new();
    let (_stream, grant) = account.sidecar().hold(&request("nightly")).await;
    let sidecar = account.sidecar();
    let began = account.now();
    let busy = sidecar.busy(waiting("nightly", 7 * SECOND)).await;
    let waited = account.now() - began;
    assert!(waited >= 7 * SECOND && waited <= 7 * SECOND + Duration::from_millis(5), "{waited:?}");
    assert_eq!(busy.record.record.token, Some(grant.token));
    settle().await;
    sidecar.assert_idle();
}

#[tokio::test(start_paused = true)]
async fn s19_an_unknown_lease_id_is_named_so() {
    let sidecar = Account::new().sidecar();
    let unknown = crate::lock::LeaseId::from_uuid(uuid::Uuid::from_u128(7));
    let refused = sidecar.coordinator.release(unknown, None).await.unwrap_err();
    assert!(matches!(refused, CallError::UnknownLease), "{refused}");
    let refused = sidecar.coordinator.extend(unknown, None, MINUTE).await.unwrap_err();
    assert!(matches!(refused, CallError::UnknownLease), "{refused}");
    let refused = sidecar.coordinator.report_progress(unknown, None).await.unwrap_err();
    assert!(matches!(refused, CallError::UnknownLease), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn s12_who_waits_hears_so_at_least_each_thirty_seconds_with_its_place_and_the_holder() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (_first, grant) = sidecar.hold(&request("nightly")).await;
    let mut second = sidecar.coordinator.hold(&waiting("nightly", 60 * MINUTE)).unwrap();
    let mut third = sidecar.coordinator.hold(&waiting("nightly", 60 * MINUTE)).unwrap();
    let mut heard = account.now();
    for round in 0..5 {
        for (place, stream) in [(1, &mut second), (2, &mut third)] {
            let HoldEvent::Waiting { place: told, record } = next(stream).await else {
                panic!("not told that it waits")
            };
            assert_eq!((told, record.record.token), (place, Some(grant.token)), "round {round}");
        }
        assert!(account.now() - heard <= 30 * SECOND, "round {round}");
        heard = account.now();
    }
    assert!(heard.since_boot() > Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn s31_who_does_not_read_that_it_waits_is_granted_all_the_same() {
    let account = Account::new();
    let sidecar = account.sidecar();
    for permits in [1_u8, 2] {
        let lock = format!("of-{permits}");
        let asked = |wait| HoldRequest {
            permits: Permits::new(u32::from(permits)).unwrap(),
            ..waiting(&lock, wait)
        };
        let mut held = Vec::new();
        for _ in 0..permits {
            held.push(sidecar.hold(&asked(Duration::ZERO)).await);
        }
        let mut silent = sidecar.coordinator.hold(&asked(2 * 60 * MINUTE)).unwrap();
        // Told that it waits more often than anything has room for.
        pass(60 * MINUTE).await;
        let (_stream, grant) = held.remove(0);
        sidecar.release(&grant).await;
        settle().await;
        assert_eq!(sidecar.coordinator.gauges().holds, usize::from(permits), "{permits} permits");
        // It reads what is true now: one place, and its grant.
        let HoldEvent::Waiting { place: 1, .. } = next(&mut silent).await else {
            panic!("no place")
        };
        let HoldEvent::Granted(granted) = next(&mut silent).await else { panic!("no grant") };
        pass(60 * MINUTE).await;
        let HoldEvent::Held(HeldEvent::Renewed(validity)) = next(&mut silent).await else {
            panic!("no renewal")
        };
        assert!(validity.valid_until.since_boot > account.now().since_boot(), "the newest");
        sidecar.release(&granted).await;
        settle().await;
    }
}

fn all() -> ListRequest {
    ListRequest {
        under: Under::OwnHostId,
        states: Vec::new(),
        labels: Labels::default(),
        share: None,
        page_size: 10,
        page_token: None,
    }
}

#[tokio::test(start_paused = true)]
async fn s10_after_hand_offs_the_last_holder_is_shown_also_when_nobody_has_the_lock() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let named =
        |name: &str| HoldRequest { holder: Some(name.to_owned()), ..waiting("nightly", MINUTE) };
    let (_first, first) = sidecar.hold(&named("first")).await;
    let mut second = sidecar.coordinator.hold(&named("second")).unwrap();
    let HoldEvent::Waiting { .. } = next(&mut second).await else { panic!("it does not wait") };
    pass(10 * SECOND).await;
    sidecar.release(&first).await;
    let grant = granted(&mut second).await;
    assert_eq!(grant.token.epoch(), first.token.epoch(), "it was handed on");
    let lock = LockSelector::Path(super::rig::path("nightly"));
    let last = (Some(grant.token), "second".to_owned(), Some(grant.acquired_at));
    for state in [LockState::Held, LockState::Available] {
        let shown = sidecar.coordinator.get(&lock).await.unwrap();
        let listed = sidecar.coordinator.list(all(), |_| true).await.unwrap().records.remove(0);
        for shown in [shown, listed] {
            let record = shown.record;
            assert_eq!((record.token, record.holder, record.acquired_at), last, "{state:?}");
            assert_eq!(shown.state, state);
        }
        if state == LockState::Held {
            sidecar.release(&grant).await;
            settle().await;
        }
    }
    // Whoever has it after that elsewhere is shown as what the store has.
    let other = account.sidecar();
    let (_third, third) = other.hold(&named("third")).await;
    let shown = sidecar.coordinator.get(&lock).await.unwrap().record;
    assert_eq!((shown.token, &*shown.holder), (Some(third.token), "third"));
}
