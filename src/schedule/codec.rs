//! Parts of stored texts: instants that may be missing, and names without separators.

use crate::timetable::UtcSecond;

/// How a missing instant is written.
const NONE: &str = "-";

pub(super) fn write_instant(at: Option<UtcSecond>) -> String {
    at.map_or_else(|| NONE.to_owned(), |at| at.to_string())
}

/// The instant that [`write_instant`] wrote; none if it cannot be read.
pub(super) fn read_instant(text: &str) -> Option<Option<UtcSecond>> {
    if text == NONE { Some(None) } else { text.parse().ok().map(Some) }
}

/// The latest instant that can be written: what is beyond it is cut to it, so that a record can always be
/// read.
pub(super) fn writable(at: UtcSecond) -> UtcSecond {
    at.clamp(UtcSecond::FIRST, UtcSecond::LAST)
}
