//! Which requests a sidecar serves (S37).

use super::error::CallError;

/// The number that grows with each field of a request that changes what its caller gets.
/// proto/revisions.json says which field came with which.
pub const REVISION: u32 = 1;

/// Whether a sidecar of this revision serves what needs that one. Asked before anything is done for it.
///
/// # Errors
/// [`CallError::Needs`], with both.
pub const fn check_needs(needs: u32, revision: u32) -> Result<(), CallError> {
    if needs > revision { Err(CallError::Needs { needs, revision }) } else { Ok(()) }
}
