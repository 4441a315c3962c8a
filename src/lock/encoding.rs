//! Percent encoding to names and header-safe ASCII, and back.

use std::fmt::Write as _;

/// `text` with every byte outside `A-Z a-z 0-9 . _ -` as `%XX` in upper case: safe in a
/// path, in a header and in a record's field.
#[must_use]
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// The text that [`encode`] made `encoded` from; what is no valid escape or UTF-8 is kept as well as it can
/// be, because a record written by somebody else must never stop a lock.
pub(crate) fn decode(encoded: &str) -> String {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escape = match (first, after) {
            (b'%', [high, low, ..]) => hex_digit(*high).zip(hex_digit(*low)),
            _ => None,
        };
        if let Some((high, low)) = escape {
            bytes.push(high * 16 + low);
            rest = after.get(2..).unwrap_or_default();
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The first `limit` bytes of `encoded` at the most, not cutting an escape.
pub(crate) fn cut(encoded: &str, limit: usize) -> &str {
    if encoded.len() <= limit {
        return encoded;
    }
    let head = encoded.get(..limit).unwrap_or_default();
    match head.rfind('%') {
        Some(start) if start + 3 > limit => head.get(..start).unwrap_or_default(),
        _ => head,
    }
}

/// `bytes` in lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

const fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_are_read_in_either_case() {
        assert_eq!(decode("%c3%bc%C3%BC%2f%2F"), "üü//");
    }

    proptest! {
        #[test]
        fn decoding_gives_back_what_was_encoded(text in ".*") {
            prop_assert_eq!(decode(&encode(&text)), text);
        }

        #[test]
        fn decoding_takes_anything(text in ".*") {
            decode(&text);
        }

        #[test]
        fn cut_never_splits_an_escape(text in ".{0,80}", limit in 0_usize..200) {
            let encoded = encode(&text);
            let head = cut(&encoded, limit);
            prop_assert!(head.len() <= limit);
            prop_assert!(encoded.starts_with(head));
            prop_assert!(head.len() + 3 > limit || head == encoded);
            let open = head.rfind('%').is_some_and(|start| start + 3 > head.len());
            prop_assert!(!open);
        }
    }
}
