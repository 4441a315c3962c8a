//! What a resume token says of a hold's bounds, as the coordinator makes it and reads it (S16).

use std::time::Duration;

use leasehold::hold::Terms;
use leasehold::time::UnixMillis;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// By the wall clock of the sidecar that made it.
    max_hold_ends: Option<UnixMillis>,
    max_hold: Option<Duration>,
    min_hold_ends: UnixMillis,
}

impl Kept {
    pub(crate) fn made(terms: &Terms, wall: UnixMillis) -> Self {
        Self {
            max_hold_ends: terms.max_hold.map(|span| wall + span),
            max_hold: terms.max_hold,
            min_hold_ends: wall + terms.min_hold,
        }
    }

    /// The terms to go on with; `believed` is how long the client may still believe.
    pub(crate) fn terms(&self, terms: &Terms, wall: UnixMillis, believed: Duration) -> Terms {
        let left = |ends: UnixMillis| ends.saturating_since(wall);
        let whole = self.max_hold.unwrap_or_default();
        let mut max_hold = self.max_hold_ends.map(|ends| left(ends).min(whole));
        if !terms.auto_renew {
            max_hold = Some(max_hold.map_or(believed, |span| span.min(believed)));
        }
        Terms { max_hold, min_hold: left(self.min_hold_ends), ..terms.clone() }
    }
}
