//! Run ids: what a run is completed by, at any sidecar, also after a restart (T8).

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::record::{Occasion, Run};
use crate::lock::{FencingToken, LockPath};

/// The longest run id as text: a path has about 1,100 bytes at most.
const MAX_BYTES: usize = 2_048;
/// Begins each id, so that a later form can be told from this one.
const FORM: &str = "1";
/// Bytes of the check.
const CHECK: usize = 6;

/// Names one run: the lock path, the occasion, the attempt and the token. Its text is opaque to callers.
/// Whether somebody may complete the run is decided by the access rules for its path: the id is no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunId {
    /// The lock of the schedule.
    pub path: LockPath,
    /// Why there is a run.
    pub occasion: Occasion,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// The token that it was granted with.
    pub token: FencingToken,
}

/// A text that is no run id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("run_id is not valid: {problem}; send the text that came with the run, unchanged")]
pub struct RunIdError {
    problem: &'static str,
}

impl RunId {
    /// Whether it names this run of its lock's.
    #[must_use]
    pub fn is_of(&self, run: &Run) -> bool {
        (&run.occasion, run.attempt, run.token) == (&self.occasion, self.attempt, self.token)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, occasion, attempt, token } = self;
        let inside = format!("{FORM} {occasion} {attempt} {token} {path}");
        let mut bytes = check(&inside).to_vec();
        bytes.extend(inside.as_bytes());
        formatter.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for RunId {
    type Err = RunIdError;

    fn from_str(text: &str) -> Result<Self, RunIdError> {
        let wrong = |problem| RunIdError { problem };
        if text.len() > MAX_BYTES {
            return Err(wrong("it is too long"));
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong("it has another form"))?;
        let (found, inside) =
            bytes.split_first_chunk::<CHECK>().ok_or_else(|| wrong("it is too short"))?;
        let inside = std::str::from_utf8(inside).map_err(|_| wrong("it has another form"))?;
        if *found != check(inside) {
            return Err(wrong("it was changed or cut"));
        }
        let mut parts = inside.splitn(5, ' ');
        if parts.next() != Some(FORM) {
            return Err(wrong("it was made by a newer version"));
        }
        read(&mut parts).ok_or_else(|| wrong("it has another form"))
    }
}

fn read(parts: &mut std::str::SplitN<'_, char>) -> Option<RunId> {
    let occasion = Occasion::read(parts.next()?)?;
    let attempt = parts.next()?.parse().ok()?;
    let token = FencingToken::from_u64(parts.next()?.parse().ok()?)?;
    Some(RunId { occasion, attempt, token, path: parts.next()?.parse().ok()? })
}

/// Tells accidents, not attackers.
fn check(inside: &str) -> [u8; CHECK] {
    Sha256::digest(inside).first_chunk().copied().unwrap_or_default()
}
