//! Priorities and shares: what is asked for, said back and told (S33 to S37).

use super::tests::{held_here, next};
use super::*;
use crate::fake::{Bench, OURS, grant, seconds, understood, validity};
use crate::proto::hold_lease_request::Start;
use crate::proto::hold_lease_response::Event;
use crate::proto::{self, Understood};
use crate::{ListLocks, LockRecord, PriorityStatus, Reason, Reservation, WatchLocks};

/// What a listener of this version asks for.
fn spec() -> LeaseSpec {
    let spec = LeaseSpec::new("f").with_priority(412).yielding();
    spec.with_share("queues").rebalancing()
}

/// All of it, said back.
fn all() -> Understood {
    let share = "queues".to_owned();
    Understood {
        priority: 412,
        yields: true,
        share,
        rebalance: true,
        ..understood().unwrap_or_default()
    }
}

fn granted(understood: Understood) -> Event {
    let Event::Granted(grant) = grant(validity(OURS, 1_058, 58)) else { panic!() };
    Event::Granted(proto::Grant { understood: Some(understood), ..grant })
}

#[tokio::test]
async fn s33_to_s35_priority_and_share_are_asked_for() {
    let mut bench = Bench::new().await;
    let holding = tokio::spawn(bench.client.hold(spec()).into_future());
    let call = bench.sidecar.hold().await;
    let Start::Spec(asked) = &call.start else { panic!() };
    assert_eq!((asked.priority, asked.yields, asked.rebalance), (412, true, true));
    assert_eq!(asked.share, "queues");
    call.tell(granted(all())).await;
    assert!(holding.await.unwrap().unwrap().granted().is_some());
    assert!(bench.sidecar.asked().is_empty(), "nothing is released");
}

#[tokio::test]
async fn s37_each_of_them_that_is_not_said_back_is_an_error_and_released() {
    for (missed, understood) in [
        ("priority", Understood { priority: 0, ..all() }),
        ("yields", Understood { yields: false, ..all() }),
        ("share", Understood { share: String::new(), ..all() }),
        ("rebalance", Understood { rebalance: false, ..all() }),
    ] {
        let mut bench = Bench::new().await;
        let holding = tokio::spawn(bench.client.hold(spec()).into_future());
        let call = bench.sidecar.hold().await;
        call.tell(granted(understood)).await;
        let error = holding.await.unwrap().unwrap_err();
        assert_eq!(error.reason(), Some(&Reason::Unsupported), "{error}");
        let names = ["priority", "yields", "share", "rebalance"];
        let named: Vec<&str> =
            names.into_iter().filter(|name| error.to_string().contains(name)).collect();
        assert_eq!(named, [missed], "{error}");
        call.ended().await;
        assert_eq!(bench.sidecar.asked(), ["release lease-1 of generation 1"]);
    }
}

#[tokio::test]
async fn s33_a_busy_lock_tells_why_a_priority_waits_and_its_holder_s_place() {
    let known = [
        PriorityStatus::HolderDoesNotYield,
        PriorityStatus::NotGreater,
        PriorityStatus::WaitedTooShort,
        PriorityStatus::BrokenRecently,
        PriorityStatus::Revoked,
        PriorityStatus::CannotBreak,
        PriorityStatus::Reserved,
    ];
    let mut statuses = vec![(0, None), (99, None)];
    statuses.extend((1..).zip(known.map(Some)));
    for (status, expected) in statuses {
        let mut bench = Bench::new().await;
        let holding = tokio::spawn(bench.client.hold(spec()).into_future());
        let call = bench.sidecar.hold().await;
        let until = Some(prost_types::Timestamp { seconds: 1_000, nanos: 0 });
        let record = proto::LockRecord {
            sidecar: "pod-1/7".to_owned(),
            share: "queues".to_owned(),
            priority: 411,
            yields: true,
            reserved: Some(proto::Reservation { priority: 412, until }),
            ..proto::LockRecord::default()
        };
        call.tell(Event::Busy(proto::Busy {
            priority_status: status,
            record: Some(record),
            understood: Some(all()),
            ..proto::Busy::default()
        }))
        .await;
        let Outcome::Busy(busy) = holding.await.unwrap().unwrap() else { panic!("it is busy") };
        assert_eq!(busy.priority_status, expected, "{status}");
        let name = proto::PriorityStatus::try_from(status).unwrap_or_default().as_str_name();
        if let Some(told) = busy.priority_status {
            assert_eq!(name.strip_prefix("PRIORITY_STATUS_"), Some(told.as_str()));
        }
        let LockRecord { sidecar, share, priority, yields, reserved, .. } = busy.record.unwrap();
        assert_eq!((sidecar.as_str(), share.as_str()), ("pod-1/7", "queues"));
        assert_eq!((priority, yields), (411, true));
        let until = std::time::UNIX_EPOCH.checked_add(seconds(1_000));
        assert_eq!(reserved, Some(Reservation { priority: 412, until }));
    }
}

#[tokio::test]
async fn s33_a_notice_tells_a_newer_version_from_an_operator() {
    for for_priority in [Some(413), None] {
        let mut bench = Bench::new().await;
        let (guard, call, mut events) = held_here(&mut bench).await;
        let note = proto::BreakNote { for_priority, ..proto::BreakNote::default() };
        let validity = Some(validity(OURS, 1_058, 58));
        call.tell(Event::Revoked(proto::Revoked { validity, break_note: Some(note) })).await;
        let told = next(&mut events).await;
        let HoldEvent::Revoked(notice) = told else { panic!("{told:?}") };
        assert_eq!(notice.for_priority(), for_priority);
        assert_eq!(guard.revoked().await.for_priority(), for_priority);
    }
}

#[tokio::test]
async fn s34_locks_of_a_share_are_listed_and_watched() {
    let bench = Bench::new().await;
    bench.client.list_locks(ListLocks::default().in_share("queues")).await.unwrap();
    drop(bench.client.watch_locks(WatchLocks::default().in_share("queues")).await.unwrap());
    assert_eq!(bench.sidecar.asked(), ["list share queues", "watch share queues"]);
}
