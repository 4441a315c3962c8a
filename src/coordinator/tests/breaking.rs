//! Breaking a lock's lease (S17).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::rig::{
    Account, LEASE, MINUTE, SECOND, Sidecar, by_key, counts, granted, next, next_but_renewals,
    pass, path, request, settle, waiting,
};
use crate::coordinator::{
    BreakPeriod, BreakRequest, BreakResult, CallError, CheckpointOutcome, Concluding, HeldEvent,
    HoldEvent, HoldRequest, LockState, LossReason, NoObserver, Released, Validity,
};
use crate::lock::{FencingToken, LeaseId};
use crate::record::{CheckpointValue, Fields};
use crate::store::{Acquire, LeaseState, LeaseStoreExt as _, Operation, Write};

pub(crate) async fn broken(
    sidecar: &Sidecar,
    period: BreakPeriod,
) -> Result<BreakResult, CallError> {
    broken_naming(sidecar, None, period).await
}

/// A break by an operator who was shown this token.
async fn broken_naming(
    sidecar: &Sidecar,
    token: Option<FencingToken>,
    period: BreakPeriod,
) -> Result<BreakResult, CallError> {
    let request = BreakRequest {
        lock: by_key("nightly"),
        token,
        period,
        reason: "the job hangs".to_owned(),
        by: Some("ann".to_owned()),
        caller: "ann".to_owned(),
    };
    sidecar.coordinator.break_lock(request).await
}

/// A break through `sidecar` whose request is under way until it is let go.
pub(crate) fn breaking_late(
    sidecar: &Sidecar,
    token: Option<FencingToken>,
    period: BreakPeriod,
) -> (Arc<Notify>, JoinHandle<Result<BreakResult, CallError>>) {
    let under_way = sidecar.faults().hold_before(Operation::BreakLease);
    let sidecar = sidecar.clone();
    let answer = tokio::spawn(async move { broken_naming(&sidecar, token, period).await });
    (under_way, answer)
}

/// Somebody else's tool breaks the lease at once, without a note.
fn broken_by_another_tool(account: &Account) {
    let now = account.now();
    account.store.locks().break_without_note(&path("nightly"), Duration::ZERO, now).unwrap();
}

pub(crate) fn assert_lost_by_the_break(event: &HoldEvent) {
    let HoldEvent::Held(HeldEvent::Lost {
        reason: LossReason::Broken,
        detail,
        break_note: Some(note),
    }) = event
    else {
        panic!("{event:?}")
    };
    assert!(detail.contains("the job hangs"), "{detail}");
    assert_eq!((note.reason.as_str(), note.by.as_str()), ("the job hangs", "ann"));
}

/// What the notice says; the deadline that it has.
fn assert_revoked(event: &HoldEvent) -> Validity {
    let HoldEvent::Held(HeldEvent::Revoked { validity, break_note: Some(note) }) = event else {
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
    let released = here.release_saving(first.lease_id, generation, page.clone()).await;
    let Concluding { released, checkpoint: saved, .. } = released.unwrap();
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
    let HoldEvent::Held(HeldEvent::Lost { break_note: Some(note), .. }) = event else {
        panic!("{event:?}")
    };
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
    assert!(
        matches!(event, HoldEvent::Held(HeldEvent::Lost { reason: LossReason::Taken, .. })),
        "{event:?}"
    );
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
        broken_by_another_tool(&account);
        let event = next_but_renewals(&mut stream).await;
        assert!(
            matches!(event, HoldEvent::Held(HeldEvent::Lost { reason: LossReason::Broken, .. })),
            "{event:?}"
        );
        let shown = sidecar.coordinator.get(&by_key("nightly")).await.unwrap();
        assert_eq!(shown.state, LockState::Available, "for others it is");
        assert!(shown.kept_until.is_some(), "{shown:?}");
        let busy = sidecar.busy(request("nightly")).await;
        assert_eq!(busy.record.kept_until, shown.kept_until);
        assert!(busy.retry_after > 5 * SECOND && busy.retry_after < LEASE, "{busy:?}");
        if closes {
            stream.closed_by_client();
            granted(&mut waits).await;
            assert!(account.now() < believed);
        } else {
            granted(&mut waits).await;
            assert!(account.now() >= believed);
        }
        let shown = sidecar.coordinator.get(&by_key("nightly")).await.unwrap();
        assert_eq!(shown.kept_until, None);
        drop(waits);
        settle().await;
        sidecar.assert_idle();
    }
}

#[tokio::test(start_paused = true)]
async fn s13_a_holder_that_was_told_lost_frees_the_lock_by_its_generation() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let grant = sidecar.acquire(request("nightly")).await;
    let mut waits = sidecar.coordinator.hold(&waiting("nightly", 5 * MINUTE)).unwrap();
    settle().await;
    broken_by_another_tool(&account);
    pass(LEASE / 2).await;
    let told = account.now();
    let (generation, lease_id) = (grant.generation, grant.lease_id);
    let ended = Released::AlreadyLost { reason: LossReason::Broken };
    // A call that does not know the generation, or knows another, may be a late one.
    for other in [None, Some(0)] {
        assert_eq!(sidecar.coordinator.release(lease_id, other).await.unwrap(), ended);
        settle().await;
        let shown = sidecar.coordinator.get(&by_key("nightly")).await.unwrap();
        assert!(shown.kept_until.is_some());
    }
    assert!(sidecar.coordinator.release(lease_id, Some(generation + 1)).await.is_err());
    assert_eq!(sidecar.coordinator.release(lease_id, Some(generation)).await.unwrap(), ended);
    let second = granted(&mut waits).await;
    assert!(account.now() - told < SECOND, "{:?}", account.now() - told);
    // A repeat of it is late, and touches nothing.
    assert_eq!(sidecar.coordinator.release(lease_id, Some(generation)).await.unwrap(), ended);
    pass(LEASE).await;
    let second = sidecar.coordinator.get_hold(second.lease_id, Some(1)).await.unwrap();
    assert!(second.validity.valid_for > SECOND);
}

/// What another tool has broken may end sooner than its holder's validity.
#[tokio::test(start_paused = true)]
async fn s22_a_break_of_what_another_tool_has_broken_is_no_notice() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (mut stream, _) = sidecar.hold(&request("nightly")).await;
    let now = account.now();
    account.store.locks().break_without_note(&path("nightly"), 5 * SECOND, now).unwrap();
    let BreakResult::Breaking { free_in } = broken(&sidecar, BreakPeriod::RunOut).await.unwrap()
    else {
        panic!("not breaking")
    };
    assert!(free_in <= 5 * SECOND, "{free_in:?}");
    assert_lost_by_the_break(&next_but_renewals(&mut stream).await);
    assert!(account.now() - now < SECOND);
}

#[tokio::test(start_paused = true)]
async fn s13_a_lock_whose_holder_was_told_lost_by_the_clock_goes_back_once_it_says_that_it_knows() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let long = HoldRequest { max_hold: Some(30 * SECOND), ..request("nightly") };
    let grant = here.acquire(long).await;
    let mut waits = there.coordinator.hold(&waiting("nightly", 5 * MINUTE)).unwrap();
    pass(30 * SECOND).await;
    let released = here.coordinator.release(grant.lease_id, Some(grant.generation)).await.unwrap();
    assert_eq!(released, Released::AlreadyLost { reason: LossReason::MaxHoldReached });
    settle().await;
    assert_eq!(account.lease("nightly").await, LeaseState::Available);
    granted(&mut waits).await;
    here.assert_idle();
}

#[tokio::test(start_paused = true)]
async fn s17_now_frees_the_lock_at_the_sidecar_that_had_the_holder() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    // How its holder is gone, or does not know; and whether the operator asks another sidecar.
    for (kind, elsewhere) in [
        ("unary", false),
        ("stream", false),
        ("silent", false),
        ("unary", true),
        ("stream", true),
        ("silent", true),
    ] {
        let (token, stream) = match kind {
            "unary" => (here.acquire(request("nightly")).await.token, None),
            _ => {
                let (stream, grant) = here.hold(&request("nightly")).await;
                (grant.token, Some(stream))
            }
        };
        let _stream = match (kind, stream) {
            ("silent", Some(stream)) => {
                stream.disconnected();
                None
            }
            (_, stream) => stream,
        };
        settle().await;
        let mut waits = here.coordinator.hold(&waiting("nightly", 5 * MINUTE)).unwrap();
        settle().await;
        let operator = if elsewhere { &there } else { &here };
        let result = broken_naming(operator, Some(token), BreakPeriod::Now).await.unwrap();
        assert!(matches!(result, BreakResult::Broken), "{result:?}");
        let asked = account.now();
        let next = granted(&mut waits).await;
        let after = account.now() - asked;
        // Elsewhere it is learned at the next renewal; a silent one is not renewed any more.
        let bound = match (elsewhere, kind) {
            (false, _) => SECOND,
            (true, "silent") => LEASE + 2 * SECOND,
            (true, _) => LEASE / 3 + 5 * SECOND,
        };
        assert!(after <= bound, "{kind}, elsewhere {elsewhere}: {after:?}");
        assert!(next.token > token);
        waits.closed_by_client();
        settle().await;
    }
    here.assert_idle();
}

#[tokio::test(start_paused = true)]
async fn s17_a_late_break_does_not_hit_who_has_the_lock_since() {
    let account = Account::new();
    let [operator, first, second] = std::array::from_fn(|_| account.sidecar());
    for names in [true, false] {
        let grant = first.acquire(request("nightly")).await;
        let (under_way, answer) =
            breaking_late(&operator, names.then_some(grant.token), BreakPeriod::Now);
        settle().await;
        first.release(&grant).await;
        let (mut innocent, since) = second.hold(&request("nightly")).await;
        pass(4 * SECOND).await;
        under_way.notify_waiters();
        let refused = answer.await.unwrap().unwrap_err();
        let CallError::OtherHolder { named, now, .. } = &refused else { panic!("{refused}") };
        assert_eq!((*named, *now), (Some(grant.token), Some(since.token)));
        let text = refused.to_string();
        for token in [grant.token, since.token] {
            assert!(text.contains(&token.to_string()), "{text}");
        }
        assert_eq!(account.store.read_break_note(&path("nightly")).await.unwrap(), None);
        assert_eq!(account.lease("nightly").await, LeaseState::Leased);
        let ended = tokio::time::timeout(2 * LEASE, async {
            while matches!(innocent.next().await, Some(HoldEvent::Held(HeldEvent::Renewed(_)))) {}
        });
        assert!(ended.await.is_err(), "its hold goes on");
        innocent.closed_by_client();
        settle().await;
    }
}

/// A break is under way here for longer than holds last that are handed on.
#[tokio::test(start_paused = true)]
async fn s17_a_late_break_does_not_hit_who_gets_the_lock_here_meanwhile() {
    for (links, period) in [
        (1, BreakPeriod::Now),
        (6, BreakPeriod::Now),
        (1, BreakPeriod::RunOut),
        (6, BreakPeriod::RunOut),
    ] {
        let account = Account::new();
        let sidecar = account.sidecar();
        let (mut stream, first) = sidecar.hold(&request("nightly")).await;
        let (under_way, answer) = breaking_late(&sidecar, Some(first.token), period);
        settle().await;
        let mut last = first.clone();
        for _ in 0..links {
            let mut next = sidecar.coordinator.hold(&waiting("nightly", MINUTE)).unwrap();
            pass(Duration::from_millis(700)).await;
            sidecar.release(&last).await;
            last = granted(&mut next).await;
            stream = next;
        }
        under_way.notify_waiters();
        let refused = answer.await.unwrap().unwrap_err();
        let CallError::OtherHolder { named, now, .. } = &refused else { panic!("{refused}") };
        assert_eq!((*named, *now), (Some(first.token), Some(last.token)));
        assert_eq!(account.lease("nightly").await, LeaseState::Leased);
        let ended = tokio::time::timeout(2 * LEASE, async {
            while matches!(stream.next().await, Some(HoldEvent::Held(HeldEvent::Renewed(_)))) {}
        });
        assert!(ended.await.is_err(), "{links} {period:?}: its hold goes on");
    }
}

/// The store has done a break of which the answer is on its way.
#[tokio::test(start_paused = true)]
async fn s1_s17_nothing_is_handed_on_here_once_it_may_be_broken() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let (_stream, first) = here.hold(&request("nightly")).await;
    let mut second = here.coordinator.hold(&waiting("nightly", MINUTE)).unwrap();
    let (_under_way, _answer) = breaking_late(&here, Some(first.token), BreakPeriod::Now);
    settle().await;
    broken_by_another_tool(&account);
    let (mut other, elsewhere) = there.hold(&request("nightly")).await;
    here.release(&first).await;
    let early = tokio::time::timeout(5 * SECOND, granted(&mut second)).await;
    assert!(early.is_err(), "the other sidecar has it: {early:?}");
    there.release(&elsewhere).await;
    assert!(matches!(next(&mut other).await, HoldEvent::Released(_)));
    let second = granted(&mut second).await;
    assert!(second.token > elsewhere.token);
}

/// A break that meets the lock between its acquisition and the write of the new token goes by the record of
/// the grant before.
#[tokio::test(start_paused = true)]
async fn s17_a_late_break_does_not_hit_who_is_about_to_be_granted_here() {
    for period in [BreakPeriod::Now, BreakPeriod::RunOut] {
        let account = Account::new();
        let sidecar = account.sidecar();
        let (_stream, first) = sidecar.hold(&request("nightly")).await;
        let mut second = sidecar.coordinator.hold(&waiting("nightly", MINUTE)).unwrap();
        let (under_way, answer) = breaking_late(&sidecar, Some(first.token), period);
        settle().await;
        let write = sidecar.faults().hold_before(Operation::WriteRecord);
        sidecar.release(&first).await;
        settle().await;
        assert_eq!(account.lease("nightly").await, LeaseState::Leased, "it is acquired");
        under_way.notify_waiters();
        settle().await;
        write.notify_waiters();
        granted(&mut second).await;
        drop(answer);
        let ended = tokio::time::timeout(2 * LEASE, async {
            while matches!(second.next().await, Some(HoldEvent::Held(HeldEvent::Renewed(_)))) {}
        });
        assert!(ended.await.is_err(), "{period:?}: its hold goes on");
    }
}

#[tokio::test(start_paused = true)]
async fn s17_a_late_break_ends_the_grant_that_was_written_since() {
    let account = Account::new();
    let (operator, here) = (account.sidecar(), account.sidecar());
    let (mut stream, grant) = here.hold(&request("nightly")).await;
    let (under_way, answer) = breaking_late(&operator, None, BreakPeriod::Now);
    settle().await;
    let page = CheckpointValue::new(b"page 7").unwrap();
    here.coordinator.save(grant.lease_id, Some(grant.generation), page).await.unwrap();
    under_way.notify_waiters();
    let result = answer.await.unwrap().unwrap();
    assert!(matches!(result, BreakResult::Broken), "{result:?}");
    assert_lost_by_the_break(&next_but_renewals(&mut stream).await);
}

#[tokio::test(start_paused = true)]
async fn s17_a_break_of_a_grant_that_is_over_asks_the_store_for_nothing() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let first = sidecar.acquire(request("nightly")).await;
    sidecar.release(&first).await;
    let free = broken_naming(&sidecar, Some(first.token), BreakPeriod::Now).await.unwrap();
    assert!(matches!(free, BreakResult::NotHeld), "{free:?}");
    let (_innocent, second) = sidecar.hold(&request("nightly")).await;
    sidecar.counts();
    let refused = broken_naming(&sidecar, Some(first.token), BreakPeriod::Now).await.unwrap_err();
    let CallError::OtherHolder { now, .. } = refused else { panic!("{refused}") };
    assert_eq!(now, Some(second.token));
    assert_eq!(sidecar.counts(), counts([(Operation::ReadRecord, 1)]));
}

#[tokio::test(start_paused = true)]
async fn s17_what_was_handed_on_here_is_broken_by_the_token_that_was_shown() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (_stream, first) = sidecar.hold(&request("nightly")).await;
    let mut second = sidecar.coordinator.hold(&waiting("nightly", MINUTE)).unwrap();
    settle().await;
    sidecar.release(&first).await;
    let handed_on = granted(&mut second).await;
    assert_ne!(handed_on.token.hand_offs(), 0);
    let mut third = sidecar.coordinator.hold(&waiting("nightly", MINUTE)).unwrap();
    settle().await;
    let shown = sidecar.coordinator.get(&by_key("nightly")).await.unwrap().record.token;
    assert_eq!(shown, Some(handed_on.token));
    broken_naming(&sidecar, shown, BreakPeriod::Now).await.unwrap();
    assert_lost_by_the_break(&next_but_renewals(&mut second).await);
    let asked = account.now();
    granted(&mut third).await;
    assert!(account.now() - asked < SECOND, "the note names the very token");
}

#[tokio::test(start_paused = true)]
async fn s17_a_lock_without_a_token_is_broken_as_it_was_looked_at() {
    let account = Account::new();
    let sidecar = account.sidecar();
    // A host of .NET has it, and leaves no token.
    let lease_id = LeaseId::from_uuid(uuid::Uuid::from_u128(7));
    let acquire = Acquire { lease_id, duration: LEASE, if_match: None };
    account.store.acquire(&path("nightly"), acquire).await.unwrap();
    let named = broken_naming(&sidecar, FencingToken::from_u64(4_096), BreakPeriod::Now).await;
    assert!(matches!(named, Err(CallError::OtherHolder { now: None, .. })), "{named:?}");
    let (under_way, answer) = breaking_late(&sidecar, None, BreakPeriod::Now);
    settle().await;
    let fields = Fields::from([("FunctionInstance".to_owned(), "host-2".to_owned())]);
    let write = Write { lease_id, if_match: None, fields };
    account.store.write_record(&path("nightly"), write).await.unwrap();
    under_way.notify_waiters();
    let late = answer.await.unwrap();
    let none = matches!(late, Err(CallError::OtherHolder { named: None, now: None, .. }));
    assert!(none, "{late:?}");
    assert_eq!(account.lease("nightly").await, LeaseState::Leased);
    broken(&sidecar, BreakPeriod::Now).await.unwrap();
    assert_eq!(account.lease("nightly").await, LeaseState::Broken);
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
    let HoldEvent::Held(HeldEvent::Lost { reason, break_note, .. }) = event else {
        panic!("{event:?}")
    };
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
