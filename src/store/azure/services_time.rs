//! What is signed with a time is signed by the clock of the service that judges it, where this machine's is
//! wrong (S3).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::time::{Clock, UnixMillis};

/// The wall clock, set right by what a service has said of its own.
#[derive(Debug)]
pub(super) struct ServicesTime {
    clock: Arc<dyn Clock>,
    /// Milliseconds by which the service's clock is ahead of the wall clock; zero while they agree.
    ahead: AtomicI64,
}

/// The clocks must differ by more than this to be corrected. The service takes 15 minutes.
const TOLERATED_MILLIS: i64 = 60_000;

impl ServicesTime {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, ahead: AtomicI64::new(0) }
    }

    pub(super) fn now(&self) -> UnixMillis {
        let now = millis(self.clock.wall()).saturating_add(self.ahead.load(Ordering::Relaxed));
        UnixMillis(u64::try_from(now).unwrap_or_default())
    }

    /// Corrects the time after a refusal of this date, whichever way: the wall clock may have been set right
    /// meanwhile. By how many seconds, if that is news.
    pub(super) fn learn(&self, date: UnixMillis) -> Option<i64> {
        let ahead = millis(date).saturating_sub(millis(self.clock.wall()));
        let ahead = if ahead.saturating_abs() > TOLERATED_MILLIS { ahead } else { 0 };
        let is_news = self.ahead.swap(ahead, Ordering::Relaxed) != ahead && ahead != 0;
        is_news.then_some(ahead / 1_000)
    }
}

fn millis(time: UnixMillis) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}
