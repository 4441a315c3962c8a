//! Mistakes that somebody who runs the machine could make. The simulator must find each.

use crate::kit::{Planted, listed};

listed! {
    pub(crate) enum Bug {
        /// A new definition is taken in while an occurrence of the old one is due (T16).
        DefinitionWhileDue,
        /// A save of unknown outcome is taken for superseded (T8).
        UnknownIsSuperseded,
        /// The watermark is written before the work (T2).
        WatermarkBeforeWork,
        /// A sidecar with other zone data computes `next` by itself (T5).
        NextComputedLocally,
        /// A late completion acquires without If-Match (T8).
        CompletionWithoutIfMatch,
        /// A sidecar judges what is due by its own clock (T7).
        EarlyGrant,
        /// The start does not store the attempt (T6, T11).
        AttemptNotStored,
        /// What was missed is counted at the look and at the start (T9).
        MissedCountedTwice,
        /// A run is granted although its record was not written (T6).
        GrantBeforeWrite,
        /// A write is not bound to the lease and the version (T6).
        WriteWithoutLease,
        /// A completion counts for whichever run stands there (T8).
        CompletionOfAnother,
        /// A record that somebody else wrote during the acquisition is not read again (T6).
        AcquireWithoutIfMatch,
    }
}

impl Planted for Bug {}
