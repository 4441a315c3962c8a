//! A lock's record as this sidecar knows it, kept small: there is one for each lock path (S5).

use std::collections::BTreeMap;

use crate::lock::{
    Checkpoint, ETag, FencingToken, Fields, RECORD_FIELDS, Record, Sharing, generation_of,
    is_handed_on, sharing_of, token_of,
};

/// A record as it was at some moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The version, then names and values in turn, each ended by a NUL: one allocation instead of a dozen. A
    /// name of ours is its place among them.
    packed: Box<str>,
}

/// What no field of a store has in it: they are header-safe.
const END: char = '\0';

impl Known {
    /// A record of this version with these fields.
    #[must_use]
    pub fn new(etag: &ETag, fields: &Fields) -> Self {
        let fields = || fields.iter().flat_map(|(name, value)| [short(name), value]);
        let parts = || std::iter::once(etag.0.as_str()).chain(fields());
        debug_assert!(parts().all(|part| !part.contains(END)), "a field is not header-safe");
        let mut packed = String::with_capacity(parts().map(|part| part.len() + 1).sum());
        for part in parts() {
            packed.push_str(part);
            packed.push(END);
        }
        Self { packed: packed.into_boxed_str() }
    }

    /// Its version.
    #[must_use]
    pub fn etag(&self) -> ETag {
        ETag(self.version().to_owned())
    }

    /// Whether this is its version.
    pub(super) fn is_version(&self, etag: &ETag) -> bool {
        self.version() == etag.0
    }

    fn version(&self) -> &str {
        self.packed.split(END).next().unwrap_or_default()
    }

    /// All its fields, those of others included.
    #[must_use]
    pub fn fields(&self) -> Fields {
        self.pairs().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// The fields that are ours.
    #[must_use]
    pub fn record(&self) -> Record {
        // All names are asked for: to look through what is packed for each would take long, at every event of
        // a share's lock.
        let fields: BTreeMap<&str, &str> = self.pairs().collect();
        Record::from_lookup(|name| fields.get(name).copied())
    }

    /// The lock's checkpoint (S25).
    #[must_use]
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        Checkpoint::from_lookup(|name| self.field(name))
    }

    /// The token alone: it is asked for at every turn while somebody waits.
    pub(super) fn token(&self) -> Option<FencingToken> {
        token_of(&|name: &str| self.field(name))
    }

    /// The generation alone: it is asked for at every grant (S16).
    pub(super) fn generation(&self) -> u64 {
        generation_of(&|name: &str| self.field(name))
    }

    /// The holder's place among others alone (S33, S34).
    pub(super) fn sharing(&self) -> Option<Box<Sharing>> {
        sharing_of(&|name: &str| self.field(name))
    }

    /// Whether its holder's sidecar hands the lock on (S10).
    pub(super) fn is_handed_on(&self) -> bool {
        is_handed_on(&|name: &str| self.field(name))
    }

    fn field(&self, name: &str) -> Option<&str> {
        let name = short(name);
        self.packed_pairs().find_map(|(field, value)| (field == name).then_some(value))
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.packed_pairs().map(|(name, value)| (long(name), value))
    }

    fn packed_pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut parts = self.packed.split_terminator(END).skip(1);
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }
}

/// What stands for a name of ours, in its order: control characters, which no name has.
const PLACES: &str = "\u{1}\u{2}\u{3}\u{4}\u{5}\u{6}\u{7}\u{8}\u{9}\u{a}\u{b}\u{c}\u{d}\u{e}\u{f}\u{10}\u{11}\u{12}\u{13}\u{14}\u{15}";

/// The name as it is packed.
fn short(name: &str) -> &str {
    let place = RECORD_FIELDS.iter().position(|ours| *ours == name);
    place.and_then(|place| PLACES.get(place..=place)).unwrap_or(name)
}

/// The name that was packed so.
fn long(packed: &str) -> &str {
    let place = PLACES.find(packed).filter(|_| !packed.is_empty());
    place.and_then(|place| RECORD_FIELDS.get(place)).copied().unwrap_or(packed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_of_ours_takes_a_byte() {
        let fields: Fields =
            RECORD_FIELDS.iter().map(|name| ((*name).to_owned(), "value".to_owned())).collect();
        let known = Known::new(&ETag("version".to_owned()), &fields);
        assert_eq!(known.packed.len(), "version".len() + 1 + fields.len() * (1 + 1 + 5 + 1));
        assert_eq!(known.fields(), fields);
        assert_eq!(known.etag(), ETag("version".to_owned()));
    }

    proptest! {
        #[test]
        fn fields_are_kept_as_they_are(
            fields in prop::collection::btree_map("[A-Za-z_]{1,9}", "[ -~]{0,20}", 0..9),
        ) {
            let known = Known::new(&ETag(String::new()), &fields);
            prop_assert_eq!(known.record(), Record::from_fields(&fields));
            prop_assert_eq!(known.fields(), fields);
        }

        #[test]
        fn the_parts_are_those_of_the_record(
            token: Option<u32>,
            handed_on: bool,
            (lease, generation) in (prop::option::of("[0-9a-f]{8}"), 0..3_u64),
        ) {
            let token = token.and_then(|token| FencingToken::from_u64(u64::from(token)));
            let record = Record { token, handed_on, lease, generation, ..Record::default() };
            let known = Known::new(&ETag(String::new()), &record.into_fields(Fields::new()));
            prop_assert_eq!((known.token(), known.is_handed_on()), (token, handed_on));
            prop_assert_eq!(known.generation(), known.record().generation);
        }
    }
}
