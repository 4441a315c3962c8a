//! Schedules that found something, and what must occur in a run.

/// A schedule that failed once.
pub(crate) struct Found {
    pub(crate) seed: u64,
    /// Its faults, as a failing run prints them; all if empty.
    pub(crate) faults: &'static str,
    /// What was wrong.
    pub(crate) what: &'static str,
}

/// None of these may fail again.
pub(crate) const FOUND: &[Found] = &[];

/// A run in which one of these does not occur proves less than it seems to.
pub(crate) const MUST_OCCUR: &[&str] = &[];
