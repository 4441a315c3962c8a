//! What is written beside a caller's token, and at the end of its hold, is decided elsewhere: the machine
//! knows fields, and not what they say. It asks ([`Action::Decide`]), and goes on with the verdict (T6, T8).

use super::action::{Action, Notice, Output};
use super::attempt::{Attempt, Decided, Leased, Plan, Work};
use super::event::{CallerId, Stored, WriteOf};
use super::exchange::Exchange;
use super::memory::Known;
use super::{Hold, State};
use crate::lock::FencingToken;
use crate::record::{Fields, Found, Record, Verdict};
use crate::time::Instant;

impl Hold {
    /// Asks what the caller at the front writes over `fields`, beside `token`.
    pub(super) fn ask_decision(
        &mut self,
        lease: Leased,
        token: FencingToken,
        fields: Fields,
        output: &mut Output,
    ) {
        let Some(front) = self.front() else { return self.release_unused(lease, output) };
        let store_time = lease.store_time_at_least(output.now);
        let found = Found { fields, token, store_time };
        output.push(Action::Decide { of: WriteOf::Grant(front.caller), found });
        let exchange = Exchange::Waiting { at: lease.valid_until() };
        self.acquiring(Attempt::Leased { lease, work: Work::Decide { token }, exchange });
    }

    /// What the caller at the front writes is decided. If it is turned away, it is told so and the lease goes
    /// back.
    pub(super) fn grant_decided(
        &mut self,
        caller: CallerId,
        verdict: Verdict,
        output: &mut Output,
    ) {
        let is_asked = |attempt: &Attempt| {
            matches!(attempt, Attempt::Leased { work: Work::Decide { .. }, .. })
        };
        let Some(Attempt::Leased { lease, work: Work::Decide { token }, .. }) =
            self.take_attempt(output.now, is_asked)
        else {
            return;
        };
        let front = self.front().filter(|front| front.caller == caller);
        let Some(min_hold) = front.map(|front| front.terms.min_hold) else {
            return self.record_had(lease, None, output);
        };
        let (settles, max_hold) = match &verdict {
            Verdict::Grant { max_hold, .. } => (false, *max_hold),
            Verdict::Write { .. } | Verdict::Nothing => (true, None),
        };
        match verdict.into_fields() {
            Some(fields) => {
                let decided = Some(Decided { settles, max_hold });
                let plan = Plan { decided, ..Plan::new(token, caller, min_hold) };
                self.write_token(lease, plan, fields, output);
            }
            None => self.turn_away(lease, output),
        }
    }

    /// The caller at the front is granted nothing, and nothing is written for it.
    fn turn_away(&mut self, lease: Leased, output: &mut Output) {
        self.tell_settled(false, output);
        self.release_without_rest(lease, output);
    }

    fn tell_settled(&mut self, written: bool, output: &mut Output) {
        if let Some(waiter) = self.take_front() {
            output.tell(waiter.caller, Notice::Settled { written });
        }
    }

    /// The caller at the front is told that it is granted nothing, and the lease goes back. Who waits behind
    /// it acquires anew.
    fn settle_front(&mut self, lease: Leased, written: bool, output: &mut Output) {
        self.tell_settled(written, output);
        self.release_unused(lease, output);
    }

    /// What was written is there, and the caller at the front is served if it was written for it.
    pub(super) fn serve_front(&mut self, lease: Leased, plan: Plan, output: &mut Output) {
        match plan.decided {
            Some(Decided { settles: true, .. }) => self.settle_front(lease, true, output),
            Some(_) | None => self.grant_new(lease, plan, output),
        }
    }

    /// What a caller has read of the lock just before it came, taken in while nothing is under way here. Of
    /// two records the one with the lower token is the older one. With equal tokens its holder may have
    /// written since we looked; if it was the other way round, the acquire finds out by the version, and
    /// costs one request more (S5).
    pub(crate) fn take_seen(&mut self, seen: &Stored, now: Instant) {
        if !matches!(self.state, State::Idle { .. }) {
            return;
        }
        let token = Record::from_fields(&seen.fields).token;
        let known = self.memory.known.as_ref();
        let is_news = known.is_none_or(|known| !known.is_version(&seen.etag));
        if is_news && known.and_then(Known::token) <= token {
            self.learn(seen.clone(), now);
        }
    }
}
