//! The statuses of .NET timers (T22).

use super::locks::MemoryLocks;
use crate::lock::{ETag, MAX_TIMER_STATUS_BYTES, TimerPath};
use crate::store::timer::check_status;
use crate::store::{StoreError, StoreTime, StoredTimer, TimerRead, TimerWritten};

/// The operations on timers of [`LeaseStore`](crate::store::LeaseStore), with its contract and its errors.
impl MemoryLocks {
    /// The status of a timer, if there is one.
    #[must_use]
    pub fn read_timer(&self, timer: &TimerPath, time: StoreTime) -> TimerRead {
        let status = self.timers.get(timer).cloned().map(|mut status| {
            status.text = status.text.chars().take(MAX_TIMER_STATUS_BYTES + 1).collect();
            status
        });
        TimerRead { status, time }
    }

    /// Writes the status of a timer: in place of the one with this ETag, or as the first.
    ///
    /// # Errors
    /// `Changed`, `ContainerMissing`; `Fatal` for a text that is too long.
    pub fn write_timer(
        &mut self,
        timer: &TimerPath,
        text: String,
        if_match: Option<&ETag>,
        time: StoreTime,
    ) -> Result<TimerWritten, StoreError> {
        check_status(&text)?;
        if if_match.is_none() {
            self.check_container(timer.container.as_str())?;
        }
        if self.timers.get(timer).map(|status| &status.etag) != if_match {
            return Err(StoreError::Changed);
        }
        let etag = self.overwrite_timer(timer, text);
        Ok(TimerWritten { etag, time })
    }

    /// Writes the status of a timer as a host of .NET does: over whatever is there.
    pub fn overwrite_timer(&mut self, timer: &TimerPath, text: String) -> ETag {
        let etag = self.next_etag();
        self.timers.insert(timer.clone(), StoredTimer { etag: etag.clone(), text });
        etag
    }
}
