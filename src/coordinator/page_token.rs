//! Page tokens: where a listing goes on. They are sealed, because that is the name of a lock, which may be
//! one that the caller may not read; and because a caller that could make one would learn, place by place,
//! where locks are.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha2::{Digest as _, Sha256};

use super::entropy::{Entropy as _, SystemEntropy};

/// Places are filled up to a multiple of this, so that the length of a token does not tell that of a name.
const BLOCK: usize = 1_024;

/// Seals and opens the page tokens of one process, by a key that it alone has.
pub(crate) struct PageTokens {
    key: LessSafeKey,
    /// The number of the next token: no two have one nonce.
    next: AtomicU64,
}

impl fmt::Debug for PageTokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PageTokens").finish_non_exhaustive()
    }
}

impl PageTokens {
    pub(super) fn new() -> Self {
        // From the system even in a simulated world: what is in a token is seen by nobody.
        let secret = [SystemEntropy.bits(), SystemEntropy.bits()].map(u128::to_be_bytes);
        let secret = Sha256::digest(secret.concat());
        #[expect(clippy::expect_used, reason = "the key has the 32 bytes that a SHA-256 has")]
        let key = UnboundKey::new(&CHACHA20_POLY1305, &secret).expect("a key of the right length");
        Self { key: LessSafeKey::new(key), next: AtomicU64::new(0) }
    }

    /// The token of a place in the listing of `prefix`.
    pub(crate) fn seal(&self, prefix: &str, place: &str) -> String {
        let nonce = nonce(self.next.fetch_add(1, Ordering::Relaxed));
        let mut sealed = place.as_bytes().to_vec();
        sealed.resize(sealed.len().next_multiple_of(BLOCK).max(BLOCK), 0);
        let aad = Aad::from(prefix.as_bytes());
        let nonce_of = Nonce::assume_unique_for_key(nonce);
        #[expect(clippy::expect_used, reason = "only a text of many gigabytes cannot be sealed")]
        self.key.seal_in_place_append_tag(nonce_of, aad, &mut sealed).expect("a short text");
        URL_SAFE_NO_PAD.encode([nonce.as_slice(), &sealed].concat())
    }

    /// The place in the listing of `prefix`; none if this process has not sealed it for that listing.
    pub(crate) fn open(&self, prefix: &str, token: &str) -> Option<String> {
        let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>()?;
        let (nonce, mut sealed) = (Nonce::assume_unique_for_key(*nonce), sealed.to_vec());
        let place =
            self.key.open_in_place(nonce, Aad::from(prefix.as_bytes()), &mut sealed).ok()?;
        // No place ends in NUL, which no URL may contain.
        std::str::from_utf8(place).ok().map(|place| place.trim_end_matches('\0').to_owned())
    }
}

fn nonce(number: u64) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    if let Some((_, end)) = nonce.split_last_chunk_mut() {
        *end = number.to_be_bytes();
    }
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_opened_for_its_listing_only() {
        let (tokens, others) = (PageTokens::new(), PageTokens::new());
        for place in ["", "locks/a/nightly", &"x".repeat(BLOCK), &"\u{e9}".repeat(BLOCK)] {
            let token = tokens.seal("locks/a/", place);
            assert_eq!(tokens.open("locks/a/", &token).as_deref(), Some(place));
            assert_eq!(tokens.open("locks/b/", &token), None);
            assert_eq!(others.open("locks/a/", &token), None);
        }
    }

    #[test]
    fn two_tokens_of_one_place_differ() {
        let tokens = PageTokens::new();
        assert_ne!(tokens.seal("locks/", "a"), tokens.seal("locks/", "a"));
        assert_eq!(tokens.seal("locks/", "a").len(), tokens.seal("locks/", "a longer name").len());
        assert_ne!(nonce(1), nonce(256));
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let tokens = PageTokens::new();
        let token = tokens.seal("locks/", "a");
        for text in ["", "A", "a token", "AAAAAAAAAAAAAAAA", &token[1..], &token[..token.len() - 4]]
        {
            assert_eq!(tokens.open("locks/", text), None, "{text}");
        }
    }
}
