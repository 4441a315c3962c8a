//! The value that is stored with a lock (S23).

use std::fmt;
use std::str::Utf8Error;
use std::time::SystemTime;

use super::moment;
use crate::constants::CHECKPOINT_BYTES;
use crate::errors::{Error, FieldViolation};
use crate::proto;

/// A small value stored with a lock: where the next holder goes on from. Only the current holder changes it.
/// Anybody who may read locks can read it: not for secrets.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checkpoint {
    /// The value, at most 2,048 bytes. May be empty, which is not the same as no checkpoint.
    pub value: Vec<u8>,
    /// Grows with each save of the lock's checkpoint, also when the lock was deleted and made again: 1 to
    /// 2^53 - 1.
    pub version: u64,
    /// The fencing token of the holder that saved it.
    pub fencing_token: u64,
    /// When it was saved, by the store's clock. `None` for what this hold has saved itself.
    pub saved_at: Option<SystemTime>,
}

impl fmt::Debug for Checkpoint {
    // The value may be long, and what it is like is the caller's affair.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Checkpoint")
            .field("bytes", &self.value.len())
            .field("version", &self.version)
            .field("fencing_token", &self.fencing_token)
            .field("saved_at", &self.saved_at)
            .finish()
    }
}

impl Checkpoint {
    /// The value as text.
    ///
    /// # Errors
    /// The value is not UTF-8.
    pub fn text(&self) -> Result<&str, Utf8Error> {
        std::str::from_utf8(&self.value)
    }

    pub(crate) fn from_wire(wire: proto::Checkpoint) -> Self {
        Self {
            saved_at: moment(wire.saved_at.as_ref()),
            value: wire.value,
            version: wire.version,
            fencing_token: wire.fencing_token,
        }
    }
}

/// Refuses a value that is too large, as the sidecar would: `field` is its name there (S19).
pub(crate) fn check_size(field: &str, value: &[u8]) -> Result<(), Error> {
    if value.len() <= CHECKPOINT_BYTES {
        return Ok(());
    }
    let description = format!(
        "has {} bytes; a checkpoint has at most {CHECKPOINT_BYTES}: store the data elsewhere, and save its address",
        value.len()
    );
    Err(Error::invalid(FieldViolation { field: field.to_owned(), description }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_text_if_it_is_utf_8() {
        let saved = |value: &[u8]| {
            Checkpoint::from_wire(proto::Checkpoint {
                value: value.to_vec(),
                ..proto::Checkpoint::default()
            })
        };
        assert_eq!(saved("page 7".as_bytes()).text(), Ok("page 7"));
        assert!(saved(b"\xff").text().is_err());
        assert!(!format!("{:?}", saved(b"page 7")).contains("page"));
    }
}
