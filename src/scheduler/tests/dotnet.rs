//! A host of .NET, as its WebJobs SDK acts: it takes the listener lock, reads the status of its timer, runs,
//! and writes the status without any condition (T22).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::rig::{START, subscription};
use crate::coordinator::NoObserver;
use crate::coordinator::tests::rig::{Account, SECOND, Sidecar, pass};
use crate::lock::{Container, Layout, LeaseId, LockKey, LockMode, LockPath, TimerPath};
use crate::schedule::Spec;
use crate::scheduler::{ScheduleStream, SubscribeRequest};
use crate::store::{Acquire, DocumentPath, LeaseStoreExt as _};
use crate::time::Clock as _;
use crate::timetable::{Timetable, UtcSecond};

/// What .NET writes for never.
pub(super) const NEVER: &str = "0001-01-01T00:00:00+00:00";

/// Who ran which occurrence.
pub(super) type Ledger = Arc<Mutex<Vec<(UtcSecond, &'static str)>>>;

/// A sidecar of the layout that is shared with .NET.
pub(super) fn beside(account: &Account) -> Sidecar {
    account.sidecar_with(Arc::new(NoObserver), 1, |it| {
        it.host.namespace.layout = Layout::WebJobs;
        it.host.namespace.container = Container::parse("azure-webjobs-hosts").unwrap();
        it.function_instance = true;
    })
}

pub(super) fn listening(spec: Spec) -> SubscribeRequest {
    let mut request = subscription(spec);
    request.key.key = LockKey::new("Jobs.Nightly", "", LockMode::Listener).unwrap();
    request
}

pub(super) fn subscribe(sidecar: &Sidecar, spec: Spec) -> ScheduleStream {
    sidecar.scheduler.subscribe(listening(spec)).unwrap()
}

pub(super) fn lock(sidecar: &Sidecar) -> LockPath {
    let key = listening(super::rig::spec("@every 60s")).key;
    sidecar.coordinator.host().resolve(&key).unwrap().path
}

pub(super) fn timer(sidecar: &Sidecar) -> TimerPath {
    sidecar.coordinator.host().namespace.timer_of(&lock(sidecar)).unwrap()
}

/// A host of .NET, or the blobs that it shares.
#[derive(Debug)]
pub(super) struct Dotnet {
    account: Account,
    lock: LockPath,
    timer: TimerPath,
    schedule: Timetable,
    ledger: Ledger,
    lease: Option<LeaseId>,
    leases: u128,
    next: UtcSecond,
    /// How often it believed that its schedule had been changed.
    pub(super) resets: u32,
}

impl Dotnet {
    pub(super) fn new(account: &Account, sidecar: &Sidecar, every: &str, ledger: &Ledger) -> Self {
        Self {
            account: account.clone(),
            lock: lock(sidecar),
            timer: timer(sidecar),
            schedule: Timetable::parse(every, "UTC").unwrap(),
            ledger: Arc::clone(ledger),
            lease: None,
            leases: 0,
            next: START,
            resets: 0,
        }
    }

    pub(super) fn now(&self) -> UtcSecond {
        self.account.clock.wall().into()
    }

    /// The status as it stands, by field.
    pub(super) async fn field(&self, name: &str) -> Option<String> {
        let status = DocumentPath::TimerStatus(self.timer.clone());
        let read = self.account.store.read_document(status).await.unwrap();
        let text = read.document?.text;
        let fields: Value = serde_json::from_str(&text).unwrap();
        fields.get(name).and_then(Value::as_str).map(str::to_owned)
    }

    pub(super) async fn last(&self) -> Option<UtcSecond> {
        let text = self.field("Last").await.filter(|text| !text.starts_with("0001"))?;
        Some(UtcSecond::from_iso(&text, None).unwrap())
    }

    /// Over whatever is there, as .NET does.
    pub(super) fn write(&self, last: &str, next: UtcSecond, updated: UtcSecond) {
        let (next, updated) = (local(next, ""), local(updated, ".1075034"));
        let text = format!(r#"{{"Last":"{last}","Next":"{next}","LastUpdated":"{updated}"}}"#);
        self.write_text(text);
    }

    pub(super) fn write_text(&self, text: String) {
        self.account.store.locks().overwrite_timer(&self.timer, text);
    }

    pub(super) async fn lock(&mut self) -> bool {
        self.leases += 1;
        let lease_id = LeaseId::from_uuid(Uuid::from_u128(self.leases));
        let request = Acquire { lease_id, duration: 60 * SECOND, if_match: None };
        let is_ours = self.account.store.acquire(&self.lock, request).await.is_ok();
        self.lease = is_ours.then_some(lease_id);
        is_ours
    }

    /// The listener starts, if it gets the lock: what was missed is run at once.
    pub(super) async fn start(&mut self) -> bool {
        if !self.lock().await {
            return false;
        }
        let now = self.now();
        if self.field("Next").await.is_none() {
            self.next = self.schedule.next(now).unwrap();
            self.write(NEVER, self.next, now);
            return true;
        }
        let updated = self.field("LastUpdated").await.unwrap();
        let updated = UtcSecond::from_iso(&updated, None).unwrap();
        let from = self.last().await.unwrap_or(updated);
        let expected = self.schedule.next(from).unwrap();
        self.next = UtcSecond::from_iso(&self.field("Next").await.unwrap(), None).unwrap();
        if self.next != expected {
            self.resets += 1;
            self.next = if now > expected { self.schedule.next(now).unwrap() } else { expected };
            self.write(NEVER, self.next, now);
        }
        if now > self.next {
            self.run(SECOND).await;
        }
        true
    }

    /// Runs the function, and writes the status when it has returned.
    pub(super) async fn run(&mut self, takes: Duration) {
        let begun = self.now().max(self.next);
        let occurrence = self.schedule.at_or_before(begun).unwrap();
        self.ledger.lock().unwrap().push((occurrence, "dotnet"));
        self.next = self.schedule.next(begun).unwrap();
        pass(takes).await;
        self.write(&local(begun, ".1075034"), self.next, begun);
    }

    /// Listens for this long, and renews its lease.
    pub(super) async fn listen(&mut self, span: Duration) {
        let until = self.account.now() + span;
        while self.account.now() < until {
            self.renew().await;
            if self.now() >= self.next {
                self.run(SECOND).await;
            }
            pass(SECOND).await;
        }
    }

    async fn renew(&self) {
        let lease_id = self.lease.unwrap();
        self.account.store.renew(&self.lock, lease_id, None).await.unwrap();
    }

    pub(super) async fn stop(&mut self) {
        let lease_id = self.lease.take().unwrap();
        self.account.store.release(&self.lock, lease_id, None).await.unwrap();
    }
}

/// The instant as a host in UTC+2 writes it.
pub(super) fn local(at: UtcSecond, fraction: &str) -> String {
    let there = UtcSecond(at.0 + 7_200).to_string();
    format!("{}{fraction}+02:00", there.trim_end_matches('Z'))
}
