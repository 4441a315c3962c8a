//! A lock's record as this sidecar knows it, kept small: there is one for each lock path (S5).

use crate::lock::{ETag, Fields, Record};

/// A record as it was at some moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    etag: ETag,
    /// Names and values in turn, each ended by a NUL: one allocation instead of a dozen.
    packed: Box<str>,
}

/// What no field of a store has in it: they are header-safe.
const END: char = '\0';

impl Known {
    /// A record of this version with these fields.
    #[must_use]
    pub fn new(etag: ETag, fields: &Fields) -> Self {
        let parts = || fields.iter().flat_map(|(name, value)| [name, value]);
        debug_assert!(parts().all(|part| !part.contains(END)), "a field is not header-safe");
        let mut packed = String::with_capacity(parts().map(|part| part.len() + 1).sum());
        for part in parts() {
            packed.push_str(part);
            packed.push(END);
        }
        Self { etag, packed: packed.into_boxed_str() }
    }

    /// Its version.
    #[must_use]
    pub const fn etag(&self) -> &ETag {
        &self.etag
    }

    /// All its fields, those of others included.
    #[must_use]
    pub fn fields(&self) -> Fields {
        let mut parts = self.packed.split_terminator(END).map(str::to_owned);
        std::iter::from_fn(|| Some((parts.next()?, parts.next()?))).collect()
    }

    /// The fields that are ours.
    #[must_use]
    pub fn record(&self) -> Record {
        Record::from_fields(&self.fields())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fields_are_kept_as_they_are(
            fields in prop::collection::btree_map("[A-Za-z_]{1,9}", "[ -~]{0,20}", 0..9),
        ) {
            prop_assert_eq!(Known::new(ETag(String::new()), &fields).fields(), fields);
        }
    }
}
