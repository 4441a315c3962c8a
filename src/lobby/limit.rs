//! The limits by which calls are refused.

/// A limit, which is in the answer to a call that was refused because of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Connections,
    Holds,
    Memory,
    Resumes,
    Waiters,
    Watchers,
}

impl Limit {
    pub(crate) const ALL: [Self; 6] = [
        Self::Connections,
        Self::Holds,
        Self::Memory,
        Self::Resumes,
        Self::Waiters,
        Self::Watchers,
    ];

    /// A stable name, for metrics.
    pub(crate) fn as_str(self) -> &'static str {
        let setting = self.setting();
        setting.rsplit_once('.').map_or(setting, |(_, name)| name)
    }

    /// The setting that it has.
    pub(crate) const fn setting(self) -> &'static str {
        match self {
            Self::Connections => "limits.connections",
            Self::Holds => "limits.holds",
            Self::Memory => "limits.memory",
            Self::Resumes => "limits.resumes",
            Self::Waiters => "limits.waiters",
            Self::Watchers => "limits.watchers",
        }
    }

    /// The one that has this setting.
    pub(crate) fn of_setting(setting: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.setting() == setting)
    }
}
