//! The mistakes that the checks of schedules must find: of the coordinator and the adapter, planted between
//! them.

use crate::kit::{Planted, listed};

listed! {
    /// A mistake.
    ///
    /// Of the mistakes that the machine itself can make (a definition taken in while an occurrence is due, a
    /// grace shorter than D, the order of what is decided) none can be planted here: `tests/schedule` has
    /// them. A caller with a clock that is ahead (`LeaseSpec.occurrence_at`) is none of a schedule's
    /// subscribers. A record cannot be written without a lease: the store's trait asks for one. A renewal
    /// that is never sent ends runs early and in order: no rule of schedules is broken by it, and the worlds
    /// of holds judge it (`justice`).
    pub(crate) enum Bug {
        /// A plan that has changed is written over (T3).
        PlanOverwritten,
        /// A plan whose write has no answer is taken for written (T18).
        PlanAssumed,
        /// A plan is read once, and known for ever (T17).
        PlanReadOnce,
        /// A pause is not read (T18).
        PauseUnread,
        /// A start whose write has no answer is taken for written (T6).
        StartAssumed,
        /// An outcome whose write has no answer is taken for written (T8).
        OutcomeAssumed,
        /// An outcome whose write was refused is taken for written (T8).
        RefusalIsSuccess,
        /// An outcome is told as recorded before the store has answered (T8).
        AnsweredBeforeStored,
        /// An outcome of unknown fate is taken for superseded (T8, S27).
        UnknownIsSuperseded,
        /// Leases are had and records written without If-Match (T6, T8).
        ConditionDropped,
        /// What is read of a record is what it said once (T2).
        EarlierRecord,
        /// A renewal of unknown outcome is taken for done: the run goes on when its hold is lost (S2, S21).
        RenewalAssumed,
        /// The machine's clock is taken for the store's (T7).
        OwnClock,
        /// The next instant is computed here, by other zone data (T5).
        NextComputedHere,
        /// Attempts are not stored (T11).
        AttemptsDropped,
        /// What was missed is counted twice (T9).
        MissedTwice,
        /// The watermark is written before the work is done (T5).
        WatermarkBeforeWork,
        /// The deadline is not stored (T12).
        DeadlineDropped,
        /// Records are read many times (T17).
        AskedManyTimes,
        /// It is not read that a schedule was removed (T25).
        RemovalUnread,
        /// The reset number of a plan is read once, and known for ever (T25).
        ResetUnread,
        /// A record from before a reset is taken for one from after it: what is remembered counts (T25).
        ResetRemembered,
    }
}

/// What is counted each time that one acts.
pub(super) const ACTED: &str = "schedules: the planted mistake acted";

impl Bug {
    /// Whether it takes what was not in the worlds when those before it were looked for.
    pub(crate) const fn needs_all(self) -> bool {
        matches!(self, Self::RemovalUnread | Self::ResetUnread | Self::ResetRemembered)
    }
}

impl Planted for Bug {
    const ACTED: Option<&str> = Some(ACTED);

    fn first_seed(self) -> u64 {
        match self {
            Self::PlanOverwritten => 11,
            Self::PlanAssumed => 80,
            Self::RefusalIsSuccess => 68,
            Self::RenewalAssumed => 405,
            Self::UnknownIsSuperseded => 360,
            _ => 0,
        }
    }

    fn rules(self) -> &'static [&'static str] {
        match self {
            Self::PlanOverwritten => &["T3:", "T16:"],
            Self::PlanAssumed | Self::PlanReadOnce => &["T18:"],
            // What it was read as is written as well.
            Self::PauseUnread => &["T3:", "T18:"],
            Self::StartAssumed => &["T6:"],
            Self::OutcomeAssumed
            | Self::RefusalIsSuccess
            | Self::AnsweredBeforeStored
            | Self::UnknownIsSuperseded => &["T8:"],
            Self::ConditionDropped | Self::EarlierRecord => &["T2:", "T8:", "T11:", "T21:"],
            Self::RenewalAssumed => &["S1:"],
            Self::OwnClock => &["T7:"],
            Self::NextComputedHere | Self::WatermarkBeforeWork => &["T5:"],
            Self::AttemptsDropped => &["T11:"],
            Self::MissedTwice => &["T9:"],
            Self::DeadlineDropped => &["T12:"],
            Self::AskedManyTimes => &["S12:", "T17:"],
            // What it was read as is written as well.
            Self::RemovalUnread | Self::ResetUnread | Self::ResetRemembered => &["T25:", "T25,"],
        }
    }
}
