//! Clocks that are wrong: wall clocks that step and swing, dates of the store that differ, and a machine that
//! was started anew under an embedded store. None of them ends a hold or frees a lock (S3). Each test reads
//! the clock that it moved back through the sidecar: one that did not move proves nothing.

use std::time::Duration;

use leasehold::testing::Azurite;
use leasehold_client::proto::{HoldLeaseRequest, hold_lease_request, hold_lease_response};
use leasehold_client::{BootInstant, Grant, Hold, HoldEvent, LeaseSpec, Outcome};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::faults::moving::{Clocks, Shift, boot_through};
use crate::faults::process::{PATIENCE, Sidecar, event, patient, spec};
use crate::faults::proxy::Proxy;
use crate::faults::statistics::Statistics;

const HOUR: i64 = 3_600_000;
const HOLDS: u64 = 5;
/// Renewed three or four times a minute.
const LONG: Duration = Duration::from_secs(60);
/// Renewed at most 14 times a minute, with the jitter of S7.
const SHORT: Duration = Duration::from_secs(15);
/// After so many that were refuted, a source is not heard any more.
const SUSPICIONS: u64 = 3;

type Held = (Hold, UnboundedReceiver<HoldEvent>);

/// A sidecar with clocks to move behind a proxy that counts, and one beside it that is as it should be.
struct Stage {
    clocks: Clocks,
    statistics: Statistics,
    proxy: Proxy,
    moved: Sidecar,
    steady: Sidecar,
}

impl Stage {
    async fn set(host: &str) -> Self {
        let azurite = Azurite::shared();
        let clocks = Clocks::new();
        let statistics = Statistics::default();
        let proxy = Proxy::start(azurite, 1, statistics.clone()).await;
        let connection = proxy.connection_string(azurite);
        let environment =
            vec![("LEASEHOLD_STORE_AZURE_CONNECTION_STRING", connection), clocks.variable()];
        let moved = Sidecar::start(host, &[], environment).await;
        let steady = Sidecar::on_azurite(host, &["locks.poll_cap=250ms"]).await;
        Self { clocks, statistics, proxy, moved, steady }
    }

    async fn hold(&self, function: &str, lease: Duration) -> Held {
        let (sender, events) = mpsc::unbounded_channel();
        let spec = LeaseSpec::new(function).with_lease_duration(lease);
        let outcome = self.moved.client().await.hold(spec).events(sender).await.unwrap();
        let Outcome::Granted(guard) = outcome else { panic!("{function} is busy") };
        (guard, events)
    }

    async fn holds(&self, lease: Duration) -> Vec<Held> {
        let mut holds = Vec::new();
        for number in 0..HOLDS {
            holds.push(self.hold(&format!("job-{number}"), lease).await);
        }
        holds
    }

    fn renewals(&self) -> u64 {
        self.statistics.sum("lease action: renew")
    }
}

/// Waits for one more renewal; anything that endangers the hold fails.
async fn renewed((guard, events): &mut Held, after: &str) {
    let event = tokio::time::timeout(PATIENCE, events.recv()).await.expect("it is renewed");
    assert!(matches!(event, Some(HoldEvent::Renewed { .. })), "{event:?} after {after}");
    assert!(guard.is_valid(), "after {after}");
}

fn is_untroubled((guard, events): &mut Held) {
    assert!(guard.is_valid());
    while let Ok(event) = events.try_recv() {
        assert!(matches!(event, HoldEvent::Renewed { .. }), "{event:?}");
    }
}

const fn told_until(grant: &Grant) -> Duration {
    grant.validity.valid_until.since_boot()
}

#[tokio::test]
async fn s3_a_wall_clock_that_steps_ends_no_hold_and_frees_no_lock() {
    let stage = Stage::set("Stepping").await;
    let mut holds = vec![stage.hold("nightly", SHORT).await, stage.hold("hourly", SHORT).await];
    for held in &mut holds {
        renewed(held, "nothing").await;
    }
    for step in [HOUR, -HOUR, 40 * 24 * HOUR, 0] {
        stage.clocks.step_wall(&stage.moved, step).await;
        let after = format!("a step to {step} ms");
        for held in &mut holds {
            renewed(held, &after).await;
            renewed(held, &after).await;
        }
        let busy = stage.steady.acquire(spec("nightly")).await;
        assert!(busy.granted().is_none(), "taken from its holder after {after}");
    }
    let token = holds[0].0.fencing_token();
    drop(holds);
    let next = stage.steady.granted(patient("nightly")).await;
    assert!(next.fencing_token > token, "S5");
}

/// The machine is moved, and its wall clock set right: the release that was under way must not hand the lock
/// on, which another sidecar has by then.
#[tokio::test]
async fn s1_s3_a_release_after_a_pause_that_the_boot_clock_did_not_count_hands_nothing_on() {
    let stage = Stage::set("Moved").await;
    let grant = stage.moved.granted(patient("nightly")).await;
    let start = hold_lease_request::Start::Spec(patient("nightly").into());
    let waits = HoldLeaseRequest { start: Some(start), needs: 0 };
    let mut waiter = stage.moved.rpc().await.hold_lease(waits).await.unwrap().into_inner();
    let first = event(&mut waiter).await;
    assert!(matches!(first, hold_lease_response::Event::Waiting(_)), "{first:?}");
    let client = stage.moved.client().await;
    stage.moved.stop().await;
    let stopped = BootInstant::now().since_boot();
    let release = tokio::spawn(async move { client.release(grant.lease_id).await });
    let next = stage.steady.granted(patient("nightly")).await;
    let pause = BootInstant::now().since_boot() - stopped;
    let boot = -i64::try_from(pause.as_millis()).unwrap();
    stage.clocks.set(&Shift { boot, ..Shift::default() });
    stage.moved.go_on();
    let released = release.await.unwrap();
    stage.steady.client().await.release(next.lease_id).await.unwrap();
    let handed_on = loop {
        match event(&mut waiter).await {
            hold_lease_response::Event::Granted(grant) => break grant.fencing_token,
            hold_lease_response::Event::Waiting(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert!(handed_on > next.fencing_token, "{handed_on} beside another; {released:?}");
    assert!(stage.moved.log().contains("another clock shows a pause"), "{}", stage.moved.log());
}

#[tokio::test]
async fn s13_a_wall_clock_that_steps_frees_no_lock_of_a_holder_that_was_told_it_has_it() {
    let stage = Stage::set("Silent").await;
    // Never renewed, so that what is told with the grant is the last, and nothing else is asked of the
    // holder.
    let silent = patient("nightly").without_renewal();
    let grant = stage.moved.granted(silent).await;
    stage.clocks.step_wall(&stage.moved, 10_000).await;
    let next = stage.steady.granted(patient("nightly")).await;
    let now = BootInstant::now().since_boot();
    assert!(
        now >= told_until(&grant),
        "granted to another {:?} before the end of what its holder was told",
        told_until(&grant).saturating_sub(now)
    );
    assert!(next.fencing_token > grant.fencing_token, "S5");
}

#[tokio::test]
async fn s3_a_wall_clock_that_swings_for_a_minute_costs_a_few_renewals_and_nothing_else() {
    let stage = Stage::set("Swinging").await;
    let mut holds = stage.holds(SHORT).await;
    let before = stage.renewals();
    for second in 0..60 {
        let wall = if second % 2 == 0 { 2_000 } else { -2_000 };
        stage.clocks.set(&Shift { wall, ..Shift::default() });
        // Nothing to wait for: this is how long it swings.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let renewals = stage.renewals() - before;
    holds.iter_mut().for_each(is_untroubled);
    let most = HOLDS * (14 + SUSPICIONS);
    assert!(renewals <= most, "{renewals} renewals in a minute; at most {most}");
    stage.clocks.step_wall(&stage.moved, 2 * HOUR).await;
}

#[tokio::test]
async fn s3_store_dates_that_differ_cost_a_few_renewals_and_nothing_else() {
    let stage = Stage::set("Front-Ends").await;
    let mut holds = stage.holds(LONG).await;
    let before = stage.renewals();
    stage.proxy.set_dates(&[0, 3]);
    let looking = async {
        // Something to be answered, beside the renewals.
        loop {
            let other = spec("looked-at").key;
            let record = stage.moved.client().await.get_lock(other).await;
            assert!(record.is_ok(), "{record:?}");
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    };
    let minute = Duration::from_secs(60);
    assert!(tokio::time::timeout(minute, looking).await.is_err(), "it looks for a minute");
    let renewals = stage.renewals() - before;
    let dated = stage.statistics.sum("answer: its date was moved");
    assert!(dated >= 50, "only {dated} answers had another date");
    holds.iter_mut().for_each(is_untroubled);
    let most = HOLDS * (4 + SUSPICIONS);
    assert!(renewals <= most, "{renewals} renewals in a minute; at most {most}");
}

#[tokio::test]
async fn a_lease_of_another_boot_of_an_embedded_store_is_not_free_while_a_remote_client_believes() {
    let folder = tempfile::tempdir().unwrap();
    let clocks = Clocks::new();
    let database = format!("store.embedded.path={}", folder.path().join("locks.db").display());
    let settings = ["store.kind=embedded", database.as_str()];
    let mut sidecar = Sidecar::start("Rebooted", &settings, vec![clocks.variable()]).await;
    let grant = sidecar.granted(patient("nightly")).await;
    let (_, first_id) = boot_through(&sidecar).await;
    sidecar.kill();
    let other = "5b7e1a5c-0000-4000-8000-000000000000";
    clocks.set(&Shift { boot_id: Some(other.to_owned()), ..Shift::default() });
    sidecar.restart().await;
    let (_, second_id) = boot_through(&sidecar).await;
    assert_eq!((first_id == second_id, second_id.as_str()), (false, other), "the boot id is moved");
    let next = sidecar.granted(patient("nightly")).await;
    let now = BootInstant::now().since_boot();
    assert!(
        now >= told_until(&grant),
        "granted to another {:?} before the end of what its holder was told",
        told_until(&grant).saturating_sub(now)
    );
    assert!(next.fencing_token > grant.fencing_token, "S5");
}

#[tokio::test]
async fn a_moved_boot_clock_is_seen_through_the_sidecar() {
    let clocks = Clocks::new();
    let connection = Azurite::shared().connection_string();
    let environment =
        vec![("LEASEHOLD_STORE_AZURE_CONNECTION_STRING", connection), clocks.variable()];
    let sidecar = Sidecar::start("Boot-Clock", &[], environment).await;
    let kernels = BootInstant::now().since_boot();
    let (near, _) = boot_through(&sidecar).await;
    assert!(near < kernels + LONG * 5, "not moved yet: {near:?} at {kernels:?}");
    clocks.set(&Shift { boot: HOUR, ..Shift::default() });
    let (far, _) = boot_through(&sidecar).await;
    assert!(far > kernels + Duration::from_secs(3_600), "moved: {far:?} at {kernels:?}");
}
