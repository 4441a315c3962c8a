//! What the machine reports to the operator: log lines and observations.

use std::time::Duration;

use super::caller::Caller;
use super::journal::{HappeningKind, News};
use super::observe::{Observation, RenewalFailure};
use super::request::LockRecord;
use super::task::Task;
use crate::hold::{Failure, LossReason, StoreFailure};
use crate::lock::{FencingToken, LockPath, Priority};

impl Task {
    pub(super) fn report_collision(&self, path: &LockPath, stored: &str, ours: &str) {
        self.shared.observer.observe(&Observation::HostTypeCollision);
        if self.shared.registry().is_new_collision(path) {
            let detail = format!("{stored} and {ours} share this lock path");
            self.happened(News::of(HappeningKind::Collision, path).saying(detail));
            tracing::warn!(
                lock = %path, stored_host_type = stored, our_host_type = ours,
                "two host types share this lock path: give them different host ids, if they are not to exclude each other"
            );
        }
    }

    pub(super) fn report_token(
        &self,
        path: &LockPath,
        seen: FencingToken,
        next: Option<FencingToken>,
    ) {
        let next = next.map(FencingToken::value);
        tracing::error!(lock = %path, seen = seen.value(), next, "fencing token would not grow: no grant");
        self.shared.observer.observe(&Observation::TokenNotGrowing);
        self.happened(News::of(HappeningKind::TokenNotGrowing, path).to("", Some(seen)));
    }

    pub(super) fn report_renewal(
        &self,
        path: &LockPath,
        latency: Option<Duration>,
        lateness: Duration,
        failure: Option<&Failure>,
    ) {
        let failure = failure.map(RenewalFailure::from);
        if let Some(cause) = failure {
            tracing::debug!(lock = %path, cause = cause.as_str(), "renewal failed");
        }
        self.weigh_suspicion(failure, latency);
        self.shared.observer.observe(&Observation::Renewal { failure, latency, lateness });
    }

    pub(super) fn report_at_risk(&self, path: &LockPath, detail: &str) {
        tracing::warn!(lock = %path, %detail, "hold at risk: renewals fail");
        self.happened(News::of(HappeningKind::AtRisk, path).saying(detail));
        self.shared.observer.observe(&Observation::AtRisk);
    }

    /// S33: the store refuses to break leases.
    pub(super) fn report_cannot_break(&self, path: &LockPath, failure: &StoreFailure) {
        tracing::warn!(
            lock = %path, cause = %failure.message,
            "the store refuses to break leases: callers of greater priority wait until the lock is released"
        );
    }

    /// S33, S35: the lock was broken for a caller that waits here.
    pub(super) fn report_overruled(&self, path: &LockPath, priority: Priority, moves: bool) {
        tracing::info!(lock = %path, %priority, moves, "lock broken for a waiting caller");
        self.shared.observer.observe(&Observation::Overruled { moves });
        let detail = if moves {
            "to balance its share".to_owned()
        } else {
            format!("for a caller of priority {priority}")
        };
        self.happened(News::of(HappeningKind::Overruled, path).saying(detail));
    }

    /// A caller was told that somebody else has the lock.
    pub(super) fn happened_refusal(&self, caller: &Caller, busy: &LockRecord) {
        if self.shared.keeps_journal() {
            let detail = match busy.record.holder.as_str() {
                "" => "somebody has it".to_owned(),
                holder => format!("{holder} has it"),
            };
            let news = News::of(HappeningKind::Refused, &busy.path).saying(detail);
            self.happened(news.to(&caller.terms.record.holder, None));
        }
    }

    pub(super) fn happened_loss(
        &self,
        path: &LockPath,
        caller: &Caller,
        reason: LossReason,
        detail: &str,
    ) {
        if self.shared.keeps_journal() {
            let detail = format!("{}: {detail}", reason.as_str());
            let news = News::of(HappeningKind::Lost, path).saying(detail);
            self.happened(news.to(&caller.terms.record.holder, caller.token));
        }
    }

    pub(super) fn happened_revocation(&self, path: &LockPath, caller: &Caller, reason: String) {
        let news = News::of(HappeningKind::Revoked, path).saying(reason);
        self.happened(news.to(&caller.terms.record.holder, caller.token));
    }
}
