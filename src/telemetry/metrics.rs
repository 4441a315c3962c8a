//! Every metric: its name, its meaning, and what moves it.
//!
//! Labels are texts of this program (`&'static str`), so that no caller's text can become one: neither a
//! scope, nor a holder, nor a lock path (S20), and the number of series is bounded. The exception is asked
//! for by the operator: with `admin.schedule_labels`, `schedules` labels two gauges by lock path, for as long
//! as the schedule has subscribers here (T23).

mod gauges;
mod schedules;
mod series;
mod sharing;
pub(super) mod traces;

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use tokio::runtime::Handle;
use tokio::sync::watch;

use series::{end_label, granted_label, is_grant, renewal_labels};

use super::Exposition;
use super::process::ProcessCollector;
use super::registration::{HOLDS, LATENESSES, REQUESTS, Registration, WAITS};
use crate::coordinator::{
    AcquireResult, EndFacts, GrantedBy, HoldEnd, LockEvent, LockEventKind, Observer,
};
use crate::scheduler::Scheduler;
use crate::store::Operation;
use crate::time::{Clock, UnixMillis};

/// What the sidecar counts and times. Cheap to clone; the clones are one.
#[derive(Clone, Debug)]
pub struct Metrics {
    inner: Arc<SharedMetrics>,
}

struct SharedMetrics {
    registry: Registry,
    families: Families,
    /// When the TLS certificate that is served expires, as the server says it.
    certificate: OnceLock<watch::Receiver<Option<UnixMillis>>>,
    /// When the shared access signature ends, as the store says it.
    signature: OnceLock<watch::Receiver<Option<UnixMillis>>>,
    /// What the connections of the server are doing.
    connections: OnceLock<Connections>,
    /// Of further threads.
    runtimes: OnceLock<Vec<Handle>>,
    /// Whether each schedule has series of its own.
    label_schedules: bool,
}

impl fmt::Debug for SharedMetrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SharedMetrics").finish_non_exhaustive()
    }
}

/// What the server's connections are doing now.
pub type Connections = Box<dyn Fn() -> ConnectionCounts + Send + Sync>;

/// What the connections of the server are doing, and have done.
#[derive(Clone, Debug, Default)]
pub struct ConnectionCounts {
    /// How many are open, by listener and stage.
    pub open: Vec<([&'static str; 2], usize)>,
    /// How many the sidecar has closed, by listener and reason.
    pub closed: Vec<([&'static str; 2], u64)>,
    /// How many calls were refused, by the limit that refused them.
    pub refused: Vec<(&'static str, u64)>,
}

type Labels<const N: usize> = [(&'static str, &'static str); N];
type Counters<const N: usize> = Family<Labels<N>, Counter>;
type Histograms = Family<Labels<1>, Histogram, fn() -> Histogram>;
type FloatGauge = Gauge<f64, AtomicU64>;

#[derive(Debug)]
struct Families {
    acquires: Counters<1>,
    acquire_wait: Histograms,
    hold_duration: Histograms,
    losses: Counters<1>,
    releases_not_confirmed: Counters<1>,
    at_risk: Counter,
    renewals: Counters<2>,
    renewal_latency: Histogram,
    renewal_lateness: Histogram,
    store_requests: Counters<2>,
    store_request_duration: Histograms,
    host_type_collisions: Counter,
    permits_differ: Counter,
    schedules: schedules::Families,
    sharing: sharing::Families,
    traces: traces::Families,
    locks_forgotten: Counter,
    forgotten_locks_read: Counter,
    resumes_refused: Counter,
    tokens_not_growing: Counter,
    pauses_suspected: Counter,
    clocks_not_heard: Counters<1>,
    log_lines_dropped: Counter,
    connections: Family<Labels<2>, Gauge>,
    connections_closed: Counters<2>,
    calls_refused: Counters<1>,
    holds: Gauge,
    holds_at_risk: Gauge,
    waiters: Gauge,
    subscribers: Gauge,
    lock_paths: Gauge,
    locks_remembered: Gauge,
    tasks: Gauge,
    smallest_validity: FloatGauge,
    store_ready: Gauge,
    store_requests_waiting: Gauge,
    store_rate_limit: FloatGauge,
    draining: Gauge,
    certificate_not_after: FloatGauge,
    signature_not_after: FloatGauge,
    process_start_time: FloatGauge,
}

/// The outcome of a store request that was done.
pub(super) const DONE: &str = "ok";
/// The outcome of a store request that was given up before its answer came.
pub(super) const CUT_OFF: &str = "cut_off";

impl Families {
    fn new() -> Self {
        Self {
            acquires: Family::default(),
            acquire_wait: Family::new_with_constructor(|| Histogram::new(WAITS)),
            hold_duration: Family::new_with_constructor(|| Histogram::new(HOLDS)),
            losses: Family::default(),
            releases_not_confirmed: Family::default(),
            at_risk: Counter::default(),
            renewals: Family::default(),
            renewal_latency: Histogram::new(REQUESTS),
            renewal_lateness: Histogram::new(LATENESSES),
            store_requests: Family::default(),
            store_request_duration: Family::new_with_constructor(|| Histogram::new(REQUESTS)),
            host_type_collisions: Counter::default(),
            permits_differ: Counter::default(),
            schedules: schedules::Families::new(),
            sharing: sharing::Families::new(),
            traces: traces::Families::default(),
            locks_forgotten: Counter::default(),
            forgotten_locks_read: Counter::default(),
            resumes_refused: Counter::default(),
            tokens_not_growing: Counter::default(),
            pauses_suspected: Counter::default(),
            clocks_not_heard: Family::default(),
            log_lines_dropped: Counter::default(),
            connections: Family::default(),
            connections_closed: Family::default(),
            calls_refused: Family::default(),
            holds: Gauge::default(),
            holds_at_risk: Gauge::default(),
            waiters: Gauge::default(),
            subscribers: Gauge::default(),
            lock_paths: Gauge::default(),
            locks_remembered: Gauge::default(),
            tasks: Gauge::default(),
            smallest_validity: FloatGauge::default(),
            store_ready: Gauge::default(),
            store_requests_waiting: Gauge::default(),
            store_rate_limit: FloatGauge::default(),
            draining: Gauge::default(),
            certificate_not_after: FloatGauge::default(),
            signature_not_after: FloatGauge::default(),
            process_start_time: FloatGauge::default(),
        }
    }

    /// Every metric's name, help and unit. `_total`, `_info` and the unit are added to the names.
    fn register(&self, registry: &mut Registry) {
        self.register_counters(&mut Registration { registry, unit: None });
        self.register_counters_of_the_sidecar(&mut Registration { registry, unit: None });
        self.schedules.register(registry);
        self.sharing.register(registry);
        self.traces.register(registry);
        self.register_gauges(&mut Registration { registry, unit: None });
        self.register_seconds(&mut Registration { registry, unit: Some(Unit::Seconds) });
    }

    fn register_counters(&self, to: &mut Registration<'_>) {
        to.add("leasehold_acquires", "Calls for a lock that ended, by result", &self.acquires);
        to.add("leasehold_losses", "Holds that were lost, by reason", &self.losses);
        to.add(
            "leasehold_releases_not_confirmed",
            "Releases that the store did not confirm before the lease expired, by why: no_answer; lease_gone, because it \
             answered only when somebody else may have had the lock; left_to_expire, because the hold may have been resumed \
             elsewhere",
            &self.releases_not_confirmed,
        );
        to.add(
            "leasehold_at_risk",
            "Times that a hold became at risk: no renewal succeeded for two thirds of its lease",
            &self.at_risk,
        );
        to.add(
            "leasehold_renewals",
            "Renewals of leases that were answered or timed out, by result and by the cause of failure",
            &self.renewals,
        );
        to.add(
            "leasehold_store_requests",
            "Requests to the store, by operation and outcome",
            &self.store_requests,
        );
        to.add(
            "leasehold_host_type_collisions",
            "Times that a lock was found under another host type than its acquirer's",
            &self.host_type_collisions,
        );
        to.add(
            "leasehold_permits_differ",
            "Times that callers of a lock named different numbers of permits",
            &self.permits_differ,
        );
        to.add(
            "leasehold_tokens_not_growing",
            "Grants refused because the lock's fencing token would not have grown",
            &self.tokens_not_growing,
        );
        to.add(
            "leasehold_locks_forgotten",
            "Unused locks that were forgotten, because `limits.remembered_locks` others were used since",
            &self.locks_forgotten,
        );
        to.add(
            "leasehold_forgotten_locks_read",
            "Acquisitions that had to read a record again because the lock had been forgotten: one more request each",
            &self.forgotten_locks_read,
        );
        to.add(
            "leasehold_resumes_refused",
            "Resumes that were refused, because by what is stored the hold was not the caller's, or not any more",
            &self.resumes_refused,
        );
    }

    /// What happened to the sidecar itself, and not to a lock.
    fn register_counters_of_the_sidecar(&self, to: &mut Registration<'_>) {
        to.add(
            "leasehold_pauses_suspected",
            "Times that another clock showed a pause that the boot clock may not have counted: every hold was renewed",
            &self.pauses_suspected,
        );
        to.add(
            "leasehold_clocks_not_heard",
            "Times that a clock was ignored for an hour, because it showed pauses that did not happen, by clock",
            &self.clocks_not_heard,
        );
        to.add(
            "leasehold_log_lines_dropped",
            "Log lines that were dropped because standard error was full, slow or closed",
            &self.log_lines_dropped,
        );
        to.add(
            "leasehold_connections_closed",
            "Connections that the sidecar closed or refused, by listener and reason",
            &self.connections_closed,
        );
        to.add(
            "leasehold_calls_refused",
            "Calls that were refused because a limit was reached, by the limit",
            &self.calls_refused,
        );
    }

    fn register_gauges(&self, to: &mut Registration<'_>) {
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        to.registry.register("leasehold_build", "The version that runs", version);
        to.add("leasehold_holds", "Holds through this sidecar now", &self.holds);
        to.add("leasehold_holds_at_risk", "Holds that are at risk now", &self.holds_at_risk);
        to.add("leasehold_waiters", "Callers that are waiting for a lock now", &self.waiters);
        to.add(
            "leasehold_subscribers",
            "Subscribers of schedules here now, which limits.waiters counts with the waiting callers",
            &self.subscribers,
        );
        to.add(
            "leasehold_lock_paths",
            "Locks that are held, waited for or resting here now",
            &self.lock_paths,
        );
        to.add(
            "leasehold_locks_remembered",
            "Locks that are remembered now while nobody uses them",
            &self.locks_remembered,
        );
        to.add(
            "leasehold_connections",
            "Connections now, by listener and by how far they have come: silent, greeting (TLS), idle (no call yet), serving",
            &self.connections,
        );
        to.add("leasehold_tasks", "Tasks that the process runs now", &self.tasks);
        to.add(
            "leasehold_store_ready",
            "1 if the store can be used, else 0: it refuses the sidecar, or no request has succeeded for three seconds",
            &self.store_ready,
        );
        to.add(
            "leasehold_store_requests_waiting",
            "Requests that are delayed now, because the store throttles",
            &self.store_requests_waiting,
        );
        to.add(
            "leasehold_store_rate_limit",
            "The most requests a second that are sent while the store throttles; NaN while it does not",
            &self.store_rate_limit,
        );
        to.add("leasehold_draining", "1 while the sidecar shuts down, else 0", &self.draining);
    }

    fn register_seconds(&self, to: &mut Registration<'_>) {
        to.add(
            "leasehold_acquire_wait",
            "Time from a call for a lock to its end, by whether it was granted",
            &self.acquire_wait,
        );
        to.add(
            "leasehold_hold_duration",
            "Time from a grant to the end of the hold here, by how it ended: handed_over was left to the replacement of this \
             sidecar, resumed_elsewhere goes on at another one",
            &self.hold_duration,
        );
        to.add(
            "leasehold_renewal_latency",
            "Time from sending a renewal to its answer, for renewals that were answered",
            &self.renewal_latency,
        );
        to.add(
            "leasehold_renewal_lateness",
            "Time from when a renewal was due to when it was sent",
            &self.renewal_lateness,
        );
        to.add(
            "leasehold_store_request_duration",
            "Time of a request to the store, by operation",
            &self.store_request_duration,
        );
        to.add(
            "leasehold_smallest_validity",
            "Shortest time until a hold is lost unless it is renewed; NaN without holds",
            &self.smallest_validity,
        );
        to.add(
            "leasehold_tls_certificate_not_after_timestamp",
            "When the served TLS certificate expires, in seconds since the Unix epoch; NaN without TLS",
            &self.certificate_not_after,
        );
        to.add(
            "leasehold_store_signature_not_after_timestamp",
            "When the shared access signature of the store ends, in seconds since the Unix epoch; NaN without one that says so",
            &self.signature_not_after,
        );
        to.add(
            "process_start_time",
            "When the process started, in seconds since the Unix epoch",
            &self.process_start_time,
        );
    }
}

impl Metrics {
    /// Metrics of a process that starts now, by `clock`.
    #[must_use]
    pub fn new(clock: &dyn Clock) -> Self {
        Self::with_schedule_labels(clock, false)
    }

    /// The same, and whether each schedule has series of its own: by the path of its lock, which callers
    /// choose.
    #[must_use]
    pub fn with_schedule_labels(clock: &dyn Clock, label_schedules: bool) -> Self {
        let families = Families::new();
        let mut registry = Registry::default();
        families.register(&mut registry);
        registry.register_collector(Box::new(ProcessCollector));
        families.make_known_series();
        families.process_start_time.set(Duration::from_millis(clock.wall().0).as_secs_f64());
        let inner = SharedMetrics {
            registry,
            families,
            certificate: OnceLock::new(),
            signature: OnceLock::new(),
            connections: OnceLock::new(),
            runtimes: OnceLock::new(),
            label_schedules,
        };
        Self { inner: Arc::new(inner) }
    }

    /// All metrics as text, with what is true of the sidecar now.
    #[must_use]
    pub fn encode(&self, scheduler: &Scheduler, exposition: Exposition) -> String {
        self.look_at(scheduler);
        let mut text = String::new();
        let written = text::encode(&mut text, &self.inner.registry);
        debug_assert!(written.is_ok(), "text can be added to a String");
        exposition.convert(text)
    }

    /// A request to the store ended.
    pub(super) fn note_store_request(
        &self,
        operation: Operation,
        outcome: &'static str,
        took: Duration,
    ) {
        let families = &self.inner.families;
        let operation = ("operation", operation.as_str());
        families.store_requests.get_or_create(&[operation, ("outcome", outcome)]).inc();
        families.store_request_duration.get_or_create(&[operation]).observe(took.as_secs_f64());
    }
}

impl Observer for Metrics {
    fn observe(&self, event: &LockEvent<'_>) {
        let families = &self.inner.families;
        match event.kind {
            LockEventKind::Granted(facts) => {
                let result = match facts.how {
                    GrantedBy::Store | GrantedBy::HandOff => AcquireResult::Granted,
                    GrantedBy::Resume => AcquireResult::Resumed,
                };
                families.acquired(result, facts.waited);
            }
            LockEventKind::NotGranted { result, waited, .. } => families.acquired(result, waited),
            LockEventKind::Ended(facts) => families.ended(&facts),
            LockEventKind::Renewal { failure, latency, lateness } => {
                families.renewals.get_or_create(&renewal_labels(failure)).inc();
                if let Some(latency) = latency {
                    families.renewal_latency.observe(latency.as_secs_f64());
                }
                families.renewal_lateness.observe(lateness.as_secs_f64());
            }
            LockEventKind::ResumeRefused { .. } => {
                families.resumes_refused.inc();
            }
            LockEventKind::AtRisk { .. } => {
                families.at_risk.inc();
            }
            LockEventKind::Collision { .. } => {
                families.host_type_collisions.inc();
            }
            LockEventKind::PermitsDiffer { .. } => {
                families.permits_differ.inc();
            }
            LockEventKind::Forgotten => {
                families.locks_forgotten.inc();
            }
            LockEventKind::ForgottenRead => {
                families.forgotten_locks_read.inc();
            }
            LockEventKind::Overruled { moves, .. } => families.sharing.overruled(moves),
            LockEventKind::Schedule(kind) => families.schedules.observe(&kind),
            LockEventKind::TokenNotGrowing { .. } => {
                families.tokens_not_growing.inc();
            }
            LockEventKind::PauseSuspected => {
                families.pauses_suspected.inc();
            }
            LockEventKind::ClockNotHeard { source } => {
                families.clocks_not_heard.get_or_create(&[("clock", source.as_str())]).inc();
            }
            LockEventKind::Refused
            | LockEventKind::Settled { .. }
            | LockEventKind::Recovered
            | LockEventKind::Revoked { .. }
            | LockEventKind::Extended
            | LockEventKind::Draining
            | LockEventKind::Saved { .. }
            | LockEventKind::TaskFailed
            | LockEventKind::CannotBreak { .. }
            | LockEventKind::Broken { .. }
            | LockEventKind::ShutdownBegun => {}
        }
    }
}

impl Families {
    fn acquired(&self, result: AcquireResult, waited: Duration) {
        self.acquires.get_or_create(&[("result", result.as_str())]).inc();
        let label = granted_label(is_grant(result));
        self.acquire_wait.get_or_create(&label).observe(waited.as_secs_f64());
    }

    fn ended(&self, facts: &EndFacts<'_>) {
        let ends_here = match facts.end {
            HoldEnd::Lost(reason) => {
                self.losses.get_or_create(&[("reason", reason.as_str())]).inc();
                true
            }
            HoldEnd::NotConfirmed(why) => {
                self.releases_not_confirmed.get_or_create(&[("why", why.as_str())]).inc();
                true
            }
            HoldEnd::Released => true,
            HoldEnd::HandedOver | HoldEnd::ResumedElsewhere => false,
        };
        match facts.held {
            Some(held) => {
                let duration = self.hold_duration.get_or_create(&end_label(facts.end));
                duration.observe(held.as_secs_f64());
            }
            // S16: what was to be resumed was never held here.
            None if ends_here => self.acquired(AcquireResult::ResumeLost, facts.waited),
            None => {}
        }
    }
}

#[cfg(test)]
#[path = "schedules_tests.rs"]
mod schedules_tests;
#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
