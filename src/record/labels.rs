//! What a holder says of itself, for people and tools.

use std::collections::BTreeMap;

use crate::lock::encoding::{decode, encode};
use crate::text::{Quoted, invisible_in};

/// Free key/value pairs that a caller gives to its hold, for people and tools to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::box_collection, reason = "each hold has one, and nearly none has labels")]
pub struct Labels(
    /// None where there are none, as in most records.
    Option<Box<BTreeMap<String, String>>>,
);

/// What there is without any.
static NONE: BTreeMap<String, String> = BTreeMap::new();

/// Why labels are refused (S19).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelsError {
    /// More labels than allowed.
    #[error("{count} labels were given; at most 16 are allowed")]
    TooMany {
        /// How many labels there are.
        count: usize,
    },
    /// Keys and values together are over the limit.
    #[error("labels have {length} bytes in all; at most 1,024 are allowed")]
    TooLong {
        /// Bytes of all keys and values.
        length: usize,
    },
    /// A key breaks the rule.
    #[error("label key {} must have 1 to 63 characters of A-Z a-z 0-9 . _ - /", Quoted(key))]
    Key {
        /// The key that is not valid.
        key: String,
    },
    /// A value has a control character, or one that nobody sees.
    #[error("the value of label {} has a control or invisible character", Quoted(key))]
    Value {
        /// The key of the label.
        key: String,
    },
}

impl Labels {
    /// Checks `labels`: at most 16, keys of 1 to 63 characters `A-Z a-z 0-9 . _ - /`, values without control
    /// or invisible characters, 1,024 bytes in all.
    ///
    /// # Errors
    /// Names the label and the limit.
    pub fn new(labels: BTreeMap<String, String>) -> Result<Self, LabelsError> {
        if labels.len() > 16 {
            return Err(LabelsError::TooMany { count: labels.len() });
        }
        let length = labels.iter().map(|(key, value)| key.len() + value.len()).sum();
        if length > 1_024 {
            return Err(LabelsError::TooLong { length });
        }
        let key_byte =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'/');
        for (key, value) in &labels {
            if !(1..=63).contains(&key.len()) || !key.bytes().all(key_byte) {
                return Err(LabelsError::Key { key: key.clone() });
            }
            if invisible_in(value).is_some() {
                return Err(LabelsError::Value { key: key.clone() });
            }
        }
        Ok(Self::of(labels))
    }

    /// The pairs, in the order of their keys.
    #[must_use]
    pub fn as_map(&self) -> &BTreeMap<String, String> {
        self.0.as_deref().unwrap_or(&NONE)
    }

    fn of(labels: BTreeMap<String, String>) -> Self {
        Self((!labels.is_empty()).then(|| Box::new(labels)))
    }

    /// As they stand in the record.
    pub(super) fn to_stored(&self) -> String {
        let pairs: Vec<String> = self
            .as_map()
            .iter()
            .map(|(key, value)| format!("{}={}", encode(key), encode(value)))
            .collect();
        pairs.join("&")
    }

    /// From the record; what cannot be read is left out.
    pub(super) fn from_stored(text: &str) -> Self {
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        Self::of(pairs.map(|(key, value)| (decode(key), decode(value))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s19_labels_have_limits() {
        let one = |key: &str, value: &str| {
            Labels::new(BTreeMap::from([(key.to_owned(), value.to_owned())]))
        };
        let name = "app.kubernetes.io/name";
        let labels = one(name, "Zürich 日本").unwrap();
        assert_eq!(labels.as_map().get(name).map(String::as_str), Some("Zürich 日本"));
        assert_eq!(labels.as_map().len(), 1);
        assert!(matches!(one("", "v"), Err(LabelsError::Key { .. })));
        assert!(matches!(one("a b", "v"), Err(LabelsError::Key { .. })));
        assert!(matches!(one(&"k".repeat(64), "v"), Err(LabelsError::Key { .. })));
        assert!(matches!(one("k", "a\nb"), Err(LabelsError::Value { .. })));
        assert!(matches!(one("k", "a\u{202e}b"), Err(LabelsError::Value { .. })));
        assert!(matches!(one("k", &"v".repeat(1_024)), Err(LabelsError::TooLong { .. })));
        let many = (0..17).map(|n| (n.to_string(), String::new())).collect();
        assert_eq!(Labels::new(many), Err(LabelsError::TooMany { count: 17 }));
    }
}
