//! A stable offset for each name, so that schedules of one second do not start together (T13).

use sha2::{Digest as _, Sha256};

/// A number from 0 to `most`, evenly spread over the names, the same for a name on every machine.
pub(super) fn offset(name: &[u8], most: u64) -> u64 {
    let digest = Sha256::digest(name);
    let first = digest.first_chunk::<8>().copied().unwrap_or_default();
    // A share of the whole, not a remainder: when `most` changes a little, the offset does too.
    let share = u128::from(u64::from_be_bytes(first)) * (u128::from(most) + 1);
    u64::try_from(share >> 64).unwrap_or(most)
}
