//! The contract as data: what is asked of a store, and what it answers. A wrapper passes both on whole, and
//! so forgets none.

use super::{
    Acquire, Acquired, BreakNote, DocumentPath, DocumentRead, DocumentWritten, ETag, LeaseBroken,
    List, Listing, Operation, PlanListing, Renewed, StoreError, StoreTime, StoredLock, Write,
    Written,
};
use crate::lock::{Container, LeaseId, LockPath};

/// What is asked of a [`LeaseStore`](super::LeaseStore): each is a method of
/// [`LeaseStoreExt`](super::LeaseStoreExt), which says what it does.
#[derive(Clone, Debug)]
pub enum StoreRequest {
    /// [`LeaseStoreExt::acquire`](super::LeaseStoreExt::acquire)
    Acquire(LockPath, Acquire),
    /// [`LeaseStoreExt::renew`](super::LeaseStoreExt::renew)
    Renew {
        /// The lock whose lease it is.
        path: LockPath,
        /// The lease to renew.
        lease_id: LeaseId,
        /// Only if the record still has this ETag.
        if_match: Option<ETag>,
    },
    /// [`LeaseStoreExt::release`](super::LeaseStoreExt::release)
    Release {
        /// The lock whose lease it is.
        path: LockPath,
        /// The lease to give back.
        lease_id: LeaseId,
        /// Only if the record still has this ETag.
        if_match: Option<ETag>,
    },
    /// [`LeaseStoreExt::break_lease`](super::LeaseStoreExt::break_lease)
    BreakLease {
        /// The lock whose lease is broken.
        path: LockPath,
        /// How its lease ends, and why.
        note: BreakNote,
        /// Only if the record still has this ETag, or names the token of the note.
        if_match: ETag,
    },
    /// [`LeaseStoreExt::write_record`](super::LeaseStoreExt::write_record)
    WriteRecord(LockPath, Write),
    /// [`LeaseStoreExt::read_record`](super::LeaseStoreExt::read_record)
    ReadRecord(LockPath),
    /// [`LeaseStoreExt::read_break_note`](super::LeaseStoreExt::read_break_note)
    ReadBreakNote(LockPath),
    /// [`LeaseStoreExt::read_document`](super::LeaseStoreExt::read_document)
    ReadDocument(DocumentPath),
    /// [`LeaseStoreExt::write_document`](super::LeaseStoreExt::write_document)
    WriteDocument {
        /// Which document is written.
        document: DocumentPath,
        /// Its new text.
        text: String,
        /// In place of the one that has this ETag; without it, only if there is none yet.
        if_match: Option<ETag>,
    },
    /// [`LeaseStoreExt::delete_plan`](super::LeaseStoreExt::delete_plan)
    DeletePlan {
        /// The lock of the schedule.
        path: LockPath,
        /// Only if the plan still has this ETag.
        if_match: ETag,
    },
    /// [`LeaseStoreExt::list_plans`](super::LeaseStoreExt::list_plans)
    ListPlans(List),
    /// [`LeaseStoreExt::list`](super::LeaseStoreExt::list)
    List(List),
    /// [`LeaseStoreExt::delete`](super::LeaseStoreExt::delete)
    Delete {
        /// The lock to delete.
        path: LockPath,
        /// Only if the record still has this ETag.
        if_match: ETag,
    },
    /// [`LeaseStoreExt::check`](super::LeaseStoreExt::check)
    Check(Container),
}

impl StoreRequest {
    /// What is asked, by name: for whoever counts it.
    #[must_use]
    pub const fn operation(&self) -> Operation {
        match self {
            Self::Acquire(..) => Operation::Acquire,
            Self::Renew { .. } => Operation::Renew,
            Self::Release { .. } => Operation::Release,
            Self::BreakLease { .. } => Operation::BreakLease,
            Self::WriteRecord(..) => Operation::WriteRecord,
            Self::ReadRecord(_) => Operation::ReadRecord,
            Self::ReadBreakNote(_) => Operation::ReadBreakNote,
            Self::ReadDocument(DocumentPath::Plan(_)) => Operation::ReadPlan,
            Self::ReadDocument(DocumentPath::TimerStatus(_)) => Operation::ReadTimer,
            Self::WriteDocument { document: DocumentPath::Plan(_), .. } => Operation::WritePlan,
            Self::WriteDocument { document: DocumentPath::TimerStatus(_), .. } => {
                Operation::WriteTimer
            }
            Self::DeletePlan { .. } => Operation::DeletePlan,
            Self::ListPlans(_) | Self::List(_) => Operation::List,
            Self::Delete { .. } => Operation::Delete,
            Self::Check(_) => Operation::Check,
        }
    }
}

/// Makes [`StoreAnswer`], which each kind of answer becomes and can be taken from again.
macro_rules! answers {
    ($($(#[$doc:meta])+ $variant:ident($answer:ty),)+) => {
        /// What a [`LeaseStore`](super::LeaseStore) answers; which of them, its request says.
        #[derive(Clone, Debug)]
        pub enum StoreAnswer {
            $($(#[$doc])+ $variant($answer),)+
        }

        $(
            impl From<$answer> for StoreAnswer {
                fn from(answer: $answer) -> Self {
                    Self::$variant(answer)
                }
            }

            impl TryFrom<StoreAnswer> for $answer {
                type Error = StoreError;

                fn try_from(answer: StoreAnswer) -> Result<Self, StoreError> {
                    let StoreAnswer::$variant(answer) = answer else {
                        return Err(not_asked());
                    };
                    Ok(answer)
                }
            }
        )+
    };
}

answers! {
    /// To [`StoreRequest::Acquire`].
    Acquired(Acquired),
    /// To [`StoreRequest::Renew`].
    Renewed(Renewed),
    /// To [`StoreRequest::BreakLease`].
    LeaseBroken(LeaseBroken),
    /// To [`StoreRequest::WriteRecord`].
    Written(Written),
    /// To [`StoreRequest::ReadRecord`].
    Lock(StoredLock),
    /// To [`StoreRequest::ReadBreakNote`].
    BreakNote(Option<BreakNote>),
    /// To [`StoreRequest::ReadDocument`].
    Document(DocumentRead),
    /// To [`StoreRequest::WriteDocument`].
    DocumentWritten(DocumentWritten),
    /// To [`StoreRequest::ListPlans`].
    Plans(PlanListing),
    /// To [`StoreRequest::List`].
    Locks(Listing),
    /// To [`StoreRequest::Check`].
    Time(StoreTime),
    /// To [`StoreRequest::Release`], [`StoreRequest::DeletePlan`] and [`StoreRequest::Delete`].
    Done(()),
}

/// What a caller is told of a store that answers another question than was asked.
fn not_asked() -> StoreError {
    StoreError::Fatal {
        advice: "report this as a bug of Leasehold".to_owned(),
        source: "the store answered what was not asked".into(),
    }
}
