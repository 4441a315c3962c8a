//! A try to get the lock, as far as it has come: polls under one lease id, then the lease that was given, and
//! what is written under it before a caller is granted anything (S2, S5, S6, S11). Values only:
//! [`super::acquire`] and [`super::grant`] bring them on.

use std::time::Duration;

use super::event::CallerId;
use super::exchange::{Exchange, RecordWrite};
use super::jitter::WriteName;
use super::renewal::{cut_off, valid_until};
use crate::lock::{FencingToken, LeaseId};
use crate::time::{Instant, UnixMillis};

/// Tries to get the lock from the store under one lease id, over all polls and repetitions, until it is had
/// or given up (S6).
#[derive(Clone, Debug)]
pub(super) struct Retry {
    pub(super) lease_id: LeaseId,
    /// D, the same in every repetition: a late one must not shorten the lease that another was granted.
    pub(super) duration: Duration,
    /// The first try reads the record too, so that a busy answer names the holder.
    pub(super) first: bool,
    /// Polls since the record was read.
    pub(super) unread: u8,
    /// Tries in a row that met a record that had just changed.
    pub(super) changes: u8,
    /// When the latest acquire that may have been done was given up: nothing of it arrives later.
    pub(super) uncertain: Option<Instant>,
}

/// An acquisition with a request under way.
#[derive(Clone, Debug)]
pub(super) enum Attempt {
    /// The lease is asked for.
    Acquire { retry: Retry, sent: Instant, exchange: Exchange },
    /// The lock is another's; its record is read for the busy answer.
    ReadHolder { retry: Retry, exchange: Exchange },
    /// The lease is had, and not granted yet.
    Leased { lease: Leased, work: Work, exchange: Exchange },
}

impl Attempt {
    pub(super) fn poll_timeout(&self) -> Instant {
        match self {
            Self::Acquire { exchange, .. } | Self::ReadHolder { exchange, .. } => exchange.at(),
            Self::Leased { lease, exchange, .. } => exchange.at().min(lease.valid_until()),
        }
    }
}

/// A lease that was given, and is not granted yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leased {
    pub(super) lease_id: LeaseId,
    /// When the acquire that was answered was sent.
    pub(super) sent: Instant,
    /// S2: when the newest request was sent that is known to have acquired or renewed it.
    pub(super) good_sent: Instant,
    pub(super) duration: Duration,
    /// What the store's clock showed, and when that was heard: it had surely passed by then.
    pub(super) time: UnixMillis,
    pub(super) heard: Instant,
    /// When the last request after which it may last for D was answered, or will have been given up: it has
    /// surely run out D later.
    pub(super) given_up: Instant,
    /// Until the token was written under it, a break that was meant for the grant before may have met it:
    /// that one's holder yields, or an operator breaks the lock through this sidecar.
    pub(super) may_be_broken: bool,
    /// Until when the rest lasts that may have been stored under it, for a caller that was granted nothing
    /// yet (S11).
    pub(super) rest_until: Option<Instant>,
}

/// What is to be done under a lease before it can be granted.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// The record must be read. A write may have been done before, with an unknown outcome.
    Read { unsettled: Option<Unsettled> },
    /// It is being decided what is written beside this token (T6).
    Decide { token: FencingToken },
    /// The token must be stored.
    Write { plan: Plan, write: RecordWrite },
    /// The token is stored. The lease is renewed, by a request of `sent`, because it may have been broken
    /// before that (S33), or have run out in a pause (S3).
    Prove { plan: Plan, sent: Instant },
}

/// What a write of the record is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) token: FencingToken,
    /// The caller that the record names then; none if it only takes back a rest.
    pub(super) caller: Option<CallerId>,
    /// The rest that is written beside it (S11).
    pub(super) min_hold: Duration,
    /// What was decided of it, if the write is for a caller for whom that is decided (T6).
    pub(super) decided: Option<Decided>,
    /// The name of the write, once it is made: an earlier one may have had the same token.
    pub(super) name: Option<WriteName>,
    /// The end of the rest that is written: all that may be promised, however late it is stored (S11).
    pub(super) rest_ends: Option<Instant>,
    /// The end of the rest that may have been stored before it was sent last (S11).
    pub(super) rest_before: Option<Instant>,
}

/// A write of which it is not known whether it was done.
#[derive(Clone, Debug)]
pub(super) struct Unsettled {
    pub(super) plan: Plan,
    /// It may be done yet, and is sent again: none where its newest try was surely not done.
    pub(super) write: Option<RecordWrite>,
}

impl Plan {
    /// To write this token for a caller.
    pub(super) const fn new(token: FencingToken, caller: CallerId, min_hold: Duration) -> Self {
        Self { caller: Some(caller), min_hold, ..Self::without_rest(token) }
    }

    /// To take back a rest that stands beside this token.
    pub(super) const fn without_rest(token: FencingToken) -> Self {
        Self {
            token,
            caller: None,
            min_hold: Duration::ZERO,
            decided: None,
            name: None,
            rest_ends: None,
            rest_before: None,
        }
    }
}

impl Work {
    pub(super) const fn what(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Decide { .. } => "decision",
            Self::Write { .. } => "write",
            Self::Prove { .. } => "renewal",
        }
    }
}

impl Leased {
    pub(super) fn valid_until(&self) -> Instant {
        valid_until(self.good_sent, self.duration)
    }

    /// Whether so much of it has passed that a holder would be at risk before a renewal was answered (S9).
    pub(super) fn is_late(&self, now: Instant) -> bool {
        now + cut_off(self.duration) >= self.good_sent + self.duration * 2 / 3
    }

    /// The store's clock now, as nearly as it is known.
    pub(super) fn store_time(&self, now: Instant) -> UnixMillis {
        self.time + now.saturating_since(self.sent)
    }

    /// What the store's clock has surely reached (T7).
    pub(super) fn store_time_at_least(&self, now: Instant) -> UnixMillis {
        self.time + now.saturating_since(self.heard)
    }
}

/// What was decided of a record that is written: that is not asked twice about one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decided {
    pub(super) settles: bool,
    /// Instead of that of the terms.
    pub(super) max_hold: Option<Duration>,
}
