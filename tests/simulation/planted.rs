//! The mistakes that the checks must find: a check that finds none of these proves nothing. `machine.rs`
//! makes them.

use crate::kit::{Planted, listed};

listed! {
    /// A mistake that somebody could make.
    pub(crate) enum Bug {
        /// Validity is counted from when the answer came (S2).
        CountsFromAnswer,
        /// Validity has no margin (S2).
        NoMargin,
        /// A renewal is taken to be good before it is answered (S2).
        AssumesRenewed,
        /// An answer is taken for that of the newest request (S2).
        MatchesNewestSend,
        /// The clock stands still while the machine is frozen (S3).
        ClockStopsInSuspend,
        /// All sidecars propose the same lease ids (S6).
        SharedLeaseId,
        /// A sidecar proposes the same lease id again and again (S6).
        ReusedLeaseId,
        /// The token is read, and not stored before the grant (S5).
        TokenNotStored,
        /// A hold is proved by another acquire (S6).
        AcquiresToRenew,
        /// A client believes until its release is answered (S13).
        BelievesUntilReleased,
        /// A renewal that succeeds after the loss revives the hold (S4).
        LateRenewalRevives,
        /// A break ends the lease at once though nobody said so (S17).
        BreakNowByDefault,
        /// Who is handed the lock gets its predecessor's token (S5).
        SameTokenOnHandOff,
        /// A waiter is forgotten (S12).
        ForgetsWaiter,
        /// A stream that broke is taken for one that its client closed (S13, S14).
        SilenceIsLeaving,
        /// A client counts from when it reads a message (S21).
        CountsFromReading,
        /// A step of the wall clock is added to the time (S3, S13).
        AddsWallSteps,
        /// A suspicion ends a hold (S3).
        SuspicionIsLoss,
        /// A suspicion is not acted on (S3).
        SuspicionIgnored,
        /// The clocks are looked at after the event, and not before (S3).
        LooksAfterwards,
        /// A lease is granted that was sent for before a suspicion (S3).
        GrantsUnproven,
        /// A lease is handed on that was renewed before a suspicion (S3).
        HandsOnUnproven,
        /// A call is taken for one of the generation that is had here, whatever it carries (S16).
        IgnoresGeneration,
        /// The generation is not written with the record (S16).
        GenerationNotStored,
        /// A renewal goes by the lease alone (S16).
        RenewsWithoutMatch,
        /// A record is written over whatever version it has (S5, S16).
        WritesWithoutMatch,
        /// A release at the sidecar that the hold has left hands the lock on (S16).
        LeftHandsOn,
        /// A cancel hands the lock on without asking the store (S13, S16).
        CancelHandsOn,
        /// A cancel ends a hold that was resumed a moment ago (S16).
        CancelEndsResumed,
        /// The lock is handed on while the validity that a silent holder was told still runs (S13).
        SilenceHandsOn,
        /// The lease of a silent holder is renewed on and on (S14).
        SilentIsRenewed,
        /// A resume token keeps the bounds of the grant (S16).
        OldResumeToken,
        /// A token that cannot be read is taken for none (S5).
        UnreadableIsNone,
        /// Epochs are seconds (S5).
        EpochInSeconds,
        /// A write whose outcome is unknown is taken to be done (S5, S13).
        UnknownIsStored,
        /// A refusal by policy is taken for a lost lease (S8).
        RefusalIsLoss,
        /// The first release of a lease that was another's is told as a release (S13).
        TakenIsReleased,
        /// A release that the store has not confirmed is told as released (S13).
        UnconfirmedIsReleased,
        /// Nobody stands back who has nobody queued (S10).
        NoStandBackAlone,
        /// The mark of a lock that is handed on does not age (S10).
        MarkNeverAges,
        /// A rest lasts until the store's clock says so, whatever was asked for (S11).
        RestByStoreClock,
        /// What is left to the replacement is released (S13, S15).
        HandOverReleases,
        /// Who is to resume at the replacement is told that it has lost (S15).
        HandOverTellsLost,
        /// Holds are left to the replacement without another renewal (S15).
        HandOverWithoutRenewal,
        /// A call that is repeated is taken for another (S12).
        RepeatIsAnother,
        /// A call that is repeated while it waits goes to the end of the queue (S12).
        RepeatDropsPlace,
        /// A call that is repeated while it holds is not answered (S12).
        RepeatUnanswered,
        /// A call that is repeated while it waits is answered by nobody once its first connection is gone
        /// (S12).
        CutTakesRepeat,
        /// A save is written over whatever version the record has (S24).
        SaveWithoutMatch,
        /// A save of unknown outcome is taken for one that was not done, and the lock is handed on (S13,
        /// S27).
        UnknownSaveHandedOn,
        /// A save of unknown outcome is taken for one that was done (S27).
        UnknownSaveIsStored,
        /// A grant carries the checkpoint from before the lock was acquired (S25).
        CheckpointBeforeAcquire,
        /// A hand-off passes the checkpoint that its predecessor was granted (S25).
        StaleHandOff,
        /// The lease goes back before the last save was answered (S26).
        ReleaseBeforeSave,
        /// A save that a newer one replaces is not answered (S26).
        ForgetsReplacedSave,
        /// A broken lease is taken to run out though there is no note (S22).
        NoticeWithoutNote,
        /// A note about an earlier grant is taken for one about this one (S22, S36).
        OldNoteBelieved,
        /// A lease that runs out is renewed (S22).
        RenewsAfterNotice,
        /// A lease that runs out is not looked at any more (S22).
        NoticeUnwatched,
        /// A break ends whatever lease it meets (S17).
        BreaksWithoutMatch,
        /// A break that meets a changed record is tried again, whosever that is (S17).
        BreaksWhatChanged,
        /// A sidecar is not told that a break is under way from it (S17).
        BreakIsNotSaid,
        /// A break of unknown outcome is over once a renewal was answered, though it may arrive yet (S17).
        LateBreakForgotten,
        /// A hold that was handed on is never written to the record (S10).
        HandOffNotRecorded,
        /// A resume goes by the epoch of its token alone (S16).
        ResumesByEpoch,
        /// A renewal that waits for its turn is taken for a try that failed (S7).
        WaitIsFailure,
        /// A renewal whose turn has come is not sent (S7).
        TurnForgotten,
        /// Who is turned away under the lease is granted the lock (T2, T6).
        TurnedAwayIsGranted,
        /// It is decided over the record as it was when that was asked first (T6).
        DecidedOverOldRecord,
        /// What is decided of a save is told as written, and is not (T8).
        OutcomeNotWritten,
        /// Who was to be granted its occurrence, and was not, counts that as an attempt of another's (T6).
        CountsItsOwnStart,
    }
}

/// Where a bug is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hunt {
    /// In schedules that chance makes.
    Chance,
    /// In the long ones (`long.rs`).
    Long,
}

impl Bug {
    pub(crate) const fn hunt(self) -> Hunt {
        match self {
            Self::NoStandBackAlone
            | Self::EpochInSeconds
            | Self::SuspicionIgnored
            | Self::HandOffNotRecorded
            | Self::BreakIsNotSaid
            | Self::LateBreakForgotten
            | Self::LooksAfterwards
            | Self::HandsOnUnproven
            | Self::MarkNeverAges => Hunt::Long,
            _ => Hunt::Chance,
        }
    }
}

impl Planted for Bug {
    fn first_seed(self) -> u64 {
        match self {
            Self::TakenIsReleased => 245,
            Self::OldResumeToken => 1_220,
            Self::ResumesByEpoch => 1_540,
            Self::UnknownSaveHandedOn => 2_440,
            _ => 0,
        }
    }
}
