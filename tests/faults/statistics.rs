//! How often each thing occurred, so that silence is not taken for safety.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts by name, shared by all who count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statistics(Arc<Mutex<BTreeMap<String, u64>>>);

impl Statistics {
    pub(crate) fn count(&self, what: &str) {
        self.add(what, 1);
    }

    pub(crate) fn add(&self, what: &str, times: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(what.to_owned()).or_default() += times;
    }

    /// The sum of all whose name begins so.
    pub(crate) fn sum(&self, prefix: &str) -> u64 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, count)| count).sum()
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().try_for_each(|(name, count)| writeln!(formatter, "{count:>12}  {name}"))
    }
}
