//! A hold by its lease id.

use super::{BreakNote, Deadline, HoldState, Validity};
use crate::proto;

/// A hold that is not over, as the sidecar knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HoldInfo {
    /// Until when the holder may act, unless renewed.
    pub validity: Validity,
    /// What the hold is doing.
    pub state: HoldState,
    /// When `max_hold` ends. `None` if there is no limit.
    pub max_hold_ends: Option<Deadline>,
    /// When the hold is lost unless progress is reported before. `None` if that is not watched.
    pub progress_due: Option<Deadline>,
    /// The path of the lock.
    pub lock_path: String,
    /// The token of the hold.
    pub fencing_token: u64,
    /// Counts how often the hold was resumed, from 1.
    pub generation: u64,
    /// Who broke the lock and why, where it was broken and that is known.
    pub break_note: Option<BreakNote>,
    /// Which permit of the lock is held: 0 for the lock's own path.
    pub permit: u32,
}

impl HoldInfo {
    pub(crate) fn from_wire(wire: proto::GetHoldResponse) -> Self {
        let state = HoldState::from_wire(wire.state());
        Self {
            validity: Validity::from_wire(&wire.validity.unwrap_or_default()),
            state,
            max_hold_ends: wire.max_hold_ends.map(Deadline::from_wire),
            progress_due: wire.progress_due.map(Deadline::from_wire),
            lock_path: wire.lock_path,
            fencing_token: wire.fencing_token,
            generation: wire.generation,
            break_note: wire.break_note.map(BreakNote::from_wire),
            permit: wire.permit,
        }
    }
}
