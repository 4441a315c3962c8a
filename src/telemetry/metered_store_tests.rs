use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use super::super::rig::Rig;
use super::*;
use crate::lock::{Container, HostId, LeaseId, LockPath, TimerPath};
use crate::store::{
    Acquire, BreakNote, BreakPeriod, DocumentPath, LeaseStoreExt as _, List, MemoryStore, Write,
};
use crate::testing::{FaultPlan, FaultyStore, SimClock};
use crate::time::UnixMillis;

struct Measurement {
    rig: Rig,
    path: LockPath,
    lease_id: LeaseId,
    store: MeteredStore,
    faulty: Arc<FaultyStore<MemoryStore>>,
}

/// A store that is measured, with the rig only to read its metrics.
fn measurement() -> Measurement {
    let rig = Rig::new(SimClock::following_tokio());
    let faulty = Arc::clone(&rig.store);
    let store = rig.measured();
    let path = LockPath::from_parts(&Container::parse("leasehold").unwrap(), "locks/h/f");
    Measurement { rig, path, lease_id: LeaseId::from_uuid(Uuid::from_u128(1)), store, faulty }
}

impl Measurement {
    fn acquire(&self) -> Acquire {
        Acquire { lease_id: self.lease_id, duration: Duration::from_secs(15), if_match: None }
    }

    fn requests(&self, operation: Operation, outcome: &str) -> f64 {
        let operation = operation.as_str();
        self.rig.value(&format!(
            "leasehold_store_requests_total{{operation=\"{operation}\",outcome=\"{outcome}\"}}"
        ))
    }

    /// How often each operation was counted, and timed.
    fn counts(&self) -> BTreeMap<Operation, (f64, f64)> {
        let of = |operation: Operation| {
            let outcomes = [DONE, CUT_OFF].into_iter().chain(StoreError::KINDS);
            let counted = outcomes.map(|outcome| self.requests(operation, outcome)).sum();
            let timed = self.rig.value(&format!(
                "leasehold_store_request_duration_seconds_count{{operation=\"{}\"}}",
                operation.as_str()
            ));
            (operation, (counted, timed))
        };
        Operation::ALL.into_iter().map(of).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn every_request_is_counted_once_under_its_own_operation() {
    let measured = measurement();
    let Measurement { store, path, lease_id, .. } = &measured;
    let path = path.clone();
    let container = Container::parse("leasehold").unwrap();
    let etag = store.acquire(&path, measured.acquire()).await.unwrap().etag;
    store.renew(&path, *lease_id, None).await.unwrap();
    let write = Write { lease_id: *lease_id, if_match: Some(etag), fields: BTreeMap::default() };
    let etag = store.write_record(&path, write).await.unwrap().etag;
    store.read_record(&path).await.unwrap();
    let note = BreakNote {
        period: BreakPeriod::Now,
        reason: "why".to_owned(),
        by: String::new(),
        token: None,
        at: UnixMillis(0),
        for_priority: None,
    };
    store.break_lease(&path, note, etag.clone()).await.unwrap();
    store.read_break_note(&path).await.unwrap().unwrap();
    store.release(&path, *lease_id, None).await.unwrap();
    let list =
        List { container: container.clone(), prefix: String::new(), continuation: None, limit: 10 };
    assert_eq!(store.list(list).await.unwrap().locks.len(), 1);
    store.check(&container).await.unwrap();
    let plan = DocumentPath::Plan(path.clone());
    let written = store.write_document(plan.clone(), "{}".to_owned(), None).await.unwrap().etag;
    assert!(store.read_document(plan).await.unwrap().document.is_some());
    store.delete_plan(&path, written).await.unwrap();
    let host_id = HostId::parse("keeper-a").unwrap();
    let timer = TimerPath { container, host_id, timer: "Nightly".to_owned() };
    assert!(store.features().has_timers);
    let status = DocumentPath::TimerStatus(timer);
    store.write_document(status.clone(), "{}".to_owned(), None).await.unwrap();
    assert!(store.read_document(status).await.unwrap().document.is_some());
    store.delete(&path, etag).await.unwrap();
    assert_eq!(store.features().kind, "memory");
    for (operation, counts) in measured.counts() {
        assert_eq!(counts, (1.0, 1.0), "{operation:?}");
        assert_eq!(measured.requests(operation, DONE), 1.0, "{operation:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_counted_by_how_it_ended() {
    let measured = measurement();
    let Measurement { store, path, lease_id, faulty, .. } = &measured;
    store.renew(path, *lease_id, None).await.unwrap_err();
    assert_eq!(measured.requests(Operation::Renew, "not_found"), 1.0);
    faulty.set_plan(FaultPlan { deny: 1_000, ..FaultPlan::default() });
    store.renew(path, *lease_id, None).await.unwrap_err();
    assert_eq!(measured.requests(Operation::Renew, "denied"), 1.0);
    faulty.set_plan(FaultPlan { throttle: 1_000, ..FaultPlan::default() });
    store.renew(path, *lease_id, None).await.unwrap_err();
    assert_eq!(measured.requests(Operation::Renew, "throttled"), 1.0);
    faulty.go_down(Duration::from_secs(60));
    store.renew(path, *lease_id, None).await.unwrap_err();
    assert_eq!(measured.requests(Operation::Renew, "unavailable"), 1.0);
    assert_eq!(measured.counts()[&Operation::Renew], (4.0, 4.0));
}

#[tokio::test(start_paused = true)]
async fn s7_a_request_that_is_cut_off_is_counted_with_the_time_it_was_waited_for() {
    let measured = measurement();
    let Measurement { store, path, faulty, .. } = &measured;
    let hour = Duration::from_secs(3_600);
    faulty.set_plan(FaultPlan {
        lose_answer: 1_000,
        longest_silence: hour,
        ..FaultPlan::default()
    });
    let cut_off = Duration::from_millis(10);
    let answer = store.acquire(path, measured.acquire());
    tokio::time::timeout(cut_off, answer).await.unwrap_err();
    assert_eq!(measured.requests(Operation::Acquire, CUT_OFF), 1.0);
    assert_eq!(measured.counts()[&Operation::Acquire], (1.0, 1.0));
    let sum = "leasehold_store_request_duration_seconds_sum{operation=\"acquire\"}";
    assert!(measured.rig.value(sum) >= cut_off.as_secs_f64());
}
