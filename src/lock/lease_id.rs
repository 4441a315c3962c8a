//! Lease ids: they are capabilities, so they are shown only on request.

use std::fmt;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::encoding::hex;

/// The id of one storage lease, or of one hold on the wire: who knows it can release it (S6, S13).
///
/// `Debug` shows the fingerprint only (S20). To get the id itself, use [`LeaseId::as_uuid`] or `Display`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(Uuid);

/// What may be shown and stored of a lease id: enough to know one's own, too little to use it.
pub type LeaseFingerprint = String;

impl LeaseId {
    /// The id with this value. It must come from the system's randomness, and be used for one acquisition
    /// only (S6).
    #[must_use]
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// Reads an id in any of the UUID notations; `None` if it is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self)
    }

    /// The id itself.
    #[must_use]
    pub const fn as_uuid(&self) -> Uuid {
        self.0
    }

    /// 16 hex digits of the id's SHA-256: stored with the lock, to know a write of one's own (S5).
    #[must_use]
    pub fn fingerprint(&self) -> LeaseFingerprint {
        hex(Sha256::digest(self.0.as_bytes()).get(..8).unwrap_or_default())
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(formatter)
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "LeaseId(#{})", self.fingerprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s20_debug_does_not_show_the_id() {
        let id = LeaseId::from_uuid(Uuid::from_u128(7));
        let shown = format!("{id:?}");
        assert!(!shown.contains(&id.to_string()), "{shown}");
        assert!(!shown.contains(&id.as_uuid().simple().to_string()), "{shown}");
    }

    #[test]
    fn s5_a_fingerprint_is_the_beginning_of_the_ids_sha_256() {
        let id = LeaseId::from_uuid(Uuid::from_u128(7));
        assert_eq!(id.fingerprint(), "6bae426822df52ca");
        assert_eq!(format!("{id:?}"), "LeaseId(#6bae426822df52ca)");
    }

    #[test]
    fn ids_are_written_in_lower_case_with_hyphens() {
        let id = LeaseId::parse("ABCDEF01-0000-4000-8000-00000000000A").unwrap();
        assert_eq!(id.to_string(), "abcdef01-0000-4000-8000-00000000000a");
        assert_eq!(id, LeaseId::from_uuid(id.as_uuid()));
        assert_eq!(LeaseId::parse("locked"), None);
    }
}
