//! What shows that a lease is ours still, before anybody is granted something under it.
//!
//! After a suspected pause that our clock did not count it may have run out, and another may have the lock
//! (S3): only a renewal that was sent since shows that it has not. And it may have been broken for the holder
//! before (S33). A break for a waiting caller goes by the version of the record that it was looked at by.
//! Between an acquire and the write of the new token that is still the record of the holder before: such a
//! break is about that one, and meets the lease of this one, who may not yield. After the write no such break
//! succeeds, so a renewal then shows that none has.

use std::time::Duration;

use super::acquisition::Attempt;
use super::action::Remark;
use super::event::{Failure, RequestId};
use super::granting::{Leased, Plan, Work};
use super::held::Held;
use super::output::Output;
use super::{Flight, Hold, Known, State};
use crate::time::{Instant, UnixMillis};

impl Hold {
    /// Another clock shows a pause that ours may not have counted: the store's answer decides about what was
    /// sent for before (S3).
    pub(super) fn suspect_pause(&mut self, now: Instant) {
        self.seldom.get_or_insert_default().suspected_at = Some(now);
        if let State::Held(held) = &mut self.state {
            held.renewal.suspect(now, &mut self.jitter);
            if let Some(notice) = &mut held.notice {
                notice.look_now(now);
            }
        }
    }

    /// Whether a pause was suspected since `sent`, when a lease was acquired or renewed: then nobody is
    /// granted anything under it before it was renewed again (S3).
    pub(super) fn is_unproven(&self, sent: Instant) -> bool {
        self.seldom.as_ref().and_then(|seldom| seldom.suspected_at).is_some_and(|at| sent < at)
    }

    /// Whether the lease of a hold is ours beyond doubt, and for long enough to serve another caller under
    /// it.
    pub(super) fn is_sound(&self, held: &Held, now: Instant) -> bool {
        let sent = held.renewal.good_sent();
        !self.is_unproven(sent) && !self.may_be_broken_since(sent) && held.is_settled(now)
    }

    /// The store answered the renewal of a lease under which nothing was granted yet, or one of long ago.
    pub(super) fn proof_answered(
        &mut self,
        attempt: Attempt,
        request: RequestId,
        answer: Result<UnixMillis, Failure>,
        output: &mut Output,
    ) {
        match attempt {
            Attempt::Leased { lease, work: Work::Prove { plan, sent }, flight }
                if flight.is(request) =>
            {
                output.report(Remark::Renewal {
                    latency: Some(output.now.saturating_since(sent)),
                    lateness: Duration::ZERO,
                    failure: answer.as_ref().err().cloned(),
                });
                match answer {
                    // A pause may have been suspected meanwhile.
                    Ok(_) => {
                        let (good_sent, given_up) = (sent, output.now);
                        let lease = Leased { good_sent, given_up, may_be_broken: false, ..lease };
                        self.token_stored(lease, plan, output);
                    }
                    // Nobody was granted anything: it goes back at once, and is acquired again.
                    Err(Failure::Broken) => self.release_ungranted(lease, plan, output),
                    Err(Failure::Refused(store_failure)) => {
                        self.fail_all(&store_failure, output);
                        self.release_ungranted(lease, plan, output);
                    }
                    // Our own write whose answer was lost, or another's: the record says which.
                    Err(Failure::Changed) => {
                        self.send_work(lease, Work::Read { planned: Some(plan) }, output);
                    }
                    Err(failure) => {
                        self.work_failed(lease, Work::Prove { plan, sent }, failure, output);
                    }
                }
            }
            other @ (Attempt::Acquire { .. }
            | Attempt::ReadHolder { .. }
            | Attempt::Leased { .. }) => {
                self.acquiring(other);
                // S4: a renewal that succeeds after the hold was lost is released, not kept.
                self.late_answer(request, answer.is_ok(), output);
            }
        }
    }

    /// Gives back a lease under which a token was written and nothing granted: a rest beside that token would
    /// keep everybody from the lock, who asked for it too (S11). A lease that was broken still lets it be
    /// taken back.
    fn release_ungranted(&mut self, lease: Leased, plan: Plan, output: &mut Output) {
        if plan.min_hold.is_zero() {
            self.release_unused(lease, output);
        } else {
            self.clear_rest(lease, plan, output);
        }
    }

    /// A renewal that is not answered in time may come yet, after the lease has gone back: then it is
    /// released (S6).
    pub(super) fn keep_late_proof(&mut self, attempt: &Attempt) {
        if let Attempt::Leased { lease, work: Work::Prove { .. }, flight } = attempt
            && let Flight::Sent { request, .. } = flight
        {
            let if_match = self.memory.known.as_ref().map(Known::etag);
            self.late.keep(*request, lease.lease_id, if_match, lease.duration);
        }
    }
}
