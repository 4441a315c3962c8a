//! How long a lease lasts that nobody uses (S6, S13), and the outcome of writes that were delayed.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::hold::{Action, Answer, Event, Request};
use leasehold::lock::LeaseId;

use crate::simulation::network::LATEST;

/// What is known of one lease.
#[derive(Clone, Copy, Debug, Default)]
struct Lease {
    duration: Duration,
    /// Until when somebody had it at the least: a sidecar asked for it on behalf of somebody, or a client was
    /// promised it.
    had_until: Duration,
    /// When it runs out in the store.
    ends: Duration,
    /// When it was handed on, released, and gone on with, latest.
    handed_on: Duration,
    released: Duration,
    resumed: Duration,
}

/// The leases that there were.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    leases: BTreeMap<LeaseId, Lease>,
    /// The one that the store has.
    current: Option<LeaseId>,
    /// The longest that a lease was had by nobody.
    pub(crate) longest: Duration,
    /// Writes that came long after they were sent, and what had happened meanwhile under their lease.
    pub(crate) late: BTreeMap<&'static str, u64>,
}

/// A write that was under way for so long has been repeated, or given up.
const HELD_UP: Duration = Duration::from_secs(3);

impl Idle {
    /// Somebody has this lease until `until`, as far as is promised.
    pub(crate) fn had(&mut self, lease_id: LeaseId, until: Duration) {
        let lease = self.leases.entry(lease_id).or_default();
        lease.had_until = lease.had_until.max(until);
    }

    /// A sidecar asks something of the store on behalf of somebody who wants the lock or has it.
    pub(crate) fn sent(&mut self, action: &Action, now: Duration) {
        if let Action::Store {
            what:
                Request::Acquire { lease_id, .. }
                | Request::Write { lease_id, .. }
                | Request::Renew { lease_id, .. },
            ..
        } = action
        {
            self.had(*lease_id, now);
        }
        if let Action::Store { what: Request::Acquire { lease_id, duration, .. }, .. } = action {
            self.leases.entry(*lease_id).or_default().duration = *duration;
        }
    }

    /// Whether the store has it still, if nobody has ended it.
    pub(crate) fn runs(&self, lease_id: LeaseId, now: Duration) -> bool {
        self.leases.get(&lease_id).is_some_and(|lease| now < lease.ends)
    }

    pub(crate) fn handed_on(&mut self, lease_id: LeaseId, now: Duration) {
        self.leases.entry(lease_id).or_default().handed_on = now;
    }

    /// A request of `sent` reached the store and was done, or a write was not. Too long a time without a
    /// holder is wrong.
    pub(crate) fn reached(
        &mut self,
        (action, event): (&Action, &Event),
        sent: Duration,
        now: Duration,
    ) -> Result<(), String> {
        match (action, event) {
            (
                Action::Store { what: Request::Acquire { lease_id, .. }, .. },
                Event::Answer { answer: Answer::Acquire { lease: Ok(_), .. }, .. },
            )
            | (
                Action::Store { what: Request::Renew { lease_id, .. }, .. },
                Event::Answer { answer: Answer::Renew(Ok(_)), .. },
            ) => {
                let former = self.current.replace(*lease_id);
                let judged = former.map_or(Ok(()), |former| self.judge(former, now));
                let lease = self.leases.entry(*lease_id).or_default();
                lease.ends = now + lease.duration;
                judged
            }
            (
                Action::Store { what: Request::Release { lease_id, .. }, .. },
                Event::Answer { answer: Answer::Release(Ok(())), .. },
            ) => {
                self.current = None;
                self.leases.entry(*lease_id).or_default().released = now;
                self.judge(*lease_id, now)
            }
            (
                Action::Store { what: Request::Write { lease_id, fields, .. }, .. },
                Event::Answer { answer: Answer::Write(answer), .. },
            ) => {
                let lease = self.leases.entry(*lease_id).or_default();
                let crossed = [
                    ("hand-off", lease.handed_on),
                    ("release", lease.released),
                    ("resume", lease.resumed),
                ];
                for (what, at) in crossed {
                    if now > sent + HELD_UP && at > sent {
                        *self.late.entry(what).or_default() += 1;
                    }
                }
                let is_resume = fields.contains_key("leasehold_attempt");
                if answer.is_ok() && is_resume {
                    lease.resumed = now;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A lease has ended, or goes on, at `now`. Its last renewal was sent for somebody, was under way for so
    /// long at the most, and gave it a duration (S6).
    pub(crate) fn judge(&mut self, lease_id: LeaseId, now: Duration) -> Result<(), String> {
        let Some(lease) = self.leases.get(&lease_id) else { return Ok(()) };
        let idle = lease.ends.min(now).saturating_sub(lease.had_until);
        self.longest = self.longest.max(idle);
        if idle > lease.duration + LATEST {
            return Err(format!("S6: {lease_id} was had by nobody for {idle:?}"));
        }
        Ok(())
    }
}
