//! A small value stored with a lock: where the next holder goes on from (S23).

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::fields::Fields;
use crate::lock::FencingToken;
use crate::time::UnixMillis;

/// The greatest size of a checkpoint's value, in bytes (S23).
pub const MAX_CHECKPOINT_BYTES: usize = 2_048;

/// The record's field that has the checkpoint: version, token and time of the save, and the value, with dots
/// in between.
const FIELD: &str = "leasehold_checkpoint";

/// The value of a checkpoint: at most [`MAX_CHECKPOINT_BYTES`], opaque. Its `Debug` shows the size only: what
/// people save is nothing for logs.
#[derive(Clone, PartialEq, Eq)]
pub struct CheckpointValue(Arc<[u8]>);

/// A value that is too long for a checkpoint (S19).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the value has {size} bytes; at most {MAX_CHECKPOINT_BYTES} are allowed: store it elsewhere, and its address here"
)]
pub struct CheckpointTooLong {
    /// How many bytes it has.
    pub size: usize,
}

impl CheckpointValue {
    /// Checks the size; an empty value is one too.
    ///
    /// # Errors
    /// When it has more than [`MAX_CHECKPOINT_BYTES`].
    pub fn new(value: &[u8]) -> Result<Self, CheckpointTooLong> {
        let size = value.len();
        if size > MAX_CHECKPOINT_BYTES {
            Err(CheckpointTooLong { size })
        } else {
            Ok(Self(value.into()))
        }
    }

    /// The bytes of the value.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for CheckpointValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CheckpointValue({} bytes)", self.0.len())
    }
}

/// A lock's checkpoint, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// What was saved.
    pub value: CheckpointValue,
    /// Grows with each save, also when the lock was deleted and made again; below 2^53, as tokens are (S23).
    pub version: u64,
    /// The token of the holder that saved it.
    pub token: FencingToken,
    /// When, by the store's clock.
    pub saved_at: UnixMillis,
}

impl Checkpoint {
    /// The version of a save by the holder with `token`, after a checkpoint of version `previous` (S23).
    #[must_use]
    pub fn next_version(previous: Option<u64>, token: FencingToken) -> u64 {
        previous.map_or(0, |previous| previous.saturating_add(1)).max(token.value())
    }

    /// As it stands in the record.
    fn to_field(&self) -> String {
        let value = URL_SAFE_NO_PAD.encode(self.value.as_bytes());
        format!("{}.{}.{}.{value}", self.version, self.token, self.saved_at.0)
    }

    /// The checkpoint that [`Checkpoint::to_field`] wrote; none if that cannot be read.
    fn from_field(field: &str) -> Option<Self> {
        let mut parts = field.splitn(4, '.');
        let mut number = || parts.next()?.parse::<u64>().ok();
        let (version, token, saved_at) = (number()?, number()?, number()?);
        let value = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?;
        Some(Self {
            value: CheckpointValue::new(&value).ok()?,
            version,
            token: FencingToken::from_u64(token)?,
            saved_at: UnixMillis(saved_at),
        })
    }

    /// Writes this checkpoint over the one in `fields`.
    #[must_use]
    pub fn into_fields(self, mut fields: Fields) -> Fields {
        fields.insert(FIELD.to_owned(), self.to_field());
        fields
    }

    /// The checkpoint of a record.
    #[must_use]
    pub fn from_fields(fields: &Fields) -> Option<Self> {
        Self::from_lookup(|name| fields.get(name).map(String::as_str))
    }

    /// As [`Checkpoint::from_fields`], from whatever finds a field by its name.
    pub fn from_lookup<'a>(field: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        Self::from_field(field(FIELD)?)
    }
}

/// Whether a record has a checkpoint, also one that cannot be read.
pub(crate) fn has_checkpoint<'a>(field: impl Fn(&str) -> Option<&'a str>) -> bool {
    field(FIELD).is_some()
}

/// The version of a record's checkpoint alone: `None` also for one that cannot be read.
pub(crate) fn checkpoint_version_of<'a>(field: impl Fn(&str) -> Option<&'a str>) -> Option<u64> {
    field(FIELD)?.split_once('.')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn checkpoint(value: &[u8]) -> Checkpoint {
        Checkpoint {
            value: CheckpointValue::new(value).unwrap(),
            version: 9,
            token: FencingToken::from_u64(7).unwrap(),
            saved_at: UnixMillis(1_800_000_000_123),
        }
    }

    #[test]
    fn s23_a_value_has_at_most_2048_bytes() {
        assert!(CheckpointValue::new(&[0; 2_048]).is_ok());
        let error = CheckpointValue::new(&[0; 2_049]).unwrap_err();
        assert!(
            error.to_string().contains("2049") && error.to_string().contains("2048"),
            "{error}"
        );
    }

    #[test]
    fn s23_versions_grow_also_when_the_lock_was_made_again() {
        let token = FencingToken::from_u64(4_096_000).unwrap();
        assert_eq!(Checkpoint::next_version(None, token), 4_096_000);
        assert_eq!(Checkpoint::next_version(Some(4_096_000), token), 4_096_001);
        assert_eq!(Checkpoint::next_version(Some(5), token), 4_096_000);
    }

    #[test]
    fn s23_a_field_that_cannot_be_read_is_no_checkpoint() {
        for field in ["", "1.2.3", "x.1.1.", "1.0.1.", "1.1.1.!", "1.1.x.YQ"] {
            assert_eq!(Checkpoint::from_field(field), None, "{field:?}");
        }
    }

    #[test]
    fn s20_a_value_does_not_show_in_debug() {
        let shown = format!("{:?}", checkpoint(b"cursor-of-customer"));
        assert!(!shown.contains("cursor"), "{shown}");
        assert!(shown.contains("18 bytes"), "{shown}");
    }

    proptest! {
        #[test]
        fn s23_a_checkpoint_reads_back_as_it_was_saved(value in prop::collection::vec(any::<u8>(), 0..2_048)) {
            let saved = checkpoint(&value);
            let field = saved.to_field();
            prop_assert!(field.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(checkpoint_version_of(|_| Some(field.as_str())), Some(9));
            prop_assert_eq!(Checkpoint::from_field(&field), Some(saved));
        }
    }

    #[test]
    fn s23_a_checkpoint_is_there_though_it_cannot_be_read() {
        let has = |stored: Option<&'static str>| has_checkpoint(|_| stored);
        assert!(has(Some("no checkpoint")) && !has(None));
    }
}
