//! What is written in a record beside what locks need is decided over the record as it is then, under the
//! lease (T6, T8): over which, and what that can come to.

use std::time::Duration;

use super::fields::Fields;
use crate::lock::FencingToken;
use crate::time::UnixMillis;

/// A record as it was found under the lease, over which it is decided what is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// All its fields, ours and others'.
    pub fields: Fields,
    /// The token that is written beside what is decided; during a hold, its own.
    pub token: FencingToken,
    /// What the store's clock has surely reached (T7).
    pub store_time: UnixMillis,
}

/// What was decided over a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The caller is granted the lock, once this is written with the token. During a hold, as `Write`.
    Grant {
        /// All fields of the record; the grant's own are put over them.
        fields: Fields,
        /// The longest hold, instead of the one that the caller asked for (S11, T12).
        max_hold: Option<Duration>,
    },
    /// This is written; nobody is granted the lock for it.
    Write {
        /// All fields of the record; the grant's own are put over them.
        fields: Fields,
    },
    /// Nothing is written, and nobody is granted the lock: it stands there already, or must not.
    Nothing,
}

impl Verdict {
    /// All fields to write, if there is something to write.
    #[must_use]
    pub fn into_fields(self) -> Option<Fields> {
        match self {
            Self::Grant { fields, .. } | Self::Write { fields } => Some(fields),
            Self::Nothing => None,
        }
    }
}
