//! Gauges: set when they are asked for, to what is true then.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::{ConnectionCounts, Connections, Metrics, traces};
use crate::coordinator::StoreStatus;
use crate::scheduler::Scheduler;
use crate::time::UnixMillis;

impl Metrics {
    /// Shows when the shared access signature of the store ends. The first one counts: there is one store.
    pub fn follow_signature(&self, end: watch::Receiver<Option<UnixMillis>>) {
        let _ = self.inner.signature.set(end);
    }

    /// Shows when the TLS certificate that is served expires. The first one counts: there is one server.
    pub fn follow_certificate(&self, not_after: watch::Receiver<Option<UnixMillis>>) {
        let _ = self.inner.certificate.set(not_after);
    }

    /// Shows what the connections of the server are doing. The first ones count: there is one server.
    pub fn follow_connections(&self, connections: Connections) {
        let _ = self.inner.connections.set(connections);
    }

    /// Counts the tasks of further runtimes too. The first ones count: there is one server.
    pub fn follow_runtimes(&self, runtimes: Vec<Handle>) {
        let _ = self.inner.runtimes.set(runtimes);
    }

    /// What counts the spans of traces.
    pub(in crate::telemetry) fn trace_counts(&self) -> traces::Families {
        self.inner.families.traces.clone()
    }

    /// Sets every gauge to what is true now.
    pub(super) fn look_at(&self, scheduler: &Scheduler) {
        let coordinator = scheduler.coordinator();
        let gauges = coordinator.gauges();
        let families = &self.inner.families;
        families
            .log_lines_dropped
            .inner()
            .store(crate::telemetry::lines_dropped(), Ordering::Relaxed);
        let whole = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        families.holds.set(whole(gauges.holds));
        families.holds_at_risk.set(whole(gauges.at_risk));
        families.waiters.set(whole(gauges.waiters));
        families.subscribers.set(whole(gauges.subscribers));
        families.lock_paths.set(whole(gauges.paths));
        families.locks_remembered.set(whole(gauges.remembered));
        if let Ok(here) = Handle::try_current() {
            let others = self.inner.runtimes.get().into_iter().flatten();
            let tasks = |runtime: &Handle| runtime.metrics().num_alive_tasks();
            families.tasks.set(whole(others.map(tasks).sum::<usize>() + tasks(&here)));
        }
        if let Some(connections) = self.inner.connections.get() {
            let ConnectionCounts { open, closed, refused } = connections();
            for ([listener, stage], count) in open {
                let labels = [("listener", listener), ("stage", stage)];
                families.connections.get_or_create(&labels).set(whole(count));
            }
            for ([listener, reason], count) in closed {
                let labels = [("listener", listener), ("reason", reason)];
                let counter = families.connections_closed.get_or_create(&labels);
                counter.inner().store(count, Ordering::Relaxed);
            }
            for (limit, count) in refused {
                let counter = families.calls_refused.get_or_create(&[("limit", limit)]);
                counter.inner().store(count, Ordering::Relaxed);
            }
        }
        families.sharing.show(gauges.share_locks);
        families.schedules.show(&scheduler.schedule_figures(), self.inner.label_schedules);
        let now = coordinator.clock().now();
        let validity = gauges.earliest_valid_until.map(|until| until.saturating_since(now));
        families.smallest_validity.set(validity.map_or(f64::NAN, |span| span.as_secs_f64()));
        let ready = *coordinator.store_status().borrow() == StoreStatus::Ready;
        families.store_ready.set(i64::from(ready));
        let pace = coordinator.pace();
        families.store_requests_waiting.set(whole(pace.waiting));
        families.store_rate_limit.set(pace.rate.unwrap_or(f64::NAN));
        families.draining.set(i64::from(gauges.draining));
        families.certificate_not_after.set(end_of(self.inner.certificate.get()));
        families.signature_not_after.set(end_of(self.inner.signature.get()));
    }
}

/// Seconds since the Unix epoch; not a number where nothing ends.
fn end_of(followed: Option<&watch::Receiver<Option<UnixMillis>>>) -> f64 {
    let end = followed.and_then(|end| *end.borrow());
    end.map_or(f64::NAN, |end| Duration::from_secs(end.seconds()).as_secs_f64())
}
