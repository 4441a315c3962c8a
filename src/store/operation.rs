//! What can be asked of a store, by name.

/// Makes [`Operation`] of its rows.
macro_rules! operations {
    ($($variant:ident => $name:literal,)+) => {
        /// What can be asked of a [`LeaseStore`](super::LeaseStore), by name:
        /// [`StoreRequest::operation`](super::StoreRequest::operation).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Operation {
            $(
                #[doc = concat!("Named `", $name, "` in metrics.")]
                $variant,
            )+
        }

        impl Operation {
            /// Every operation, in the order of their names here.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// A stable name, for metrics.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

operations! {
    Acquire => "acquire",
    Renew => "renew",
    Release => "release",
    BreakLease => "break_lease",
    WriteRecord => "write_record",
    ReadRecord => "read_record",
    ReadBreakNote => "read_break_note",
    ReadPlan => "read_plan",
    WritePlan => "write_plan",
    DeletePlan => "delete_plan",
    ReadTimer => "read_timer",
    WriteTimer => "write_timer",
    List => "list",
    Delete => "delete",
    Check => "check",
}
