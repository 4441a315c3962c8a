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
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;
use tokio::sync::watch;

use series::{end_label, granted_label, is_grant, renewal_labels};

use super::Exposition;
use super::process::ProcessCollector;
use super::registration::{HOLDS, LATENESSES, REQUESTS, WAITS, add, add_seconds, families};
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

families! {
    to => {
        acquires: Counters<1> = add(to, "leasehold_acquires", "Calls for a lock that ended, by result");
        losses: Counters<1> = add(to, "leasehold_losses", "Holds that were lost, by reason");
        releases_not_confirmed: Counters<1> = add(to, "leasehold_releases_not_confirmed",
            "Releases that the store did not confirm before the lease expired, by why: no_answer; \
             lease_gone, because it answered only when somebody else may have had the lock; left_to_expire, \
             because the hold may have been resumed elsewhere");
        at_risk: Counter = add(to, "leasehold_at_risk",
            "Times that a hold became at risk: no renewal succeeded for two thirds of its lease");
        renewals: Counters<2> = add(to, "leasehold_renewals",
            "Renewals of leases that were answered or timed out, by result and by the cause of failure");
        store_requests: Counters<2> = add(to, "leasehold_store_requests",
            "Requests to the store, by operation and outcome");
        host_type_collisions: Counter = add(to, "leasehold_host_type_collisions",
            "Times that a lock was found under another host type than its acquirer's");
        permits_differ: Counter = add(to, "leasehold_permits_differ",
            "Times that callers of a lock named different numbers of permits");
        tokens_not_growing: Counter = add(to, "leasehold_tokens_not_growing",
            "Grants refused because the lock's fencing token would not have grown");
        locks_forgotten: Counter = add(to, "leasehold_locks_forgotten",
            "Unused locks that were forgotten, because `limits.remembered_locks` others were used since");
        forgotten_locks_read: Counter = add(to, "leasehold_forgotten_locks_read",
            "Acquisitions that had to read a record again because the lock had been forgotten: one more \
             request each");
        resumes_refused: Counter = add(to, "leasehold_resumes_refused",
            "Resumes that were refused, because by what is stored the hold was not the caller's, or not any \
             more");
        pauses_suspected: Counter = add(to, "leasehold_pauses_suspected",
            "Times that another clock showed a pause that the boot clock may not have counted: every hold \
             was renewed");
        clocks_not_heard: Counters<1> = add(to, "leasehold_clocks_not_heard",
            "Times that a clock was ignored for an hour, because it showed pauses that did not happen, by \
             clock");
        log_lines_dropped: Counter = add(to, "leasehold_log_lines_dropped",
            "Log lines that were dropped because standard error was full, slow or closed");
        connections_closed: Counters<2> = add(to, "leasehold_connections_closed",
            "Connections that the sidecar closed or refused, by listener and reason");
        calls_refused: Counters<1> = add(to, "leasehold_calls_refused",
            "Calls that were refused because a limit was reached, by the limit");
        schedules: schedules::Families = schedules::Families::new(to);
        sharing: sharing::Families = sharing::Families::new(to);
        traces: traces::Families = traces::Families::new(to);
        holds: Gauge = add(to, "leasehold_holds", "Holds through this sidecar now");
        holds_at_risk: Gauge = add(to, "leasehold_holds_at_risk", "Holds that are at risk now");
        waiters: Gauge = add(to, "leasehold_waiters", "Callers that are waiting for a lock now");
        subscribers: Gauge = add(to, "leasehold_subscribers",
            "Subscribers of schedules here now, which limits.waiters counts with the waiting callers");
        lock_paths: Gauge = add(to, "leasehold_lock_paths",
            "Locks that are held, waited for or resting here now");
        locks_remembered: Gauge = add(to, "leasehold_locks_remembered",
            "Locks that are remembered now while nobody uses them");
        connections: Family<Labels<2>, Gauge> = add(to, "leasehold_connections",
            "Connections now, by listener and by how far they have come: silent, greeting (TLS), idle (no \
             call yet), serving");
        tasks: Gauge = add(to, "leasehold_tasks", "Tasks that the process runs now");
        store_ready: Gauge = add(to, "leasehold_store_ready",
            "1 if the store can be used, else 0: it refuses the sidecar, or no request has succeeded for \
             three seconds");
        store_requests_waiting: Gauge = add(to, "leasehold_store_requests_waiting",
            "Requests that are delayed now, because the store throttles");
        store_rate_limit: FloatGauge = add(to, "leasehold_store_rate_limit",
            "The most requests a second that are sent while the store throttles; NaN while it does not");
        draining: Gauge = add(to, "leasehold_draining", "1 while the sidecar shuts down, else 0");
        acquire_wait: Histograms = add_seconds(to, "leasehold_acquire_wait",
            "Time from a call for a lock to its end, by whether it was granted",
            Family::new_with_constructor(|| Histogram::new(WAITS)));
        hold_duration: Histograms = add_seconds(to, "leasehold_hold_duration",
            "Time from a grant to the end of the hold here, by how it ended: handed_over was left to the \
             replacement of this sidecar, resumed_elsewhere goes on at another one",
            Family::new_with_constructor(|| Histogram::new(HOLDS)));
        renewal_latency: Histogram = add_seconds(to, "leasehold_renewal_latency",
            "Time from sending a renewal to its answer, for renewals that were answered",
            Histogram::new(REQUESTS));
        renewal_lateness: Histogram = add_seconds(to, "leasehold_renewal_lateness",
            "Time from when a renewal was due to when it was sent", Histogram::new(LATENESSES));
        store_request_duration: Histograms = add_seconds(to, "leasehold_store_request_duration",
            "Time of a request to the store, by operation",
            Family::new_with_constructor(|| Histogram::new(REQUESTS)));
        smallest_validity: FloatGauge = add_seconds(to, "leasehold_smallest_validity",
            "Shortest time until a hold is lost unless it is renewed; NaN without holds",
            FloatGauge::default());
        certificate_not_after: FloatGauge = add_seconds(to, "leasehold_tls_certificate_not_after_timestamp",
            "When the served TLS certificate expires, in seconds since the Unix epoch; NaN without TLS",
            FloatGauge::default());
        signature_not_after: FloatGauge = add_seconds(to, "leasehold_store_signature_not_after_timestamp",
            "When the shared access signature of the store ends, in seconds since the Unix epoch; NaN \
             without one that says so", FloatGauge::default());
        process_start_time: FloatGauge = add_seconds(to, "process_start_time",
            "When the process started, in seconds since the Unix epoch", FloatGauge::default());
    }
}

/// The outcome of a store request that was done.
pub(super) const DONE: &str = "ok";
/// The outcome of a store request that was given up before its answer came.
pub(super) const CUT_OFF: &str = "cut_off";

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
        let mut registry = Registry::default();
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("leasehold_build", "The version that runs", version);
        let families = Families::new(&mut registry);
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
        let counter = match event.kind {
            LockEventKind::Granted(facts) => {
                let result = match facts.how {
                    GrantedBy::Store | GrantedBy::HandOff => AcquireResult::Granted,
                    GrantedBy::Resume => AcquireResult::Resumed,
                };
                return families.acquired(result, facts.waited);
            }
            LockEventKind::NotGranted { result, waited, .. } => {
                return families.acquired(result, waited);
            }
            LockEventKind::Ended(facts) => return families.ended(&facts),
            LockEventKind::Renewal { failure, latency, lateness } => {
                if let Some(latency) = latency {
                    families.renewal_latency.observe(latency.as_secs_f64());
                }
                families.renewal_lateness.observe(lateness.as_secs_f64());
                &families.renewals.get_or_create_owned(&renewal_labels(failure))
            }
            LockEventKind::ResumeRefused { .. } => &families.resumes_refused,
            LockEventKind::AtRisk { .. } => &families.at_risk,
            LockEventKind::Collision { .. } => &families.host_type_collisions,
            LockEventKind::PermitsDiffer { .. } => &families.permits_differ,
            LockEventKind::Forgotten => &families.locks_forgotten,
            LockEventKind::ForgottenRead => &families.forgotten_locks_read,
            LockEventKind::Overruled { moves, .. } => return families.sharing.overruled(moves),
            LockEventKind::Schedule(kind) => return families.schedules.observe(&kind),
            LockEventKind::TokenNotGrowing { .. } => &families.tokens_not_growing,
            LockEventKind::PauseSuspected => &families.pauses_suspected,
            LockEventKind::ClockNotHeard { source } => {
                &families.clocks_not_heard.get_or_create_owned(&[("clock", source.as_str())])
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
            | LockEventKind::ShutdownBegun => return,
        };
        counter.inc();
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
