//! When the command is told to stop, and when it is killed. Pure: readings of the clock are arguments.

use std::time::Duration;

use leasehold_client::{BootInstant, LossReason};

/// Why the command is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Renewals fail, or nothing was heard of any, and the validity ends soon.
    AtRisk,
    /// The lock was broken, and the command has what is left of the validity (S22).
    Revoked,
    /// Its deadline has come, and its hold ends at that moment (T12).
    Deadline(BootInstant),
    /// The sidecar shuts down, and waits so long for holders to release.
    Draining(Duration),
    /// The hold is over.
    Lost(LossReason),
    /// The command itself has ended, and left processes behind.
    LeftBehind,
}

/// The deadlines of one command.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    kill_after: Option<Duration>,
    /// The longest validity that was seen: what the lease is good for.
    span: Duration,
    /// When the command is killed at the latest, once it was told to stop.
    kill_at: Option<BootInstant>,
}

/// The least and the most time that is kept for a SIGKILL to have worked.
const MARGIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(1));
/// What a command has between SIGTERM and SIGKILL at the end of a validity that no renewal has prolonged,
/// unless the user says otherwise: so long, but no greater share of the validity, since an outage that ends
/// before costs nothing.
const LEAD: Duration = Duration::from_secs(5);
const LEAD_SHARE: u32 = 5;
/// What a command has that may not be alone any more.
const OVERTAKEN: Duration = Duration::from_secs(2);
/// What processes have that the command left behind, unless the user says otherwise.
const LEFT_BEHIND: Duration = Duration::from_secs(5);

impl Plan {
    /// A plan for a command that has `kill_after` between SIGTERM and SIGKILL, if the lock allows.
    pub(super) const fn new(kill_after: Option<Duration>) -> Self {
        Self { kill_after, span: Duration::ZERO, kill_at: None }
    }

    /// Takes in the validity as it is now.
    pub(super) fn see(&mut self, now: BootInstant, valid_until: BootInstant) {
        self.span = self.span.max(valid_until.saturating_since(now));
    }

    /// Whether the command was told to stop.
    pub(super) const fn is_stopping(&self) -> bool {
        self.kill_at.is_some()
    }

    /// When the command is told to stop, if no renewal is heard of before.
    pub(super) fn stop_at(&self, valid_until: BootInstant) -> BootInstant {
        // The user's time, but never so much that a renewal in time comes too late.
        let lead = self.kill_after.unwrap_or_else(|| LEAD.min(self.span / LEAD_SHARE));
        let lead = lead.min(self.span / 2);
        before(valid_until, lead + self.margin())
    }

    /// The command is told to stop now; a further cause can only bring its end nearer.
    pub(super) fn stop(&mut self, cause: Cause, now: BootInstant, valid_until: BootInstant) {
        let end = match cause {
            Cause::AtRisk | Cause::Revoked => before(valid_until, self.margin()),
            Cause::Deadline(ends) => before(ends, self.margin()),
            Cause::Draining(time_left) => before(now + time_left, self.margin()),
            Cause::Lost(LossReason::Taken | LossReason::Broken | LossReason::LockDeleted) => {
                (now + OVERTAKEN).min(before(valid_until, self.margin()))
            }
            Cause::Lost(_) => before(valid_until, self.margin()),
            Cause::LeftBehind => now + LEFT_BEHIND,
        };
        let end = self.kill_after.map_or(end, |span| end.min(now + span));
        self.kill_at = Some(self.kill_at.map_or(end, |earlier| earlier.min(end)));
    }

    /// When the command is killed; `None` while it was not told to stop.
    pub(super) fn kill_at(&self, valid_until: BootInstant) -> Option<BootInstant> {
        self.kill_at.map(|at| at.min(before(valid_until, self.margin())))
    }

    fn margin(&self) -> Duration {
        (self.span / 20).clamp(MARGIN.0, MARGIN.1)
    }
}

fn before(at: BootInstant, span: Duration) -> BootInstant {
    BootInstant::from_boot(at.since_boot().saturating_sub(span))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> BootInstant {
        BootInstant::from_boot(Duration::from_millis(millis))
    }

    /// A lease of 60 s, granted at 0 s.
    fn long(kill_after: Option<Duration>) -> Plan {
        let mut plan = Plan::new(kill_after);
        plan.see(at(0), at(58_300));
        plan
    }

    #[test]
    fn s21_a_command_has_the_time_that_is_left_but_for_what_it_needs_to_stop() {
        assert_eq!(long(None).kill_at(at(58_300)), None);
        for (asked, span, stop) in [
            (None, 58_300, 52_300),
            (None, 14_200, 10_650),
            (Some(Duration::from_secs(20)), 58_300, 37_300),
            (Some(Duration::ZERO), 14_200, 13_490),
        ] {
            let mut plan = Plan::new(asked);
            plan.see(at(0), at(span));
            assert_eq!(plan.stop_at(at(span)), at(stop), "{asked:?} {span}");
        }
    }

    #[test]
    fn s21_the_kill_comes_before_the_validity_ends_whatever_is_asked_for() {
        for asked in [None, Some(Duration::from_secs(3_600))] {
            for span in [500, 14_200, 28_900, 58_300] {
                let mut plan = Plan::new(asked);
                plan.see(at(0), at(span));
                plan.stop(Cause::AtRisk, at(span / 2), at(span));
                let kill = plan.kill_at(at(span)).unwrap();
                assert!(kill + MARGIN.0 <= at(span), "{asked:?} {span}: {kill:?}");
                assert!(plan.stop_at(at(span)) <= kill);
            }
        }
    }

    #[test]
    fn a_renewal_in_time_never_finds_the_command_stopped() {
        // Renewals come after D/3 and a tenth of it, whatever the user asks for.
        for (lease, span) in [(15_000, 14_200), (30_000, 28_900), (60_000, 58_300)] {
            let mut plan = Plan::new(Some(Duration::from_secs(600)));
            plan.see(at(0), at(span));
            assert!(plan.stop_at(at(span)) > at(lease / 3 * 11 / 10), "{lease}");
        }
    }

    #[test]
    fn the_user_s_time_is_kept_where_the_lock_allows() {
        let mut plan = long(Some(Duration::from_secs(3)));
        plan.stop(Cause::AtRisk, at(40_000), at(58_300));
        assert_eq!(plan.kill_at(at(58_300)), Some(at(43_000)));
    }

    #[test]
    fn a_recovery_after_the_warning_does_not_lengthen_a_stopped_command_s_life() {
        let mut plan = long(None);
        plan.stop(Cause::AtRisk, at(40_000), at(58_300));
        assert_eq!(plan.kill_at(at(100_000)), plan.kill_at(at(58_300)));
    }

    #[test]
    fn s15_a_draining_sidecar_gets_its_lock_back_before_its_time_is_over() {
        let mut plan = long(None);
        plan.stop(Cause::Draining(Duration::from_secs(20)), at(10_000), at(58_300));
        assert_eq!(plan.kill_at(at(100_000)), Some(at(29_000)));
        assert_eq!(plan.kill_at(at(20_000)), Some(at(19_000)), "and not past its validity");
    }

    #[test]
    fn who_may_not_be_alone_any_more_has_little_time() {
        let mut plan = long(None);
        plan.stop(Cause::Lost(LossReason::Taken), at(10_000), at(58_300));
        assert_eq!(plan.kill_at(at(58_300)), Some(at(12_000)));
        plan.stop(Cause::AtRisk, at(11_000), at(58_300));
        assert_eq!(plan.kill_at(at(58_300)), Some(at(12_000)), "the first end stays");
    }
}
