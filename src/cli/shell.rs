//! What is meant for a shell.

use leasehold_client::Grant;

use super::grant::GrantView;
use super::times::span;

/// The grant as lines that a shell reads as well as a person: `eval "$(leasehold acquire …)"`.
pub(crate) fn grant_text(grant: &Grant) -> String {
    let view = GrantView::from(grant);
    format!(
        "lease_id={}\nfencing_token={}\nlock_path={}\npermit={}\nvalid_for={}\nexpires_at={}",
        shell_word(&view.lease_id),
        view.fencing_token,
        shell_word(&view.lock_path),
        view.permit,
        span(grant.validity.valid_for).replace(' ', ""),
        view.expires_at.unwrap_or_default(),
    )
}

/// Text that a shell takes for one word, whatever is in it: a lock path in layout `webjobs` can hold
/// anything.
fn shell_word(text: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./~:@%+,=".contains(char);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant_for_a_shell_is_one_word_of_it() {
        for (text, word) in [
            ("leasehold/locks/h/a/~/FUNCTION", "leasehold/locks/h/a/~/FUNCTION"),
            ("x; rm -rf $HOME", "'x; rm -rf $HOME'"),
            ("it's `id`", r"'it'\''s `id`'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(text), word);
        }
    }
}
