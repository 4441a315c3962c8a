//! What can be asked of a store, by name: for whoever counts it.

/// What can be asked of a [`LeaseStore`](super::LeaseStore).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// [`LeaseStore::acquire`](super::LeaseStore::acquire)
    Acquire,
    /// [`LeaseStore::renew`](super::LeaseStore::renew)
    Renew,
    /// [`LeaseStore::release`](super::LeaseStore::release)
    Release,
    /// [`LeaseStore::break_lease`](super::LeaseStore::break_lease)
    BreakLease,
    /// [`LeaseStore::write_record`](super::LeaseStore::write_record)
    WriteRecord,
    /// [`LeaseStore::read_record`](super::LeaseStore::read_record)
    ReadRecord,
    /// [`LeaseStore::read_break_note`](super::LeaseStore::read_break_note)
    ReadBreakNote,
    /// [`LeaseStore::read_plan`](super::LeaseStore::read_plan)
    ReadPlan,
    /// [`LeaseStore::write_plan`](super::LeaseStore::write_plan)
    WritePlan,
    /// [`LeaseStore::delete_plan`](super::LeaseStore::delete_plan)
    DeletePlan,
    /// [`LeaseStore::read_timer`](super::LeaseStore::read_timer)
    ReadTimer,
    /// [`LeaseStore::write_timer`](super::LeaseStore::write_timer)
    WriteTimer,
    /// [`LeaseStore::list`](super::LeaseStore::list), and
    /// [`LeaseStore::list_plans`](super::LeaseStore::list_plans)
    List,
    /// [`LeaseStore::delete`](super::LeaseStore::delete)
    Delete,
    /// [`LeaseStore::check`](super::LeaseStore::check)
    Check,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 15] = [
        Self::Acquire,
        Self::Renew,
        Self::Release,
        Self::BreakLease,
        Self::WriteRecord,
        Self::ReadRecord,
        Self::ReadBreakNote,
        Self::ReadPlan,
        Self::WritePlan,
        Self::DeletePlan,
        Self::ReadTimer,
        Self::WriteTimer,
        Self::List,
        Self::Delete,
        Self::Check,
    ];

    /// A stable name, for metrics: the method's.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::BreakLease => "break_lease",
            Self::WriteRecord => "write_record",
            Self::ReadRecord => "read_record",
            Self::ReadBreakNote => "read_break_note",
            Self::ReadPlan => "read_plan",
            Self::WritePlan => "write_plan",
            Self::DeletePlan => "delete_plan",
            Self::ReadTimer => "read_timer",
            Self::WriteTimer => "write_timer",
            Self::List => "list",
            Self::Delete => "delete",
            Self::Check => "check",
        }
    }
}
