//! Until when a client may act (S21). Pure: readings of the clock are arguments.

use std::time::Duration;

use crate::boot_clock::BootInstant;
use crate::messages::duration;
use crate::proto::{BootTime, Deadline, Validity};

/// How much of a promised validity is worth a question: a tenth.
const WORTH_ASKING: u32 = 10;

/// The validity as this client counts it on its own clock, and from which message.
#[derive(Debug)]
pub(crate) struct LocalValidity {
    until: BootInstant,
    /// The moment from which `until` was counted: an older message than the newest one changes nothing.
    as_of: BootInstant,
    /// The sidecar's own words, for a resume (S16).
    told: Option<BootTime>,
    /// Whether the sidecar's boot clock is ours.
    same_kernel: bool,
    /// When the sidecar last told of a validity that is noticeably longer, and cannot be counted before it is
    /// asked.
    longer_heard: Option<BootInstant>,
}

/// A validity on our clock.
struct Reading {
    until: BootInstant,
    as_of: BootInstant,
    same_kernel: bool,
}

impl LocalValidity {
    /// None yet: it ended at boot.
    pub(crate) const fn none() -> Self {
        Self {
            until: BootInstant::from_boot(Duration::ZERO),
            as_of: BootInstant::from_boot(Duration::ZERO),
            told: None,
            same_kernel: false,
            longer_heard: None,
        }
    }

    /// The end of validity. Past it the hold is lost.
    pub(crate) const fn until(&self) -> BootInstant {
        self.until
    }

    /// The latest validity told, in the sidecar's words.
    pub(crate) const fn told(&self) -> Option<&BootTime> {
        self.told.as_ref()
    }

    /// When the sidecar should be asked next for the validity: at once when it has told of one that cannot be
    /// counted here, which it does at each renewal, and else when half of this one is over. `None` where its
    /// words are enough, because its boot clock is ours.
    pub(crate) fn next_question(&self) -> Option<BootInstant> {
        let half = self.until.saturating_since(self.as_of) / 2;
        (!self.same_kernel).then(|| self.longer_heard.unwrap_or(self.as_of + half))
    }

    /// Takes in a validity that was read at `now`, in an answer to a request sent at `sent` if there was one.
    /// Whether the old one still counts is for the caller to check before.
    pub(crate) fn take_in(
        &mut self,
        validity: &Validity,
        sent: Option<BootInstant>,
        now: BootInstant,
        boot_id: &str,
    ) {
        let Some(reading) = read(validity, sent, now, boot_id) else {
            // Said, though it cannot be counted here: the sidecar keeps to it.
            self.told = validity.valid_until.clone();
            let valid_for = duration(validity.valid_for.as_ref());
            if now + valid_for > self.until + valid_for / WORTH_ASKING {
                self.longer_heard = Some(now);
            }
            return;
        };
        if reading.as_of >= self.as_of {
            // An answer to a question from before says nothing of what was told since.
            let answered = |heard: &BootInstant| reading.same_kernel || reading.as_of >= *heard;
            self.longer_heard = self.longer_heard.filter(|heard| !answered(heard));
            self.until = reading.until;
            self.as_of = reading.as_of;
            self.same_kernel = reading.same_kernel;
            self.told = validity.valid_until.clone();
        }
    }
}

/// A moment that the sidecar told, as this client counts it on its own clock.
#[derive(Debug, Default)]
pub(crate) struct LocalDeadline {
    at: Option<BootInstant>,
    /// As in [`LocalValidity`].
    as_of: BootInstant,
}

impl LocalDeadline {
    /// The moment; `None` if none was told that can be counted.
    pub(crate) const fn at(&self) -> Option<BootInstant> {
        self.at
    }

    /// Takes in a moment as [`LocalValidity::take_in`] takes in an end of validity. An absent one changes
    /// nothing.
    pub(crate) fn take_in(
        &mut self,
        deadline: Option<&Deadline>,
        sent: Option<BootInstant>,
        now: BootInstant,
        boot_id: &str,
    ) {
        let Some(Deadline { at, after }) = deadline else { return };
        let told = Validity { valid_until: at.clone(), valid_for: *after };
        if let Some(reading) = read(&told, sent, now, boot_id)
            && reading.as_of >= self.as_of
        {
            (self.at, self.as_of) = (Some(reading.until), reading.as_of);
        }
    }
}

/// What `validity` means on our clock; `None` if nothing can be counted from it.
fn read(
    validity: &Validity,
    sent: Option<BootInstant>,
    now: BootInstant,
    boot_id: &str,
) -> Option<Reading> {
    let valid_for = duration(validity.valid_for.as_ref());
    if let Some(told) = &validity.valid_until
        && !boot_id.is_empty()
        && told.boot_id == boot_id
    {
        let until = BootInstant::from_boot(duration(told.since_boot.as_ref()));
        let made = BootInstant::from_boot(until.since_boot().saturating_sub(valid_for));
        // A message made after it was read, or before it was asked for, was made by another clock after all:
        // time namespaces shift the boot clock and keep the boot id.
        if made <= now && sent.is_none_or(|sent| sent <= made) {
            return Some(Reading { until, as_of: made, same_kernel: true });
        }
    }
    sent.map(|sent| Reading { until: sent + valid_for, as_of: sent, same_kernel: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{OURS, seconds, validity};

    const fn at(seconds: u64) -> BootInstant {
        BootInstant::from_boot(Duration::from_secs(seconds))
    }

    #[test]
    fn s21_an_unknown_boot_id_is_not_ours() {
        let mut told = validity(158, 58);
        told.valid_until.as_mut().unwrap().boot_id.clear();
        let mut local = LocalValidity::none();
        local.take_in(&told, Some(at(99)), at(100), "");
        assert_eq!(local.next_question(), Some(at(99) + seconds(29)));
    }

    #[test]
    fn nonsense_ends_the_validity() {
        let valid_for = Some(prost_types::Duration { seconds: -5, nanos: 0 });
        let mut local = LocalValidity::none();
        let nonsense = Validity { valid_until: None, valid_for };
        local.take_in(&nonsense, Some(at(100)), at(101), OURS);
        assert_eq!(local.until(), at(100));
    }

    #[test]
    fn s21_an_older_deadline_that_comes_later_changes_nothing_and_none_says_nothing() {
        let told = |told: Validity| Deadline { at: told.valid_until, after: told.valid_for };
        let mut local = LocalDeadline::default();
        local.take_in(None, Some(at(99)), at(100), OURS);
        assert_eq!(local.at(), None);
        local.take_in(Some(&told(validity(760, 600))), Some(at(160)), at(170), OURS);
        local.take_in(Some(&told(validity(700, 600))), Some(at(99)), at(171), OURS);
        assert_eq!(local.at(), Some(at(760)));
    }
}
