//! A machine is moved, and its boot clock does not count that: whatever its sidecar is told first afterwards
//! must grant nothing, since another sidecar may have the lock by then (S1, S3, S5).

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;

use super::rig::{Account, MINUTE, SECOND, Sidecar, granted, pass, path, request, settle, waiting};
use crate::coordinator::{Grant, HeldEvent, HoldEvent, HoldRequest, HoldStream, ResumeRequest};
use crate::lock::FencingToken;
use crate::record::Record;
use crate::store::{LeaseStoreExt as _, Operation};
use crate::testing::{FaultPlan, SimClock};
use crate::time::Clock as _;

/// Longer than any lease.
const PAUSE: Duration = Duration::from_secs(70);
const MILLI: Duration = Duration::from_millis(1);

/// Which other clock shows the pause.
#[derive(Clone, Copy, Debug)]
enum Sign {
    /// The wall clock was set right before anything else happens.
    Wall,
    /// The date of the store's answer to what another lock asked; nobody has looked at it yet.
    Date,
}

/// A sidecar on a machine that is moved, and another of the same store.
struct World {
    account: Account,
    own: Arc<SimClock>,
    ours: Sidecar,
    other: Sidecar,
    sign: Sign,
}

impl World {
    fn new(sign: Sign, seed: u64) -> Self {
        let account = Account::new();
        let own = Arc::new(SimClock::following_tokio());
        let ours = account.sidecar_on(&own, seed);
        let other = account.sidecar();
        own.observe_store_date(account.clock.wall());
        Self { account, own, ours, other, sign }
    }

    /// In each way in which a pause may show. `seed` is the network's.
    fn each() -> impl Iterator<Item = Self> {
        [Sign::Wall, Sign::Date]
            .into_iter()
            .flat_map(|sign| (1..=8).map(move |seed| Self::new(sign, seed)))
    }

    /// The machine of `ours` stands still while another sidecar gets the lock by right.
    async fn pause(&self) -> (HoldStream, Grant) {
        self.account.clock.advance(PAUSE);
        match self.sign {
            Sign::Wall => self.own.set_wall(self.own.wall() + PAUSE),
            Sign::Date => self.own.observe_store_date(self.account.clock.wall()),
        }
        self.other.hold(&request("job")).await
    }

    /// Answers to `ours` are late by up to 300 ms.
    fn delay_answers(&self) {
        self.ours.faults().set_plan(FaultPlan {
            delay_answer: 1_000,
            longest_delay: 300 * MILLI,
            ..FaultPlan::default()
        });
    }

    async fn stored_token(&self) -> Option<FencingToken> {
        let stored = self.account.store.read_record(&path("job")).await.ok()?;
        Record::from_fields(&stored.fields).token
    }

    /// Nobody here is granted anything while the other has the lock, and whoever waits is once it has
    /// released it.
    async fn assert_refused(&self, theirs: (HoldStream, Grant), mut here: Vec<HoldStream>) {
        for _ in 0..400 {
            pass(100 * MILLI).await;
            for stream in &mut here {
                while let Some(Some(event)) = stream.next().now_or_never() {
                    let HoldEvent::Granted(grant) = event else { continue };
                    panic!(
                        "{:?}: token {} is granted beside {}",
                        self.sign,
                        grant.token.value(),
                        theirs.1.token.value()
                    );
                }
            }
        }
        self.ours.faults().set_plan(FaultPlan::default());
        let (stream, grant) = theirs;
        assert!(self.other.coordinator.get_hold(grant.lease_id, None).await.is_ok());
        drop(stream);
        let mut next = self.ours.coordinator.hold(&waiting("job", MINUTE)).unwrap();
        for stream in here {
            drop(stream);
        }
        assert!(granted(&mut next).await.token > grant.token, "{:?}", self.sign);
    }
}

fn resume(grant: &Grant) -> ResumeRequest {
    ResumeRequest {
        attempt_id: "one".to_owned(),
        resume_token: grant.resume_token.clone(),
        told_valid_until: Some(grant.validity.valid_until.clone()),
        trace_context: None,
    }
}

#[tokio::test(start_paused = true)]
async fn s3_a_release_is_the_first_that_a_sidecar_is_told_after_a_pause() {
    for world in World::each() {
        let (first, grant) = world.ours.hold(&request("job")).await;
        let waiter = world.ours.coordinator.hold(&waiting("job", 5 * MINUTE)).unwrap();
        pass(SECOND * 7 / 2).await;
        let theirs = world.pause().await;
        let _ = world.ours.coordinator.release(grant.lease_id, Some(grant.generation)).await;
        world.assert_refused(theirs, vec![waiter]).await;
        drop(first);
    }
}

#[tokio::test(start_paused = true)]
async fn s3_a_closed_stream_is_the_first_that_a_sidecar_is_told_after_a_pause() {
    for world in World::each() {
        let (first, _) = world.ours.hold(&request("job")).await;
        let waiter = world.ours.coordinator.hold(&waiting("job", 5 * MINUTE)).unwrap();
        pass(SECOND * 7 / 2).await;
        let theirs = world.pause().await;
        drop(first);
        world.assert_refused(theirs, vec![waiter]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn s3_a_caller_is_the_first_that_a_sidecar_is_told_of_after_a_pause() {
    for world in World::each() {
        let (first, grant) = world.ours.hold(&request("job")).await;
        pass(SECOND * 7 / 2).await;
        let theirs = world.pause().await;
        let waiter = world.ours.coordinator.hold(&waiting("job", 5 * MINUTE)).unwrap();
        let _ = world.ours.coordinator.release(grant.lease_id, Some(grant.generation)).await;
        world.assert_refused(theirs, vec![waiter]).await;
        drop(first);
    }
}

/// A lock that rests is handed on by a timer.
#[tokio::test(start_paused = true)]
async fn s3_a_timer_is_the_first_that_a_sidecar_is_told_after_a_pause() {
    for world in World::each() {
        let min_hold = 10 * SECOND;
        let (first, grant) = world.ours.hold(&HoldRequest { min_hold, ..request("job") }).await;
        let waiter = world.ours.coordinator.hold(&waiting("job", 5 * MINUTE)).unwrap();
        pass(SECOND * 7 / 2).await;
        world.ours.release(&grant).await;
        pass(min_hold - SECOND * 7 / 2 - 6 * MILLI).await;
        let theirs = world.pause().await;
        world.assert_refused(theirs, vec![waiter]).await;
        drop(first);
    }
}

#[tokio::test(start_paused = true)]
async fn s3_the_answer_to_an_acquire_is_the_first_that_a_sidecar_is_told_after_a_pause() {
    for world in World::each() {
        let first = world.ours.acquire(request("job")).await;
        world.ours.release(&first).await;
        world.delay_answers();
        let waiter = world.ours.coordinator.hold(&waiting("job", 5 * MINUTE)).unwrap();
        while !world.account.lease("job").await.is_held() {
            pass(MILLI).await;
        }
        let theirs = world.pause().await;
        world.assert_refused(theirs, vec![waiter]).await;
    }
}

/// The token is stored, and nothing shows that another has been stored since.
#[tokio::test(start_paused = true)]
async fn s3_s5_the_answer_to_a_write_is_the_first_that_a_sidecar_is_told_after_a_pause() {
    for world in World::each() {
        let first = world.ours.acquire(request("job")).await;
        world.ours.release(&first).await;
        world.delay_answers();
        let waiter = world.ours.coordinator.hold(&waiting("job", 5 * MINUTE)).unwrap();
        while world.stored_token().await <= Some(first.token) {
            pass(MILLI).await;
        }
        let theirs = world.pause().await;
        world.assert_refused(theirs, vec![waiter]).await;
    }
}

/// It was sent before the pause, so it decides nothing.
#[tokio::test(start_paused = true)]
async fn s3_the_answer_to_a_renewal_is_the_first_that_a_sidecar_is_told_after_a_pause() {
    for world in World::each() {
        let (mut first, grant) = world.ours.hold(&request("job")).await;
        let waiter = world.ours.coordinator.hold(&waiting("job", 5 * MINUTE)).unwrap();
        world.delay_answers();
        world.ours.counts();
        while world.ours.counts().of(Operation::Renew) == 0 {
            pass(MILLI).await;
        }
        let theirs = world.pause().await;
        let answered = async {
            while !matches!(first.next().await, Some(HoldEvent::Held(HeldEvent::Renewed(_))) | None)
            {
            }
        };
        answered.await;
        let _ = world.ours.coordinator.release(grant.lease_id, Some(grant.generation)).await;
        world.assert_refused(theirs, vec![waiter]).await;
        drop(first);
    }
}

#[tokio::test(start_paused = true)]
async fn s3_s16_a_resume_is_the_first_that_a_sidecar_is_told_after_a_pause() {
    for world in World::each() {
        let (first, grant) = world.ours.hold(&request("job")).await;
        pass(SECOND * 7 / 2).await;
        first.disconnected();
        settle().await;
        let theirs = world.pause().await;
        let resumed = world.ours.coordinator.resume(&resume(&grant)).unwrap();
        world.assert_refused(theirs, vec![resumed]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn s3_s16_the_answer_to_a_resume_is_the_first_that_a_sidecar_is_told_after_a_pause() {
    for world in World::each() {
        let (first, grant) = world.ours.hold(&request("job")).await;
        pass(SECOND * 7 / 2).await;
        first.disconnected();
        settle().await;
        world.delay_answers();
        let resumed = world.ours.coordinator.resume(&resume(&grant)).unwrap();
        let generation = async || {
            let stored = world.account.store.read_record(&path("job")).await.unwrap();
            Record::from_fields(&stored.fields).generation
        };
        while generation().await <= grant.generation {
            pass(MILLI).await;
        }
        let theirs = world.pause().await;
        world.assert_refused(theirs, vec![resumed]).await;
    }
}

/// A pause that no lease has run out in: the hold, its hand-off and a resume go on, one renewal later.
#[tokio::test(start_paused = true)]
async fn s3_a_suspicion_that_is_refuted_ends_no_hold_and_frees_no_lock() {
    let account = Account::new();
    let own = Arc::new(SimClock::following_tokio());
    let (ours, other) = (account.sidecar_on(&own, 1), account.sidecar());
    let (mut first, grant) = ours.hold(&request("job")).await;
    let mut waiter = ours.coordinator.hold(&waiting("job", 5 * MINUTE)).unwrap();
    pass(SECOND * 7 / 2).await;
    own.set_wall(own.wall() + PAUSE);
    ours.release(&grant).await;
    assert!(granted(&mut waiter).await.token > grant.token);
    while let Some(Some(event)) = first.next().now_or_never() {
        assert!(
            matches!(event, HoldEvent::Held(HeldEvent::Renewed(_)) | HoldEvent::Released { .. }),
            "{event:?}"
        );
    }
    pass(5 * MINUTE).await;
    while let Some(Some(event)) = waiter.next().now_or_never() {
        assert!(matches!(event, HoldEvent::Held(HeldEvent::Renewed(_))), "{event:?}");
    }
    other.busy(request("job")).await;
}
