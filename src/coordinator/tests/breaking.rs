//! Breaking a lock's lease (S17).

use std::sync::Arc;

use super::rig::{
    Account, LEASE, MINUTE, SECOND, Sidecar, by_key, counts, granted, next, next_but_renewals,
    pass, path, request, settle, waiting,
};
use crate::coordinator::{
    BreakPeriod, BreakRequest, BreakResult, CallError, CheckpointOutcome, HoldEvent, LockState,
    LossReason, NoObserver, Released, Validity,
};
use crate::lock::CheckpointValue;
use crate::store::{LeaseState, Operation};

pub(super) async fn broken(
    sidecar: &Sidecar,
    period: BreakPeriod,
) -> Result<BreakResult, CallError> {
    let request = BreakRequest {
        lock: by_key("nightly"),
        period,
        reason: "the job hangs".to_owned(),
        by: Some("ann".to_owned()),
        caller: "ann".to_owned(),
    };
    sidecar.coordinator.break_lock(request).await
}

pub(super) fn assert_lost_by_the_break(event: &HoldEvent) {
    let HoldEvent::Lost { reason: LossReason::Broken, detail, break_note: Some(note) } = event
    else {
        panic!("{event:?}")
    };
    assert!(detail.contains("the job hangs"), "{detail}");
    assert_eq!((note.reason.as_str(), note.by.as_str()), ("the job hangs", "ann"));
}

/// What the notice says; the deadline that it has.
fn assert_revoked(event: &HoldEvent) -> Validity {
    let HoldEvent::Revoked { validity, break_note: Some(note) } = event else {
        panic!("{event:?}")
    };
    assert_eq!((note.reason.as_str(), note.by.as_str()), ("the job hangs", "ann"));
    assert_eq!(note.period, BreakPeriod::RunOut);
    validity.clone()
}

#[tokio::test(start_paused = true)]
async fn s22_a_holder_here_is_told_at_once_and_the_lease_runs_out() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let (mut stream, first) = here.hold(&request("nightly")).await;
    let until = account.now() + first.validity.valid_for;
    let result = broken(&here, BreakPeriod::RunOut).await.unwrap();
    assert!(matches!(result, BreakResult::Breaking { free_in } if free_in <= LEASE), "{result:?}");
    let told = account.now();
    let deadline = assert_revoked(&next(&mut stream).await);
    assert_eq!(account.now(), told);
    assert_eq!(deadline.valid_until, first.validity.valid_until, "unchanged");
    let shown = there.coordinator.get(&by_key("nightly")).await.unwrap();
    assert_eq!(shown.state, LockState::Breaking);
    assert_eq!(shown.break_note.unwrap().reason, "the job hangs");
    let (_next, second) = there.hold(&waiting("nightly", 2 * MINUTE)).await;
    assert!(account.now() >= until, "nobody gets it while its holder may act");
    assert!(second.token > first.token);
    // Its own end came before.
    assert_lost_by_the_break(&next(&mut stream).await);
    drop(stream);
    settle().await;
    here.assert_idle();
}

#[tokio::test(start_paused = true)]
async fn s22_a_holder_elsewhere_learns_it_at_its_next_renewal() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let (mut stream, _) = here.hold(&request("nightly")).await;
    pass(5 * SECOND).await;
    let result = broken(&there, BreakPeriod::RunOut).await.unwrap();
    assert!(matches!(result, BreakResult::Breaking { .. }), "{result:?}");
    let asked = account.now();
    here.counts();
    assert_revoked(&next_but_renewals(&mut stream).await);
    assert!(account.now() - asked <= LEASE / 3 + 2 * SECOND);
    let cost = here.counts();
    let expected =
        [(Operation::Renew, 1), (Operation::ReadRecord, 1), (Operation::ReadBreakNote, 1)];
    assert_eq!(cost, counts(expected), "the renewal that met it, a read, and the note");
}

#[tokio::test(start_paused = true)]
async fn s22_until_its_end_a_notice_costs_a_read_each_thirtieth_of_the_lease() {
    let account = Account::new();
    let here = account.sidecar();
    let (mut stream, _) = here.hold(&request("nightly")).await;
    broken(&here, BreakPeriod::RunOut).await.unwrap();
    assert_revoked(&next(&mut stream).await);
    here.counts();
    pass(LEASE / 3).await;
    let cost = here.counts();
    let reads = cost.of(Operation::ReadRecord);
    assert_eq!(cost, counts([(Operation::ReadRecord, reads)]));
    assert!((9..=11).contains(&reads), "{cost}");
}

#[tokio::test(start_paused = true)]
async fn s22_s26_who_is_told_saves_and_releases_and_the_next_one_goes_on() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let (mut stream, first) = here.hold(&request("nightly")).await;
    let mut waits = there.coordinator.hold(&waiting("nightly", MINUTE)).unwrap();
    settle().await;
    broken(&there, BreakPeriod::RunOut).await.unwrap();
    assert_revoked(&next_but_renewals(&mut stream).await);
    let told = account.now();
    let page = CheckpointValue::new(b"page 7").unwrap();
    let generation = Some(first.generation);
    let released =
        here.coordinator.release_saving(first.lease_id, generation, Some(page.clone())).await;
    let (released, saved) = released.unwrap();
    assert_eq!(released, Released::Released);
    assert!(matches!(saved, Some(CheckpointOutcome::Saved { .. })), "{saved:?}");
    let second = granted(&mut waits).await;
    assert_eq!(second.checkpoint.map(|checkpoint| checkpoint.value), Some(page));
    assert!(account.now() - told <= 6 * SECOND, "a poll cap after the release");
}

#[tokio::test(start_paused = true)]
async fn s22_now_during_a_notice_is_learned() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let (mut stream, _) = here.hold(&request("nightly")).await;
    broken(&there, BreakPeriod::RunOut).await.unwrap();
    assert_revoked(&next_but_renewals(&mut stream).await);
    broken(&there, BreakPeriod::Now).await.unwrap();
    let asked = account.now();
    let event = next(&mut stream).await;
    assert_lost_by_the_break(&event);
    let HoldEvent::Lost { break_note: Some(note), .. } = event else { panic!("{event:?}") };
    assert_eq!(note.period, BreakPeriod::Now, "S17: the break that has ended it");
    assert!(account.now() - asked <= 3 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn s17_now_frees_the_lock_at_once_for_others() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let (mut stream, first) = here.hold(&request("nightly")).await;
    let result = broken(&there, BreakPeriod::Now).await.unwrap();
    assert!(matches!(result, BreakResult::Broken), "{result:?}");
    let grant = there.acquire(request("nightly")).await;
    assert!(grant.token > first.token);
    let event = next_but_renewals(&mut stream).await;
    assert!(matches!(event, HoldEvent::Lost { reason: LossReason::Taken, .. }), "{event:?}");
    stream.closed_by_client();
    settle().await;
    here.assert_idle();
    assert_eq!(account.lease("nightly").await, LeaseState::Leased, "the later hold is not harmed");
    let left = there.coordinator.get_hold(grant.lease_id, Some(grant.generation)).await.unwrap();
    assert!(left.validity.valid_for > SECOND);
}

#[tokio::test(start_paused = true)]
async fn s13_a_waiter_here_gets_a_broken_lock_only_when_the_holder_cannot_believe_in_it() {
    let account = Account::new();
    let sidecar = account.sidecar();
    for closes in [true, false] {
        let (mut stream, first) = sidecar.hold(&waiting("nightly", MINUTE)).await;
        let believed = account.now() + first.validity.valid_for;
        let mut waits = sidecar.coordinator.hold(&waiting("nightly", 5 * MINUTE)).unwrap();
        settle().await;
        broken(&sidecar, BreakPeriod::Now).await.unwrap();
        assert_lost_by_the_break(&next(&mut stream).await);
        if closes {
            stream.closed_by_client();
            granted(&mut waits).await;
            assert!(account.now() < believed);
        } else {
            granted(&mut waits).await;
            assert!(account.now() >= believed);
        }
        drop(waits);
        settle().await;
        sidecar.assert_idle();
    }
}

#[tokio::test(start_paused = true)]
async fn s17_the_note_of_an_earlier_break_says_nothing_about_a_later_loss() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (mut first, _) = sidecar.hold(&request("nightly")).await;
    broken(&sidecar, BreakPeriod::Now).await.unwrap();
    assert_lost_by_the_break(&next(&mut first).await);
    first.closed_by_client();
    let (mut second, _) = sidecar.hold(&waiting("nightly", MINUTE)).await;
    account.store.locks().delete_lock(&path("nightly"));
    let event = next_but_renewals(&mut second).await;
    let HoldEvent::Lost { reason, break_note, .. } = event else { panic!("{event:?}") };
    assert_eq!((reason, break_note), (LossReason::LockDeleted, None));
}

#[tokio::test(start_paused = true)]
async fn s17_only_what_is_held_can_be_broken_and_only_where_it_is_allowed() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let missing = broken(&sidecar, BreakPeriod::RunOut).await.unwrap_err();
    assert!(matches!(missing, CallError::NoSuchLock { .. }), "{missing}");
    let grant = sidecar.acquire(request("nightly")).await;
    sidecar.release(&grant).await;
    let free = broken(&sidecar, BreakPeriod::RunOut).await.unwrap();
    assert!(matches!(free, BreakResult::NotHeld), "{free:?}");
    let strict =
        account.sidecar_with(Arc::new(NoObserver), 1, |settings| settings.allow_break = false);
    let refused = broken(&strict, BreakPeriod::RunOut).await.unwrap_err();
    assert!(matches!(refused, CallError::BreakNotEnabled), "{refused}");
}
