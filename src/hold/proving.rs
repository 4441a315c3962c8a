//! A lease that is renewed before its first grant, because it may have been broken for the holder before (S33).
//!
//! A break for a waiting caller goes by the version of the record that it was looked at by. Between an acquire and the write of the
//! new token that is still the record of the holder before: such a break is about that one, and meets the lease of this one, who
//! may not yield. After the write no such break succeeds, so a renewal then shows that none has.

use super::acquisition::Attempt;
use super::event::{Failure, Request};
use super::granting::{Leased, Plan, Work};
use super::output::Output;
use super::{Flight, Hold, Known};
use crate::time::UnixMillis;

impl Hold {
    /// The store answered the renewal of a lease under which nothing was granted yet, or one of long ago.
    pub(super) fn proof_answered(
        &mut self,
        attempt: Attempt,
        request: Request,
        answer: Result<UnixMillis, Failure>,
        output: &mut Output,
    ) {
        match attempt {
            Attempt::Leased { lease, work: Work::Prove { plan }, flight } if flight.is(request) => {
                match answer {
                    Ok(_) => {
                        let lease = Leased { is_unproven: false, ..lease };
                        self.grant_planned(lease, plan, output);
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
                    Err(failure) => self.work_failed(lease, Work::Prove { plan }, failure, output),
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

    /// Gives back a lease under which a token was written and nothing granted: a rest beside that token would keep everybody from
    /// the lock, who asked for it too (S11). A lease that was broken still lets it be taken back.
    fn release_ungranted(&mut self, lease: Leased, plan: Plan, output: &mut Output) {
        if plan.min_hold.is_zero() {
            self.release_unused(lease, output);
        } else {
            self.clear_rest(lease, plan, output);
        }
    }

    /// A renewal that is not answered in time may come yet, after the lease has gone back: then it is released (S6).
    pub(super) fn keep_late_proof(&mut self, attempt: &Attempt) {
        if let Attempt::Leased { lease, work: Work::Prove { .. }, flight } = attempt
            && let Flight::Sent { request, .. } = flight
        {
            let if_match = self.memory.known.as_ref().map(Known::etag);
            self.late.keep(*request, lease.lease_id, if_match, lease.duration);
        }
    }
}
