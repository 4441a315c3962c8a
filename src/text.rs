//! What people are shown of a text that somebody else wrote: cut where it is long, and never with characters
//! that nobody sees.
//!
//! Rules: S19. May import: nothing. To add a script's invisible characters: a range in [`is_invisible`].

use std::borrow::Cow;
use std::fmt;

/// Characters of a text that are repeated to people.
const MOST: usize = 100;

/// Whether a character is a control character, or one that is not seen: of no width, filling, or turning the
/// direction of those after it (Unicode's `Default_Ignorable_Code_Point`, bidirectional controls, and
/// separators of lines). Two names that differ only in these look the same.
#[must_use]
pub const fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// The first character of `text` that nobody would see.
#[must_use]
pub fn invisible_in(text: &str) -> Option<char> {
    text.chars().find(|character| is_invisible(*character))
}

/// A value in one line, as a terminal may show it: what is invisible is replaced.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    replaced(text, is_invisible, |shown, _| shown.push(char::REPLACEMENT_CHARACTER))
}

/// Lines as a terminal may show them.
#[must_use]
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    let is_odd = |character| is_invisible(character) && !matches!(character, '\n' | '\t');
    replaced(text, is_odd, |shown, _| shown.push(char::REPLACEMENT_CHARACTER))
}

/// A JSON document that is equal to `document`, and that a terminal may show: such characters stand in
/// strings only, and there they can be escaped.
#[must_use]
pub fn printable_json(document: &str) -> Cow<'_, str> {
    let is_odd = |character| is_invisible(character) && !matches!(character, '\n' | '\t');
    replaced(document, is_odd, |shown, character| {
        for unit in character.encode_utf16(&mut [0; 2]) {
            shown.push_str(&format!("\\u{unit:04x}"));
        }
    })
}

fn replaced(
    text: &str,
    is_odd: impl Fn(char) -> bool,
    replace: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    if !text.chars().any(&is_odd) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_odd(character) {
            replace(&mut shown, character);
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// A text as errors repeat it: in quotes, of a long one the beginning only.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'text>(pub &'text str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(MOST) {
            None => write!(formatter, "{:?}", self.0),
            Some((end, _)) => {
                let beginning = self.0.get(..end).unwrap_or_default();
                write!(formatter, "{beginning:?}… ({} bytes)", self.0.len())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s19_what_nobody_sees_is_known_and_what_people_write_is_not_taken_for_it() {
        for odd in "\0\t\n\u{1b}\u{7f}\u{85}\u{ad}\u{200b}\u{200d}\u{200e}\u{202e}\u{2066}\u{2069}\u{feff}\u{e0041}".chars() {
            assert!(is_invisible(odd), "{odd:?}");
        }
        for text in ["Keeper.Run", "Zürich-日本", "ключ 1", "مهمة", "समय", "✓ 🚀", "a b", "é"]
        {
            assert_eq!(invisible_in(text), None, "{text}");
        }
        assert_eq!(invisible_in("a\u{200b}b"), Some('\u{200b}'));
    }

    #[test]
    fn s19_a_terminal_is_shown_nothing_that_it_would_obey() {
        assert_eq!(printable("pod-1\u{1b}[2J\n\u{202e}x"), "pod-1\u{fffd}[2J\u{fffd}\u{fffd}x");
        assert_eq!(printable_lines("a\tb\n\u{202e}c\u{7}"), "a\tb\n\u{fffd}c\u{fffd}");
        assert!(matches!(printable("pod-1"), Cow::Borrowed(_)));
        let value = serde_json::json!({ "holder": "a\u{202e}b\u{e0041}\u{200b}", "lines": "1\n2" });
        let document = serde_json::to_string_pretty(&value).unwrap();
        let shown = printable_json(&document);
        assert!(shown.contains("a\\u202eb\\udb40\\udc41\\u200b"), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn s19_a_long_text_is_repeated_by_its_beginning() {
        assert_eq!(Quoted("a\u{202e}b").to_string(), "\"a\\u{202e}b\"");
        let whole = "é".repeat(MOST);
        assert_eq!(Quoted(&whole).to_string(), format!("\"{whole}\""));
        let long = "é".repeat(60_000);
        let shown = Quoted(&long).to_string();
        assert_eq!(shown, format!("\"{whole}\"… (120000 bytes)"));
    }
}
