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

/// Instants as RFC 3339.
pub(super) mod instant {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    use crate::timetable::UtcSecond;

    pub(in crate::schedule) fn serialize<S: Serializer>(
        at: &UtcSecond,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_str(at)
    }

    pub(in crate::schedule) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<UtcSecond, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// Instants that may be missing: `null`.
pub(super) mod optional_instant {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

    use crate::timetable::UtcSecond;

    pub(in crate::schedule) fn serialize<S: Serializer>(
        at: &Option<UtcSecond>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        at.map(|at| at.to_string()).serialize(to)
    }

    pub(in crate::schedule) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<UtcSecond>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}
