//! What a caller writes beside its token, and at the end of its hold (T6, T8). The machine knows fields, and
//! not what they say.

use std::fmt;
use std::time::Duration;

use super::action::{Notice, Output};
use super::event::CallerId;
use super::grant::{Leased, Plan};
use super::{Hold, Known};
use crate::lock::{FencingToken, Fields, Record};
use crate::time::UnixMillis;

/// What a caller writes beside its token, decided under the lease over the record as it is then (T6). Pure:
/// the same answer for the same record, token and time.
pub trait GrantPart: fmt::Debug + Send + Sync {
    /// What becomes of the caller. `fields` are all of the record's, ours and others'; `token` is the one
    /// that is written beside what this answers; `store_time` is what the store's clock has surely reached
    /// (T7).
    fn at_grant(&self, fields: &Fields, token: FencingToken, store_time: UnixMillis) -> AtGrant;
}

/// What becomes of a caller whose part was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AtGrant {
    /// It is granted the lock, once this is written with the token.
    Grant {
        /// All fields of the record; the grant's own are put over them.
        fields: Fields,
        /// The longest hold, instead of that of the terms (S11, T12).
        max_hold: Option<Duration>,
    },
    /// It is granted nothing, once this is written with the token.
    Settle {
        /// All fields of the record; the grant's own are put over them.
        fields: Fields,
    },
    /// It is granted nothing, and nothing is written.
    TurnAway,
}

/// What is written during a hold or at its end, with a checkpoint or without (T8). Pure, as [`GrantPart`].
pub trait SavePart: fmt::Debug + Send + Sync {
    /// All fields to write over `fields`; none if nothing is to be written: it stands there already, or must
    /// not. `token` is the hold's; `store_time` is what the store's clock has surely reached.
    fn at_save(
        &self,
        fields: &Fields,
        token: FencingToken,
        store_time: UnixMillis,
    ) -> Option<Fields>;
}

/// For whose part a record was written, and what that part said: it is not asked twice about one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decided {
    pub(super) caller: CallerId,
    pub(super) settles: bool,
    /// Instead of that of the terms.
    pub(super) max_hold: Option<Duration>,
}

impl Hold {
    /// Asks the part of the caller at the front, if it has one, for the fields to write. None if the caller
    /// is turned away; it was told then, and the lease goes back.
    pub(super) fn decide(
        &mut self,
        lease: &Leased,
        token: FencingToken,
        stored: Fields,
        output: &mut Output,
    ) -> Option<(Fields, Option<Decided>)> {
        let front = self.waiters.front()?;
        let Some(part) = front.terms.part() else { return Some((stored, None)) };
        let caller = front.caller;
        match part.at_grant(&stored, token, lease.store_time_at_least(output.now)) {
            AtGrant::Grant { fields, max_hold } => {
                Some((fields, Some(Decided { caller, settles: false, max_hold })))
            }
            AtGrant::Settle { fields } => {
                Some((fields, Some(Decided { caller, settles: true, max_hold: None })))
            }
            AtGrant::TurnAway => {
                self.turn_away(*lease, output);
                None
            }
        }
    }

    /// The caller at the front is granted nothing, and nothing is written for it; but a rest that was written
    /// under this very lease, for a caller that has gone ungranted, does not stay (S11).
    fn turn_away(&mut self, lease: Leased, output: &mut Output) {
        let left = self.memory.known.as_ref().map(Known::record).filter(|record| {
            record.lease == Some(lease.lease_id.fingerprint()) && record.resting_until.is_some()
        });
        let Some(token) = left.and_then(|record| record.token) else {
            return self.settle_front(lease, false, output);
        };
        self.tell_settled(false, output);
        self.clear_rest(lease, Plan { token, min_hold: Duration::ZERO, decided: None }, output);
    }

    fn tell_settled(&mut self, written: bool, output: &mut Output) {
        if let Some(waiter) = self.waiters.pop() {
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
            Some(Decided { max_hold, .. }) => {
                self.grant_new(lease, plan.token, max_hold, output);
            }
            None => self.grant_new(lease, plan.token, None, output),
        }
    }

    /// What a caller has read of the lock just before it came, taken in while nothing is under way here. Of
    /// two records the one with the lower token is the older one. With equal tokens its holder may have
    /// written since we looked; if it was the other way round, the acquire finds out by the version, and
    /// costs one request more (S5).
    pub(super) fn take_seen(&mut self, caller: CallerId, output: &Output) {
        let waiter = self.waiters.first(|waiter| waiter.caller == caller);
        let Some(seen) = waiter.and_then(|waiter| waiter.terms.seen()) else { return };
        let token = Record::from_fields(&seen.fields).token;
        let known = self.memory.known.as_ref();
        let is_news = known.is_none_or(|known| !known.is_version(&seen.etag));
        if is_news && known.and_then(Known::token) <= token {
            self.learn(seen.clone(), output.now);
        }
    }
}
