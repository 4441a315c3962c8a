//! What the lock of a schedule may be called.

use super::definition::DefinitionError;
use crate::lock::LockKey;

/// Bytes that function and scope of a schedule may have together (T3): its record is fuller than that of a
/// plain lock.
pub const MAX_KEY_BYTES: usize = 256;

/// Checks that the names of a schedule leave room for its record (T3).
///
/// # Errors
/// When function and scope have more than [`MAX_KEY_BYTES`] together.
pub fn check_key(key: &LockKey) -> Result<(), DefinitionError> {
    let bytes = key.function().len() + key.scope().len();
    if bytes > MAX_KEY_BYTES { Err(DefinitionError::Key { bytes }) } else { Ok(()) }
}
