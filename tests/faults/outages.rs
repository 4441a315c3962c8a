//! What a holder is told while the storage account, or its sidecar, is unreachable for a while.

use std::time::Duration;

use leasehold::testing::Azurite;
use leasehold_client::{Hold, HoldEvent, LeaseSpec, LossReason, Outcome, ReleaseOutcome};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::faults::process::{PATIENCE, Sidecar, number};
use crate::faults::proxy::{Proxy, Weather};
use crate::faults::statistics::Statistics;

const HOLDS: usize = 5;
/// For a busy machine to tell what has happened.
const SLACK: Duration = Duration::from_secs(10);

type Events = UnboundedReceiver<HoldEvent>;

async fn hold(sidecar: &Sidecar, function: &str, lease: Duration) -> (Hold, Events) {
    let (sender, events) = mpsc::unbounded_channel();
    let spec = LeaseSpec::new(function).with_lease_duration(lease).with_wait(PATIENCE);
    let outcome = sidecar.client().await.hold(spec).events(sender).await.unwrap();
    let Outcome::Granted(guard) = outcome else { panic!("{function} is busy") };
    (guard, events)
}

async fn next(events: &mut Events) -> HoldEvent {
    tokio::time::timeout(PATIENCE, events.recv()).await.expect("an event comes").unwrap()
}

/// A sidecar behind a proxy, with holds of a minute.
async fn holding(
    azurite: &Azurite,
    host: &str,
    statistics: &Statistics,
) -> (Proxy, Sidecar, Vec<(Hold, Events)>) {
    let proxy = Proxy::start(azurite, 1, statistics.clone()).await;
    let connection = proxy.connection_string(azurite);
    let environment = vec![("LEASEHOLD_STORE_AZURE_CONNECTION_STRING", connection)];
    let sidecar = Sidecar::start(host, &[], environment).await;
    let mut holds = Vec::new();
    for number in 0..HOLDS {
        holds.push(hold(&sidecar, &format!("job-{number}"), Duration::from_secs(60)).await);
    }
    (proxy, sidecar, holds)
}

#[tokio::test]
async fn s9_a_store_that_is_away_for_half_a_lease_costs_nobody_a_lock() {
    let azurite = Azurite::start().unwrap();
    let statistics = Statistics::default();
    let (proxy, _sidecar, holds) = holding(&azurite, "Short-Outage", &statistics).await;
    proxy.set(Weather::Gone);
    // Nothing to wait for: this is how long it is away.
    tokio::time::sleep(Duration::from_secs(30)).await;
    proxy.set(Weather::Calm);
    let cut = statistics.sum("weather: cut");
    assert!(cut >= HOLDS as u64, "only {cut} renewals were cut");
    for (guard, mut events) in holds {
        let told = guard.valid_until();
        while guard.valid_until() <= told {
            let event = next(&mut events).await;
            assert!(!matches!(event, HoldEvent::Lost(_)), "{event:?}");
        }
        assert!(guard.is_valid());
    }
}

#[tokio::test]
async fn s7_connections_that_were_lost_without_a_word_cost_nobody_a_lock() {
    let azurite = Azurite::start().unwrap();
    let statistics = Statistics::default();
    let (proxy, sidecar, _minutes) = holding(&azurite, "Lost-Connections", &statistics).await;
    let lease = Duration::from_secs(15);
    let (guard, mut events) = hold(&sidecar, "kept", lease).await;
    // Together, so that there are many connections.
    let others = (0..40).map(|number| format!("other-{number}"));
    let others: Vec<_> = others.collect();
    let others = others.iter().map(|function| hold(&sidecar, function, lease));
    let others = futures_util::future::join_all(others).await;
    futures_util::future::join_all(others.into_iter().map(|(guard, _)| guard.release())).await;
    let connections = proxy.lose_connections();
    assert!(connections >= 10, "only {connections} connections");
    let told = guard.valid_until();
    while guard.valid_until() <= told + lease {
        let event = next(&mut events).await;
        assert!(!matches!(event, HoldEvent::Lost(_)), "{event:?}\n{}", sidecar.log());
    }
    let lost = statistics.sum("connection: lost a request");
    assert!(lost >= 1, "no connection was used again");
}

#[tokio::test]
async fn s4_a_store_that_is_away_for_longer_than_a_lease_ends_every_hold_once_and_in_time() {
    let azurite = Azurite::start().unwrap();
    let statistics = Statistics::default();
    let (proxy, sidecar, holds) = holding(&azurite, "Long-Outage", &statistics).await;
    proxy.set(Weather::Gone);
    let outage = tokio::time::sleep(Duration::from_secs(90));
    let telling = async {
        let mut losses = Vec::new();
        for (guard, mut events) in holds {
            let loss = tokio::time::timeout(PATIENCE, guard.lost()).await.expect("it is lost");
            assert_eq!(loss.reason, LossReason::Expired, "{loss}");
            assert!(!guard.is_valid());
            let mut lost = 0;
            let mut at_risk = 0;
            while let Ok(event) = events.try_recv() {
                lost += u32::from(matches!(event, HoldEvent::Lost(_)));
                at_risk += u32::from(matches!(event, HoldEvent::AtRisk { .. }));
            }
            assert_eq!((lost, at_risk), (1, 1), "told once, and warned before");
            losses.push(guard);
        }
        losses
    };
    let lasting = Duration::from_secs(60) + SLACK;
    let lost = tokio::time::timeout(lasting, telling);
    let (lost, ()) = tokio::join!(lost, outage);
    let lost = lost.expect("all were told by the end of their leases");
    proxy.set(Weather::Calm);
    let cut = statistics.sum("weather: cut");
    assert!(cut >= HOLDS as u64, "only {cut} renewals were cut");
    let again = LeaseSpec::new("job-0").with_wait(Duration::from_secs(90));
    let again = sidecar.client().await.hold(again).await.unwrap().granted();
    assert!(again.expect("free again").fencing_token() > lost[0].fencing_token(), "S5");
}

/// `LEASEHOLD_TEST_KILLS` makes it more of them.
#[tokio::test]
async fn s16_kills_of_the_sidecar_with_a_restart_in_time_lose_no_hold() {
    let mut sidecar = Sidecar::on_azurite("Killed-Often", &[]).await;
    let lease = Duration::from_secs(15);
    let (guard, mut events) = hold(&sidecar, "kept", lease).await;
    let token = guard.fencing_token();
    for kill in 0..number("LEASEHOLD_TEST_KILLS", 20) {
        sidecar.kill();
        sidecar.start_again();
        loop {
            match next(&mut events).await {
                HoldEvent::Resumed { .. } => break,
                HoldEvent::Lost(loss) => panic!("lost at kill {kill}: {loss}\n{}", sidecar.log()),
                _ => {}
            }
        }
        assert!(guard.is_valid(), "after kill {kill}");
    }
    assert_eq!(guard.fencing_token(), token);
    let released = guard.release().await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
}
