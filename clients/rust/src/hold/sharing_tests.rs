//! Priorities and shares: what is asked for and told (S33 to S36).

use super::tests::{held_here, next};
use super::*;
use crate::fake::{Bench, OURS, grant, seconds, validity};
use crate::proto;
use crate::proto::hold_lease_request::Start;
use crate::proto::hold_lease_response::Event;
use crate::{ListLocks, LockRecord, PriorityStatus, Reservation, WatchLocks};

/// What a listener of this version asks for.
fn spec() -> LeaseSpec {
    let spec = LeaseSpec::new("f").with_priority(412).yielding();
    spec.with_share("queues").rebalancing()
}

#[tokio::test]
async fn s33_to_s35_priority_and_share_are_asked_for() {
    let mut bench = Bench::new().await;
    let holding = tokio::spawn(bench.client.hold(spec()).into_future());
    let call = bench.sidecar.hold().await;
    let Start::Spec(asked) = &call.start else { panic!() };
    assert_eq!((asked.priority, asked.yields, asked.rebalance), (412, true, true));
    assert_eq!(asked.share, "queues");
    call.tell(grant(validity(OURS, 1_058, 58))).await;
    assert!(holding.await.unwrap().unwrap().granted().is_some());
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
