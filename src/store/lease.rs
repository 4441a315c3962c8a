//! The lease of one lock: the contract's table as a value, for the stores that keep leases themselves.

use std::time::Duration;

use super::{
    BreakPeriod, LeaseEnd, LeaseState, MAX_LEASE_DURATION, MIN_LEASE_DURATION, StoreError,
};
use crate::lock::LeaseId;
use crate::time::Instant;

/// The lease that a lock has, or had last. Each operation answers the lease as it is afterwards and changes
/// nothing by itself, so that a condition can still refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    /// Whose it is or was last; `None` when the lock was never leased or was given back.
    pub(super) holder: Option<Holder>,
}

/// A lease that was given and not given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    /// The id it was given under.
    pub(super) lease_id: LeaseId,
    /// For how long, at each acquire and renew.
    pub(super) duration: Duration,
    /// From when on it has run out.
    pub(super) until: Instant,
    /// It was broken, and can only end.
    pub(super) broken: bool,
}

/// What the table asks about the lease and the id that an operation came with.
struct LeaseSeen {
    state: LeaseState,
    own: Option<Holder>,
}

impl Lease {
    /// The lease of a lock that nobody has.
    pub(super) const AVAILABLE: Self = Self { holder: None };

    const fn held(holder: Holder) -> Self {
        Self { holder: Some(holder) }
    }

    /// The last row of the table: what the passing of time has made of it.
    pub(super) fn state(self, now: Instant) -> LeaseState {
        match self.holder {
            None => LeaseState::Available,
            Some(holder) => match (holder.broken, now < holder.until) {
                (false, true) => LeaseState::Leased,
                (false, false) => LeaseState::Expired,
                (true, true) => LeaseState::Breaking,
                (true, false) => LeaseState::Broken,
            },
        }
    }

    fn seen_by(self, lease_id: LeaseId, now: Instant) -> LeaseSeen {
        LeaseSeen {
            state: self.state(now),
            own: self.holder.filter(|holder| holder.lease_id == lease_id),
        }
    }

    pub(super) fn acquire(
        self,
        lease_id: LeaseId,
        duration: Duration,
        now: Instant,
    ) -> Result<Self, StoreError> {
        check_duration(duration)?;
        let seen = self.seen_by(lease_id, now);
        match seen.state {
            LeaseState::Leased if seen.own.is_none() => Err(StoreError::Contended),
            LeaseState::Breaking => Err(StoreError::Contended),
            LeaseState::Available
            | LeaseState::Leased
            | LeaseState::Broken
            | LeaseState::Expired => {
                Ok(Self::held(Holder { lease_id, duration, until: now + duration, broken: false }))
            }
        }
    }

    /// An expired lease is renewed as long as it is there: leasing replaces it, and a write from outside the
    /// contract removes it ([`Lease::after_write_without_lease`]).
    pub(super) fn renew(self, lease_id: LeaseId, now: Instant) -> Result<Self, StoreError> {
        let seen = self.seen_by(lease_id, now);
        let own = seen.own.ok_or(TAKEN)?;
        match seen.state {
            LeaseState::Leased | LeaseState::Expired => {
                Ok(Self::held(Holder { until: now + own.duration, ..own }))
            }
            LeaseState::Breaking | LeaseState::Broken => {
                Err(StoreError::LeaseLost { how: LeaseEnd::Broken })
            }
            LeaseState::Available => Err(TAKEN),
        }
    }

    pub(super) fn release(self, lease_id: LeaseId, now: Instant) -> Result<Self, StoreError> {
        match self.seen_by(lease_id, now).own {
            Some(_) => Ok(Self::AVAILABLE),
            None => Err(TAKEN),
        }
    }

    /// The lease afterwards, and how long it still runs.
    pub(super) fn break_lease(
        self,
        period: BreakPeriod,
        now: Instant,
    ) -> Result<(Self, Duration), StoreError> {
        let holder = self.holder.ok_or(StoreError::NotHeld)?;
        let until = match period {
            BreakPeriod::RunOut => holder.until,
            BreakPeriod::Now => now,
        };
        let broken = Self::held(Holder { until, broken: true, ..holder });
        Ok((broken, until.saturating_since(now)))
    }

    /// The lease after a break that gives it `period` to end, if it does not end sooner.
    pub(super) fn break_within(self, period: Duration, now: Instant) -> Result<Self, StoreError> {
        let holder = self.holder.ok_or(StoreError::NotHeld)?;
        Ok(Self::held(Holder { until: holder.until.min(now + period), broken: true, ..holder }))
    }

    /// Whether the record may be written under this lease id.
    pub(super) fn check_write(self, lease_id: LeaseId, now: Instant) -> Result<(), StoreError> {
        let seen = self.seen_by(lease_id, now);
        if seen.own.is_some() && seen.state.is_held() { Ok(()) } else { Err(TAKEN) }
    }

    /// A write by somebody who knows nothing of this contract and names no lease: refused while it is leased,
    /// and it ends what is left of a lease that ran out.
    pub(super) fn after_write_without_lease(self, now: Instant) -> Result<Self, StoreError> {
        if self.state(now).is_held() { Err(StoreError::Contended) } else { Ok(Self::AVAILABLE) }
    }
}

const TAKEN: StoreError = StoreError::LeaseLost { how: LeaseEnd::Taken };

pub(super) fn check_duration(duration: Duration) -> Result<(), StoreError> {
    if (MIN_LEASE_DURATION..=MAX_LEASE_DURATION).contains(&duration) && duration.subsec_nanos() == 0
    {
        Ok(())
    } else {
        Err(StoreError::Fatal {
            advice: "ask for a lease of 15 to 60 whole seconds".to_owned(),
            source: format!("a lease of {duration:?} was asked for").into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const A: LeaseId = LeaseId::from_uuid(Uuid::from_u128(0xa));
    const B: LeaseId = LeaseId::from_uuid(Uuid::from_u128(0xb));
    const D: Duration = Duration::from_secs(15);

    const fn at(seconds: u64) -> Instant {
        Instant::from_boot(Duration::from_secs(seconds))
    }

    fn leased() -> Lease {
        Lease::AVAILABLE.acquire(A, D, at(100)).unwrap()
    }

    #[test]
    fn a_lease_ends_at_its_duration_to_the_nanosecond() {
        let end = at(115);
        let before = end.saturating_sub(Duration::from_nanos(1));
        assert_eq!(leased().state(before), LeaseState::Leased);
        assert_eq!(leased().state(end), LeaseState::Expired);
        assert!(leased().acquire(B, D, before).is_err());
        assert!(leased().acquire(B, D, end).is_ok());
    }

    #[test]
    fn s6_renewing_is_the_proof_that_nobody_leased_since() {
        let taken = leased().acquire(B, D, at(115)).unwrap();
        assert!(taken.renew(A, at(116)).is_err());
        let back = taken.release(B, at(117)).unwrap();
        assert!(back.renew(A, at(118)).is_err());
        assert!(back.acquire(A, D, at(118)).is_ok(), "acquire proves nothing");
    }

    #[test]
    fn s17_a_break_never_lengthens_a_lease() {
        let (breaking, remaining) = leased().break_lease(BreakPeriod::RunOut, at(105)).unwrap();
        assert_eq!(remaining, Duration::from_secs(10));
        assert_eq!(breaking.state(at(114)), LeaseState::Breaking);
        assert_eq!(breaking.state(at(115)), LeaseState::Broken);
        let (broken, remaining) = breaking.break_lease(BreakPeriod::Now, at(106)).unwrap();
        assert_eq!(remaining, Duration::ZERO);
        assert_eq!(broken.state(at(106)), LeaseState::Broken);
        let (again, remaining) = broken.break_lease(BreakPeriod::RunOut, at(107)).unwrap();
        assert_eq!((again, remaining), (broken, Duration::ZERO));
        let (late, remaining) = leased().break_lease(BreakPeriod::Now, at(120)).unwrap();
        assert_eq!((late.state(at(120)), remaining), (LeaseState::Broken, Duration::ZERO));
    }

    #[test]
    fn s22_a_break_of_somebody_else_ends_the_lease_by_its_period() {
        let broken = leased().break_within(Duration::from_secs(5), at(105)).unwrap();
        assert_eq!(broken.state(at(109)), LeaseState::Breaking);
        assert_eq!(broken.state(at(110)), LeaseState::Broken);
        let late = leased().break_within(Duration::from_secs(5), at(113)).unwrap();
        assert_eq!(late.state(at(115)), LeaseState::Broken, "it never lengthens a lease");
        assert!(Lease::AVAILABLE.break_within(Duration::ZERO, at(105)).is_err());
    }

    #[test]
    fn a_write_from_outside_ends_an_expired_lease_only() {
        assert!(leased().after_write_without_lease(at(114)).is_err());
        let written = leased().after_write_without_lease(at(115)).unwrap();
        assert!(written.renew(A, at(116)).is_err());
    }

    #[test]
    fn leases_have_15_to_60_whole_seconds() {
        for millis in [0, 14_999, 15_500, 61_000] {
            let asked = Lease::AVAILABLE.acquire(A, Duration::from_millis(millis), at(1));
            assert!(matches!(asked, Err(StoreError::Fatal { .. })), "{millis}");
        }
        for seconds in [15, 60] {
            assert!(Lease::AVAILABLE.acquire(A, Duration::from_secs(seconds), at(1)).is_ok());
        }
    }
}
